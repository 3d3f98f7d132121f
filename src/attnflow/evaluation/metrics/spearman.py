"""Spearman's rank correlation with another explanation."""

from __future__ import annotations

import numpy as np

from attnflow.evaluation.agreement import spearman
from attnflow.evaluation.metrics.metric import Case, Metric
from attnflow.records.arrays import round_scores


def measure(case: Case) -> float:
    """The correlation of the ranks of importance; equal scores have the mean of their ranks."""
    if case.reference is None:
        return float("nan")
    return spearman(case.sizes, round_scores(np.abs(case.reference)))


MEMBER = Metric("spearman", "Spearman", measure, higher=True, against="reference")
