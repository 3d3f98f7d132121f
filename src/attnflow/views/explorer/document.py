"""A study, or an attribution alone, as the JSON document that feeds the page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import attnflow
from attnflow.aggregation import METHODS
from attnflow.pipeline.session import Check, Session, go_on
from attnflow.records import Attribution, FloatArray, PatchGrid
from attnflow.records.words import word_groups
from attnflow.views.explorer.blanking import blank, blankable, replacement, said
from attnflow.views.explorer.schema import (
    FORMAT,
    Document,
    Edges,
    Grid,
    HeadScores,
    MethodDescription,
    Named,
    Rule,
    Scores,
    View,
    Words,
    pack,
)
from attnflow.views.explorer.traces import trace_path
from attnflow.views.labels import printable
from attnflow.views.methods import method_info
from attnflow.views.scaling import not_special

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens

DRAWN_EDGES = 40_000  # edges of attention in a document, shared by all positions
RULE: Rule = {"name": "attention", "title": "Attention"}
SHOWN_OPTIONS = ("residual", "discard", "correction", "normalize")
MOST_SCORES = 500_000  # of an attribution; of a larger one only the position asked about is shown
FEWEST_EDGES = 4  # of a position, however many there are


@dataclass(frozen=True)
class Extent:
    """How much of a study goes into its document; the rest is asked of a server, or left out.

    Attributes:
        all_queries: Up to this many tokens, every position can be asked about.
        flow: Up to this many tokens, flow is there from the start.
        pairs: At most this many (layer, token) pairs are traced.
        heads: At most this many flows of single heads are computed.
        blanks: Up to this many tokens, each is blanked out.
    """

    all_queries: int
    flow: int
    pairs: int
    heads: int
    blanks: int


SERVED = Extent(all_queries=32, flow=64, pairs=1, heads=0, blanks=0)
ALONE = Extent(all_queries=40, flow=1024, pairs=400, heads=20_000, blanks=128)


def document(views: Sequence[View], method: str = "flow", *, words: bool = False) -> Document:
    """One view, or two to compare, and how they are shown at first."""
    return {
        "format": FORMAT,
        "library": attnflow.__version__,
        "views": list(views),
        "method": method,
        "words": words,
    }


def to_json(content: Any) -> str:
    """JSON that no HTML parser reads as markup, wherever it stands."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "backslashreplace").decode()  # lone surrogates are no UTF-8


def view_of(study: Session, extent: Extent, check: Check = go_on, image: str | None = None) -> View:
    """One input with what the page needs at once."""
    tokens, query = study.reading.tokens, study.reading.query
    layers = list(range(1, study.depth + 1))
    queries = list(range(study.size)) if study.size <= extent.all_queries else [query]
    methods = [name for name in METHODS if name != "flow" or study.size <= extent.flow]
    scores = [scores_of(study, method, layers, queries, check) for method in methods]
    top = study.scores("rollout", [study.depth], [query])[0, 0]
    key = first_key(top, tokens.names, tokens, query)
    view: View = {
        "text": tokens.text,
        "target": tokens.target,
        "model": model_name(study.adapter.name),
        "head": str(study.adapter.description["head"]),
        "methods": describe_methods(METHODS),
        "rule": RULE,
        "causal": study.reading.record.causal,
        "ratio": study.correction == "uniform",
        "ordinary": not_special(tokens, study.size),
        "blankable": [] if replacement(study) is None else blankable(study),
        **_named(tokens.names, tokens),
        "grid": _grid(tokens.grid),
        "image": image,
        "columns": _columns(study),
        "ends": list(study.reading.record.steps),
        "heads": study.heads,
        "options": {
            "residual": study.choices.plan("flow").edges.residual,
            "discard": study.choices.discard,
            "correction": study.correction,
        },
        "layer": study.depth,
        "query": query,
        "key": key,
        "said": said(study.prediction),
        "said_at": None if study.prediction is None else study.prediction.position,
        "replacement": replacement(study),
        "scores": scores,
        "head_scores": [
            heads_of(study, method, layers, query, check)
            for method in methods
            if method != "flow" or study.depth * study.heads * study.size <= extent.heads
        ],
        "edges": _attention(study.fused.layers),
        "traces": [],
        "blanked": [],
    }
    for layer, token in _pairs(top, study.depth, extent.pairs, key):
        check()
        view["traces"] += [
            trace_path(study, method, layer, query, token)
            for method in methods
            if method_info(method).reaches_input  # else its score is one edge, drawn as it is
        ]
    if view["replacement"] is not None and study.size <= extent.blanks:
        view["blanked"] = blank(study, [[at] for at in blankable(study)], check)
    return view


def model_name(name: str) -> str:
    """A model's name without the place on the disk that it was loaded from."""
    path = Path(name)
    return "/".join(path.parts[-2:]) if path.is_absolute() else name


def scores_of(
    study: Session, method: str, layers: Sequence[int], queries: Sequence[int], check: Check = go_on
) -> Scores:
    """Scores of chosen layers and positions, packed."""
    values = pack(study.scores(method, layers, queries, check))
    found: Scores = {
        "method": method,
        "layers": list(layers),
        "queries": list(queries),
        "values": values,
    }
    if study.splits_words:
        found["words"] = pack(study.scores(method, layers, queries, check, words=True))
    elif study.reading.tokens.word_ids is not None:
        found["words"] = values  # every word is one token
    return found


def heads_of(
    study: Session, method: str, layers: Sequence[int], query: int, check: Check = go_on
) -> HeadScores:
    """Scores of single heads, packed."""
    values = pack(study.head_scores(method, layers, query, check))
    found: HeadScores = {"method": method, "layers": list(layers), "query": query, "values": values}
    if study.splits_words:
        found["words"] = pack(study.head_scores(method, layers, query, check, words=True))
    elif study.reading.tokens.word_ids is not None:
        found["words"] = values
    return found


def first_key(
    values: FloatArray, tokens: Sequence[str], of: Tokens | Attribution, query: int
) -> int:
    """The token that is traced at first: the highest-scored one that is a word of the input."""
    others = [at for at in not_special(of, len(tokens)) if at != query]
    source = [at for at in others if of.segments is None or of.segments[at] != "target"]
    words = [at for at in source if any(letter.isalnum() for letter in tokens[at])]
    choice = words or source or others or list(range(len(values)))
    return max(choice, key=lambda at: float(values[at]))


def describe_methods(names: Iterable[str]) -> list[MethodDescription]:
    """What the page must know about the methods it shows, in their order."""
    known = [(name, method_info(name)) for name in names]
    return [
        {
            "name": name,
            "title": info.title,
            "label": info.label,
            "slot": info.slot,
            "reaches_input": info.reaches_input,
            "traced": info.traced,
        }
        for name, info in known
    ]


def attribution_view(of: Attribution) -> View:
    """What an attribution alone can show: its own method, no routes and no attention."""
    from attnflow.models.heads import CAUSAL

    if of.scores.size > MOST_SCORES:
        at = of.queries.index(of.query)
        of = replace(of, scores=of.scores[..., at : at + 1, :], queries=(of.query,))
    layers, queries = list(of.layers), list(of.queries)
    single, fused = of.scores.ndim == 4, of.scores if of.scores.ndim == 3 else of.scores.mean(1)
    row = fused[layers.index(of.layer), queries.index(of.query)]
    head = str(of.statistics.get("model", {}).get("head", ""))
    correction = of.options.get("correction")
    return {
        "text": of.text,
        "target": of.options.get("target"),
        "model": model_name(of.model),
        "head": head,
        "methods": describe_methods([of.method]),
        "rule": RULE,
        "causal": head == CAUSAL.name or correction is not None,  # others are never corrected
        "ratio": correction == "uniform",
        "ordinary": not_special(of, len(of.tokens)),
        "blankable": [],
        **_named(of.tokens, of),
        "grid": _grid(of.grid),
        "image": None,
        "columns": ["input", *(f"L{layer}" for layer in range(1, max(layers) + 1))],
        "ends": list(range(1, max(layers) + 1)),
        "heads": of.scores.shape[1] if single else 0,
        "layer": of.layer,
        "query": of.query,
        "key": first_key(row, of.tokens, of, of.query),
        "options": {name: of.options.get(name) for name in SHOWN_OPTIONS},
        "said": said(of.prediction),
        "said_at": None if of.prediction is None else of.prediction.position,
        "replacement": None,
        "scores": [_scores_alone(of, fused)],
        "head_scores": [_heads_alone(of, at) for at in range(len(queries))] if single else [],
        "edges": None,
        "traces": [],
        "blanked": [],
    }


def _scores_alone(of: Attribution, fused: FloatArray) -> Scores:
    found: Scores = {
        "method": of.method,
        "layers": list(of.layers),
        "queries": list(of.queries),
        "values": pack(fused),
    }
    if of.word_ids is not None:
        found["words"] = pack(_word_scores(of, fused))
    return found


def _heads_alone(of: Attribution, at: int) -> HeadScores:
    values = of.scores[:, :, at]
    found: HeadScores = {
        "method": of.method,
        "layers": list(of.layers),
        "query": of.queries[at],
        "values": pack(values),
    }
    if of.word_ids is not None:
        found["words"] = pack(_word_scores(of, values))
    return found


def _word_scores(of: Attribution, values: FloatArray) -> FloatArray:
    """Values ``[…, key]`` with words for keys: sums over tokens, means where they are ratios."""
    groups = word_groups(of.word_ids or ())
    sums: FloatArray = np.add.reduceat(values, [group[0] for group in groups], axis=-1)
    ratio = of.options.get("correction") == "uniform"
    return sums / [len(group) for group in groups] if ratio else sums


def _named(names: Sequence[str], of: Tokens | Attribution) -> Named:
    return {
        "tokens": list(names),
        "labels": [printable(name) for name in names],
        "words": None if of.word_ids is None else _words(names, of.word_ids, of.word_texts),
        "segments": None if of.segments is None else list(of.segments),
    }


def _words(names: Sequence[str], ids: Sequence[int | None], texts: Sequence[str]) -> Words:
    groups = word_groups(ids)
    words = [ids[group[0]] for group in groups]
    return {
        "groups": [list(group) for group in groups],
        "labels": [
            printable(names[group[0]] if word is None else texts[word])
            for group, word in zip(groups, words, strict=True)
        ],
    }


def _grid(grid: PatchGrid | None) -> Grid | None:
    if grid is None:
        return None
    height, width = grid.image
    left, top, right, bottom = grid.box
    return {
        "rows": grid.rows,
        "columns": grid.columns,
        "box": [left / width, top / height, right / width, bottom / height],
    }


def _columns(study: Session) -> list[str]:
    """A name for each step of the graph; an encoder–decoder says which kind of step it is."""
    record = study.reading.record
    if record.ends is None:
        return ["input", *(f"L{layer}" for layer in range(1, study.depth + 1))]
    names = {}
    before = 0
    for layer, end in enumerate(record.steps, start=1):
        names[end] = f"L{layer}"
        if end - before == 2:
            names[end - 1] = f"L{layer} self"
            names[end] = f"L{layer} cross"
        before = end
    return ["input", *(names[step] for step in sorted(names))]


def _attention(layers: Sequence[Any]) -> Edges:
    """The strongest edges of every position: all of them where there are few tokens."""
    weights = np.stack([np.asarray(layer, dtype=np.float64) for layer in layers])
    steps, size = weights.shape[:2]
    kept = min(size, max(FEWEST_EDGES, DRAWN_EDGES // (steps * size)))
    keys = np.argpartition(-weights, kept - 1, axis=-1)[..., :kept]
    found = np.take_along_axis(weights, keys, -1)
    step, query = np.indices(keys.shape)[:2]
    there = found > 0
    order = np.argsort(-found[there], kind="stable")
    return {
        "step": pack(step[there][order] + 1, "u2"),
        "query": pack(query[there][order], "u2"),
        "key": pack(keys[there][order], "u2"),
        "weight": pack(found[there][order]),
        "kept": int(kept),
    }


def _pairs(top: FloatArray, depth: int, most: int, key: int) -> list[tuple[int, int]]:
    """Which (layer, token) pairs are traced: all, or the highest-scored of the last layer."""
    everything = [(layer, at) for layer in range(1, depth + 1) for at in range(len(top))]
    if len(everything) <= most:
        return everything
    order = [key, *(int(at) for at in np.argsort(-top, kind="stable") if at != key)]
    return [(depth, at) for at in order[: max(1, most // 20)]]
