"""Tables 1, 2 and 3: how attention agrees with importance, layer by layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attnflow.api import explain
from attnflow.evaluation.agreement import agreement, summarize
from attnflow.evaluation.blank_out import blank_out
from attnflow.evaluation.gradients import gradients
from attnflow.models.reading import Adapter
from attnflow.records import Attribution, FloatArray

METHODS = ("raw", "rollout", "flow")
Table = dict[str, dict[str, list[dict[str, float]]]]
"""Importance → method → one cell a layer: mean, std, count, undefined."""
Importances = dict[str, list[Attribution]]


def explanations(
    texts: Sequence[str], model: Adapter, *, progress: bool, query: str | None = None
) -> dict[str, list[Attribution]]:
    """Every method's scores of every text, for all layers."""
    found = {}
    for method in METHODS:
        options = {"method": method, "query": query, "batch_size": 64, "progress": progress}
        found[method] = explain(list(texts), model, **options)
    return found


def blanked(
    texts: Sequence[str], labels: Sequence[int], model: Adapter, *, progress: bool
) -> Importances:
    """Table 1: |Δ P(right label)|, a token replaced by UNK as in the paper; and deleted."""
    return {
        name: blank_out(
            list(texts), model, replacement=name, target=list(labels), progress=progress
        )
        for name in ("unk", "delete")
    }


def sloped(
    texts: Sequence[str], labels: Sequence[int], model: Adapter, *, progress: bool
) -> Importances:
    """Table 2: the gradient's norm, and the size of gradient × embedding."""
    found = {
        kind: gradients(list(texts), model, kind=kind, target=list(labels), progress=progress)
        for kind in ("norm", "input")
    }
    found["input"] = [
        dataclasses.replace(item, scores=np.abs(item.scores)) for item in found["input"]
    ]
    return found


def correlate(
    explained: dict[str, list[Attribution]], importances: Importances, layers: Sequence[int]
) -> Table:
    """Spearman of each text's scores with its importance, summed up over texts."""
    return {
        name: {
            method: [
                _cell(
                    agreement(one, other, layer) for one, other in zip(found, wanted, strict=True)
                )
                for layer in layers
            ]
            for method, found in explained.items()
        }
        for name, wanted in importances.items()
    }


def as_published(
    explained: dict[str, list[Attribution]], wanted: list[Attribution], layers: Sequence[int]
) -> dict[str, list[dict[str, float]]]:
    """Table 3 as the published script did it: the largest score over all rows, dense ranks."""
    return {
        method: [
            _cell(
                dense_spearman(_layer(one, layer).max(0), other.values)
                for one, other in zip(found, wanted, strict=True)
            )
            for layer in layers
        ]
        for method, found in explained.items()
    }


def dense_spearman(first: FloatArray, second: FloatArray) -> float:
    """The script's own formula, 1 − 6 Σd² / n(n² − 1), on ranks where ties leave no gap."""
    size = len(first)
    ranks = [np.unique(values, return_inverse=True)[1] for values in (first, second)]
    distance = float(((ranks[0] - ranks[1]) ** 2).sum())
    return 1 - 6 * distance / (size * (size**2 - 1))


def _layer(one: Attribution, layer: int) -> FloatArray:
    scores: FloatArray = one.scores[one.layers.index(layer)]
    return scores


def _cell(correlations: Any) -> dict[str, float]:
    return dataclasses.asdict(summarize(correlations))


Importance = Callable[..., Importances]
