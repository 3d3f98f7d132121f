"""A view of an attribution without its session: its own method, no routes, no attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from attnflow.records import Attribution, FloatArray
from attnflow.views.explorer.parts import (
    describe_findings,
    describe_method,
    describe_rule,
    first_key,
    label_tokens,
    make_notes,
    model_name,
    predictions,
    to_grid,
)
from attnflow.views.explorer.schema import HeadScores, MethodDescription, PackedScores, View, pack
from attnflow.views.wording.findings import Finding, find
from attnflow.views.wording.names import has_layers, info_of, is_signed, method_id

SHOWN_OPTIONS = ("residual", "discard", "correction", "normalize")
MOST_SCORES = 500_000  # of a larger attribution, only the explained position is shown


def attribution_view(of: Attribution) -> View:
    """The view of an attribution."""
    if of.scores.size > MOST_SCORES:
        at = [of.queries.index(position) for position in of.pooled or (of.query,)]
        of = replace(of, scores=of.scores[..., at, :], queries=of.pooled or (of.query,))
    queries = list(of.queries)
    single, fused = of.scores.ndim == 4, of.scores if of.scores.ndim == 3 else of.scores.mean(1)
    found = find(of)
    said = of.statistics.get("model")
    model = said if isinstance(said, Mapping) else {}
    return {
        "text": of.text,
        "answer": of.options.get("answer"),
        "model": model_name(of.model),
        "head": str(model.get("head", "")),
        "methods": [_method(of)],
        "rule": describe_rule(str(of.options.get("edges", "attention"))),
        "causal": bool(model.get("causal", False)),
        "ordinary": of.ordinary,
        "blankable": [],
        **label_tokens(of.tokens, of),
        "grid": to_grid(of.grid),
        "image": None,
        "columns": ["input", *(f"L{layer}" for layer in range(1, of.depth + 1))],
        "ends": list(range(1, of.depth + 1)),
        "heads": of.scores.shape[1] if single else 0,
        "layer": of.layer,
        "query": of.query,
        "key": first_key(found.order, of.tokens, of),
        "options": {name: of.options.get(name) for name in SHOWN_OPTIONS},
        "said": predictions(of.prediction),
        "said_at": None if of.prediction is None else of.prediction.position,
        "replacement": None,
        "scores": [_scores(of, fused)],
        "head_methods": [_id(of)] if single else [],
        "head_scores": [_head_scores(of, at) for at in range(len(queries))] if single else [],
        "edges": None,
        "amounts": None,
        "sources": [],
        "traces": [],
        "blanked": [],
        "findings": describe_findings([found], [(of.layer, of.query)]),
        "agreement": "",
        "notes": [
            *make_notes(of.warnings, len(of.pooled), of.tokens[of.query]),
            *_unchecked(of, found),
        ],
    }


def _unchecked(of: Attribution, found: Finding) -> list[str]:
    """That scores alone don't tell whether a word speaks for the answer."""
    if of.prediction is None or of.grid is not None or found.evidence:
        return []
    return ["Not checked by blanking, for which the model runs again: attnflow.explore does it."]


def _id(of: Attribution) -> str:
    return method_id(of.method, str(of.options.get("edges", "attention")))


def _method(of: Attribution) -> MethodDescription:
    """Its method by what its own scores say, whether or not the method is registered here."""
    return {
        **describe_method(
            of.method, edges=str(of.options.get("edges", "attention")), ratio=_is_ratio(of)
        ),
        "first": True,
        "signed": is_signed(of),
        "layered": has_layers(of),
        # Lines can be drawn of scores of layers; routes are not saved.
        "traced": info_of(of).traced and has_layers(of),
    }


def _scores(of: Attribution, fused: FloatArray) -> PackedScores:
    packed: PackedScores = {
        "method": _id(of),
        "layers": list(of.layers),
        "queries": list(of.queries),
        "values": pack(fused),
    }
    if of.word_ids is not None:
        packed["words"] = pack(_word_scores(of, fused))
    return packed


def _head_scores(of: Attribution, at: int) -> HeadScores:
    values = of.scores[:, :, at]
    packed: HeadScores = {
        "method": _id(of),
        "layers": list(of.layers),
        "query": of.queries[at],
        "values": pack(values),
    }
    if of.word_ids is not None:
        packed["words"] = pack(_word_scores(of, values))
    return packed


def _word_scores(of: Attribution, values: FloatArray) -> FloatArray:
    """Values ``[…, key]`` with words for keys: sums over tokens, means where they are ratios."""
    sums: FloatArray = np.add.reduceat(values, [group[0] for group in of.groups], axis=-1)
    return sums / [len(group) for group in of.groups] if _is_ratio(of) else sums


def _is_ratio(of: Attribution) -> bool:
    return of.options.get("correction") == "uniform"
