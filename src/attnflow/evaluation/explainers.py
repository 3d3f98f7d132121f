"""The scores of everything that is evaluated: methods, and baselines that are always there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError, unknown
from attnflow.evaluation.metrics.metric import Erase
from attnflow.evaluation.result import Explainer
from attnflow.io.rows import Row
from attnflow.methods import METHODS
from attnflow.methods.erasing import DELETE, MEAN, Eraser, read_target
from attnflow.pipeline.prepare import open_sessions, prepare
from attnflow.pipeline.request import AUTO, LOGIT, POSITION, Request
from attnflow.records import FloatArray

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens
    from attnflow.pipeline.session import Session

REFERENCES = ("blank-out", "gradient-norm")
COMPUTED = ("gradient-input", "integrated")  # baselines that are methods
DRAWN = ("random", "first", "last")
LAST_LAYER = "raw"
BESIDE = "lrp"  # shown with flow on relevance: the sum over all paths of the same edges
FILLERS = ("unk", "mask", "delete", "mean")
MARKED = 0.5  # of a word's rationale: from this on people marked it
FEWEST = 2  # tokens that can be put in an order


@dataclass(eq=False)
class Text:
    """What is known of one text before metrics are measured."""

    row: int
    scores: dict[Explainer, FloatArray] = field(default_factory=dict)
    references: dict[str, FloatArray] = field(default_factory=dict)
    erasers: dict[str, Erase] = field(default_factory=dict)
    value: float = 0.0
    rationale: FloatArray | None = None
    # Edges, method and a correction, if it is not the usual, that `attnflow.explain` would use.
    chosen: tuple[str, str, str | None] = ("", "", None)


def make_configs(
    names: tuple[str, ...], edges: Sequence[str], request: Request
) -> list[tuple[Request, tuple[str, ...]]]:
    """For each rule its request and methods; what reads no edges comes with the first.

    The rule ``"auto"`` is what `attnflow.explain` chooses, edges and method, with layer-wise
    relevance where that is on relevance. From the logit, single layers have no scores.
    """
    on_edges = [name for name in names if METHODS[name].reads_edges]
    others = [name for name in names if name not in on_edges]
    alone = tuple(dict.fromkeys([*others, *COMPUTED, *REFERENCES]))
    shown = tuple(dict.fromkeys((LAST_LAYER, *on_edges, *alone)))
    plain = replace(request, source=POSITION)
    attention = replace(plain, method=LAST_LAYER, methods=shown)
    found = []
    for rule in dict.fromkeys(("attention", *edges)):
        asked = tuple(on_edges) if rule in edges else ()
        if request.source == LOGIT:
            if rule == "attention":
                found.append((attention, alone))
            if asked:
                own = replace(request, method=asked[0], methods=asked, edges=rule)
                found.append((own, asked))
        elif rule == AUTO:
            found.append((plain, (AUTO, BESIDE)))
        elif rule == "attention":
            found.append((attention, (*asked, *alone)))
        elif asked:
            found.append((replace(attention, method=asked[0], methods=asked, edges=rule), asked))
    return found


def check_fillers(model: ModelAdapter, fillers: Sequence[str]) -> None:
    """Refuse fillers that a model does not have."""
    for name in fillers:
        if name not in FILLERS:
            raise InputError(unknown("replacement", name, FILLERS))
        if name != MEAN.name:
            model.filler(name)
        elif not model.edits_words:
            msg = f"replacement='mean' needs a model of one text; {model.name} is another kind"
            raise InputError(msg)


def make_erase(session: Session, filler: str) -> Erase:
    """The target's probability without sets of tokens, counted among those that can be removed.

    NaN where nothing would be left to read.
    """
    model, tokens, positions = session.adapter, session.tokens, session.blanking.positions
    replacement = MEAN if filler == MEAN.name else model.filler(filler)
    eraser = Eraser(model, tokens, replacement, read_target(model, tokens, session.target))

    def erase(sets: Sequence[tuple[int, ...]]) -> FloatArray:
        found = np.full(len(sets), np.nan)
        most = len(tokens) - (filler == DELETE.name)
        places = [place for place, each in enumerate(sets) if len(each) <= most]
        asked = [[positions[each] for each in sets[place]] for place in places]
        found[places] = eraser.without(asked)
        return found

    return erase


def score_texts(
    adapter: ModelAdapter,
    rows: Sequence[Row],
    found: Sequence[Text],
    configs: Sequence[tuple[Request, tuple[str, ...]]],
    fillers: Sequence[str],
    asked: Sequence[str],
) -> None:
    """Fill in the scores of all texts."""
    targets = [row.target for row in rows]
    named = any(target is not None for target in targets)
    for config, methods in configs:
        towards = config.uses_target or (named and AUTO in methods)
        given = replace(config, target=targets) if towards else config
        prepared = prepare(given, adapter, [row.item for row in rows], files=False)
        for place, session in open_sessions(prepared):
            text, positions = found[place], session.blanking.positions
            if not text.erasers:
                for filler in fillers:
                    text.erasers[filler] = make_erase(session, filler)
                text.value = float(next(iter(text.erasers.values()))([()])[0])
                text.rationale = mark_tokens(rows[place].rationale, session.tokens, positions)
            if len(positions) >= FEWEST:
                _score_one(text, session, methods, asked, np.array(positions))


def _score_one(
    text: Text, session: Session, methods: Sequence[str], asked: Sequence[str], at: Any
) -> None:
    for name in methods:
        if AUTO in methods and name == BESIDE and session.config.edges != "relevance":
            continue
        method = session.config.method if name == AUTO else name
        one = session.attribution(method, only_asked=True)
        if not METHODS[method].reads_edges:
            scores = one.values[at]
            if method in REFERENCES:
                text.references[method] = scores
            if method not in REFERENCES or method in asked:
                key = Explainer(method, baseline=method in COMPUTED)
                text.scores.setdefault(key, scores)
            continue
        edges, source = session.config.edges, session.config.source
        if name == AUTO:
            named = session.config.correction
            text.chosen = edges, method, None if named == AUTO else named
            method, edges = AUTO, AUTO
        for layer in one.layers:
            key = Explainer(method, edges, layer)
            if source == LOGIT:
                key = Explainer(method, edges, source=source)
            text.scores[key] = one.row(layer)[at]
    same = Explainer(LAST_LAYER, "attention", session.depth)
    if session.config.edges == "attention" and same not in text.scores:
        key = Explainer("last-layer attention", baseline=True)
        text.scores[key] = _last_layer(session)[at]


def _last_layer(session: Session) -> FloatArray:
    """Raw attention of the last layer, from where the model decides."""
    asked = session.forward.pooled or (session.query,)
    scores = session.scores(LAST_LAYER, [session.depth], asked).values[0]
    mean: FloatArray = scores.mean(0)
    return mean


def name_default(found: Sequence[Text]) -> None:
    """Call what `attnflow.explain` chooses by its name, where that is the same for all texts."""
    (edges, method, correction), *others = {text.chosen for text in found}
    if others or not method:
        return

    def name(key: Explainer) -> Explainer:
        if key.edges != AUTO:
            return key
        return replace(key, method=method, edges=edges, correction=correction)

    for text in found:
        text.scores = {name(key): scores for key, scores in text.scores.items()}


def keep_common(found: Sequence[Text]) -> None:
    """Leave out what only some texts have scores of."""
    for text in found:
        text.scores = {
            key: scores
            for key, scores in text.scores.items()
            if all(key in other.scores for other in found)
        }


def add_drawn(found: Sequence[Text], seed: int) -> None:
    """Tokens in random order, from the first, and from the last."""
    for text in found:
        size = len(next(iter(text.scores.values())))
        places = np.arange(size, dtype=np.float64)
        chance = np.random.default_rng([seed, text.row])
        for name, scores in zip(DRAWN, (chance.random(size), -places, places), strict=True):
            text.scores[Explainer(name, baseline=True)] = scores


def mark_tokens(
    weights: Sequence[float] | None, tokens: Tokens, positions: Sequence[int]
) -> FloatArray | None:
    """1 for each of the tokens at these positions whose word is marked, and 0 for the others."""
    if weights is None:
        return None
    if tokens.word_ids is None:
        msg = "rationales need a tokenizer that tells where its tokens stand in the text"
        raise InputError(msg)
    count = len(tokens.text.split())
    if len(weights) != count:
        msg = f"{tokens.text!r} has {count} words and {len(weights)} marks; give one for each word"
        raise InputError(msg)
    starts, at = [], 0
    for word in tokens.word_texts:
        at = max(at, tokens.text.find(word, at))
        starts.append(len(tokens.text[:at].split()) - _inside(tokens.text, at))
        at += len(word)
    marked = [abs(weight) >= MARKED for weight in weights]
    words = [tokens.word_ids[position] for position in positions]
    return np.array([0.0 if word is None else float(marked[starts[word]]) for word in words])


def _inside(text: str, at: int) -> int:
    """1 where a word that blanks separate began before this place and goes on here."""
    return int(at > 0 and not text[at - 1].isspace())
