"""Rank correlation with another explanation, given where tokens stand."""

from __future__ import annotations

import numpy as np

from attnflow.evaluation.agreement import spearman
from attnflow.evaluation.metrics.metric import Case, Metric
from attnflow.records.arrays import round_scores


def measure(case: Case) -> float:
    """What is left of Spearman's correlation once both are known to follow the position."""
    if case.reference is None:
        return float("nan")
    reference, places = round_scores(np.abs(case.reference)), np.arange(case.size, dtype=float)
    own, other = spearman(case.sizes, places), spearman(reference, places)
    left = (1 - own * own) * (1 - other * other)
    if not left > 1e-12:  # also where one of them is undefined
        return float("nan")
    return float((spearman(case.sizes, reference) - own * other) / np.sqrt(left))


MEMBER = Metric("partial", "Spearman given position", measure, higher=True, against="reference")
