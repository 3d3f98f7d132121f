"""How many of the highest tokens two explanations have in common."""

from __future__ import annotations

import numpy as np

from attnflow.evaluation.metrics.metric import Case, Metric
from attnflow.records.arrays import round_scores

SHARE = 0.2


def measure(case: Case) -> float:
    """The share of the highest fifth of tokens, at least one, that is the other's, too."""
    if case.reference is None:
        return float("nan")
    count = max(1, round(SHARE * case.size))
    both = (case.sizes, round_scores(np.abs(case.reference)))
    highest = [set(np.argsort(-each, kind="stable")[:count].tolist()) for each in both]
    return len(highest[0] & highest[1]) / count


MEMBER = Metric("top-k", "Top 20 %", measure, higher=True, against="reference")
