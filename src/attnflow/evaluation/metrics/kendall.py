"""Kendall's rank correlation with another explanation, corrected for ties (tau-b)."""

from __future__ import annotations

import numpy as np

from attnflow.evaluation.metrics.metric import Case, Metric
from attnflow.records import FloatArray
from attnflow.records.arrays import round_scores


def kendall(first: FloatArray, second: FloatArray) -> float:
    """Pairs in the same order less those in the other, over the root of the untied in each."""
    x, y = (np.sign(values[:, None] - values) for values in (first, second))
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale > 0 else float("nan")


def measure(case: Case) -> float:
    """Tau-b of the sizes of scores."""
    if case.reference is None:
        return float("nan")
    return kendall(case.sizes, round_scores(np.abs(case.reference)))


MEMBER = Metric("kendall", "Kendall", measure, higher=True, against="reference")
