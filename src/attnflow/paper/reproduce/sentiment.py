"""Table 3: attention and gradients in a sentiment model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnflow.evaluation.agreement import summarize
from attnflow.evaluation.gradients import gradients
from attnflow.models.adapter import ModelAdapter
from attnflow.paper.reproduce import tables
from attnflow.records import Attribution, FloatArray

LAYERS = (1, 3, 5, 6)
PUBLISHED_COUNT = 101
"""How many sentences the published script took."""


def piece(texts: Sequence[str], labels: Sequence[int], model: ModelAdapter) -> dict[str, Any]:
    """For some sentences: correlations, whether the answer is right, what CLS gives itself."""
    explained = tables.explanations(texts, model)
    wanted = tables.sloped(texts, labels, model)
    answers = model.network.config.id2label  # type: ignore[attr-defined] # a text model
    said = [one.prediction.label if one.prediction else None for one in explained["raw"]]
    return {
        "correlations": tables.correlate(explained, wanted, LAYERS),
        "right": [word == answers[y] for word, y in zip(said, labels, strict=True)],
        "itself": [[float(one.row(n)[0]) for n in one.layers] for one in explained["raw"]],
    }


def table(pieces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All pieces summed up."""
    right = [hit for one in pieces for hit in one["right"]]
    itself = [row for one in pieces for row in one["itself"]]
    return {
        "rows": len(right),
        "accuracy": sum(right) / len(right),
        "itself": np.mean(itself, axis=0).tolist(),
        "defined": tables.summed_up([one["correlations"] for one in pieces]),
    }


def as_published(texts: Sequence[str], model: ModelAdapter) -> dict[str, list[dict[str, float]]]:
    """As the published script did it: the largest score over all rows, dense ranks."""
    explained = tables.explanations(texts, model, query="all")
    wanted = gradients(list(texts), model, target=1)
    return {
        method: [
            vars(
                summarize(
                    dense_spearman(_layer(one, layer).max(0), other.values)
                    for one, other in zip(found, wanted, strict=True)
                )
            )
            for layer in LAYERS
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
