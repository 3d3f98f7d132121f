"""Tables 1 and 2: agreement of attention with importance, layer by layer.

And the same at the last layer for what attnflow uses now, next to the paper's methods.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from attnflow.api.explain import explain
from attnflow.evaluation.agreement import agreement, summarize
from attnflow.evaluation.importance import blank_out, gradients
from attnflow.models.adapter import ModelAdapter
from attnflow.pipeline.prepare import open_sessions, prepare
from attnflow.pipeline.request import Request
from attnflow.records import Attribution

METHODS = ("raw", "rollout", "flow")  # the paper's own
BESIDE: dict[str, dict[str, Any]] = {
    **{
        f"{method} on attention, the paper": {"edges": "attention", "method": method}
        for method in METHODS
    },
    "flow on relevance": {"edges": "relevance", "method": "flow"},
    "lrp, its rollout": {"method": "lrp"},
    "rollout on ALTI": {"edges": "alti", "method": "rollout"},
    "attention × gradient": {"edges": "gradient", "method": "direct-all"},
    "integrated gradients": {"method": "integrated"},
}
Explained = dict[str, list[Attribution]]
"""Method → one explanation per text."""
Importances = dict[str, list[Attribution]]
"""Importance → one attribution per text."""
Correlations = dict[str, dict[str, list[list[float]]]]
"""Importance → method → for each text one correlation per layer."""
Table = dict[str, dict[str, list[dict[str, float]]]]
"""Importance → method → one cell per layer: mean, std, count, undefined."""
Measure = Callable[[Sequence[str], Sequence[int], ModelAdapter], Importances]
"""(texts, labels, model) → their importances."""


def explanations(
    texts: Sequence[str], model: ModelAdapter, *, query: str | None = None
) -> Explained:
    """Every method's scores of every text, for all layers; the model reads each text once."""
    config = Request(method="flow", edges="attention", layers="all", query=query, batch_size=64)
    found = {
        place: [session.attribution(method) for method in METHODS]
        for place, session in open_sessions(prepare(config, model, list(texts)))
    }
    rows = [found[place] for place in range(len(texts))]
    return {method: [row[at] for row in rows] for at, method in enumerate(METHODS)}


def blank_out_importance(
    texts: Sequence[str], labels: Sequence[int], model: ModelAdapter
) -> Importances:
    """Table 1: |Δ P(right label)| with each token replaced by UNK, as in the paper, or deleted."""
    return {
        name: blank_out(list(texts), model, replacement=name, target=list(labels))
        for name in ("unk", "delete")
    }


def gradient_importance(
    texts: Sequence[str], labels: Sequence[int], model: ModelAdapter
) -> Importances:
    """Table 2: the norm of the gradient, and |gradient × embedding|."""
    found = {
        kind: gradients(list(texts), model, kind=kind, target=list(labels))
        for kind in ("norm", "input")
    }
    found["input"] = [
        dataclasses.replace(item, scores=np.abs(item.scores)) for item in found["input"]
    ]
    return found


def agreements(rows: Sequence[tuple[str, int]], model: ModelAdapter) -> Correlations:
    """At the last layer, the paper's methods and others; where scores have a sign, their size."""
    texts, labels = zip(*rows, strict=True)
    importances = {
        **blank_out_importance(texts, labels, model),
        **gradient_importance(texts, labels, model),
    }
    found: Correlations = {name: {} for name in importances}
    for way, options in BESIDE.items():
        explained = [
            dataclasses.replace(one, scores=np.abs(one.scores))
            for one in explain(list(texts), model, **options, batch_size=64)
        ]
        for name, measured in importances.items():
            found[name][way] = [
                [agreement(one, importance)]
                for one, importance in zip(explained, measured, strict=True)
            ]
    return found


def correlate(
    explained: Explained, importances: Importances, layers: Sequence[int]
) -> Correlations:
    """Spearman's correlation of each text's scores with its importance, per layer."""
    return {
        name: {
            method: [
                [agreement(one, importance, layer) for layer in layers]
                for one, importance in zip(found, measured, strict=True)
            ]
            for method, found in explained.items()
        }
        for name, measured in importances.items()
    }


def summarize_pieces(pieces: Sequence[Correlations]) -> Table:
    """Mean ± standard deviation over the texts of all pieces."""
    return {
        name: {
            method: [
                dataclasses.asdict(summarize(layer))
                for layer in _by_layer(piece[name][method] for piece in pieces)
            ]
            for method in methods
        }
        for name, methods in pieces[0].items()
    }


def _by_layer(pieces: Iterable[list[list[float]]]) -> Iterator[tuple[float, ...]]:
    return zip(*chain.from_iterable(pieces), strict=True)
