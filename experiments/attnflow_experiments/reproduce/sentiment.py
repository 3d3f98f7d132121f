"""Table 3: attention and gradients in a sentiment model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnflow.evaluation.agreement import summarize
from attnflow.evaluation.importance import gradients
from attnflow.models.adapter import ModelAdapter
from attnflow.records import Attribution, FloatArray
from attnflow_experiments.reproduce import tables

LAYERS = (1, 3, 5, 6)
PUBLISHED_COUNT = 101
"""The number of sentences that the published script used."""


def compute_piece(
    texts: Sequence[str], labels: Sequence[int], model: ModelAdapter
) -> dict[str, Any]:
    """Correlations, whether predictions are right, and CLS's attention to itself."""
    explained = tables.explanations(texts, model)
    importances = tables.gradient_importance(texts, labels, model)
    predicted = [one.prediction.label if one.prediction else None for one in explained["raw"]]
    return {
        "correlations": tables.correlate(explained, importances, LAYERS),
        "right": [
            found == model.output_name(label)
            for found, label in zip(predicted, labels, strict=True)
        ],
        "itself": [[float(one.row(n)[0]) for n in one.layers] for one in explained["raw"]],
    }


def summarize_pieces(pieces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Accuracy, CLS's mean attention to itself, and correlations over all pieces."""
    right = [hit for piece in pieces for hit in piece["right"]]
    itself = [row for piece in pieces for row in piece["itself"]]
    return {
        "rows": len(right),
        "accuracy": sum(right) / len(right),
        "itself": np.mean(itself, axis=0).tolist(),
        "defined": tables.summarize_pieces([piece["correlations"] for piece in pieces]),
    }


def published_script(
    texts: Sequence[str], model: ModelAdapter
) -> dict[str, list[dict[str, float]]]:
    """Correlations as the published script computed them: maximum over all rows, dense ranks."""
    explained = tables.explanations(texts, model, query="all")
    importances = gradients(list(texts), model, target=1)
    return {
        method: [
            vars(
                summarize(
                    dense_spearman(_scores(one, layer).max(0), importance.values)
                    for one, importance in zip(found, importances, strict=True)
                )
            )
            for layer in LAYERS
        ]
        for method, found in explained.items()
    }


def dense_spearman(first: FloatArray, second: FloatArray) -> float:
    """The script's formula, 1 − 6 Σd² / n(n² − 1), on dense ranks (ties leave no gap)."""
    size = len(first)
    ranks = [np.unique(values, return_inverse=True)[1] for values in (first, second)]
    distance = float(((ranks[0] - ranks[1]) ** 2).sum())
    return 1 - 6 * distance / (size * (size**2 - 1))


def _scores(attribution: Attribution, layer: int) -> FloatArray:
    scores: FloatArray = attribution.scores[attribution.layers.index(layer)]
    return scores
