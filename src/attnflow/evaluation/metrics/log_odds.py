"""Log-odds: how far the log-odds of the target change without the highest tokens."""

from __future__ import annotations

import numpy as np

from attnflow.evaluation.metrics.metric import SHARES, Case, Metric
from attnflow.records import FloatArray

SMALLEST = 1e-12  # a probability of 0 or 1 has no odds


def log_odds(probability: FloatArray) -> FloatArray:
    """Log p / (1 − p)."""
    inside = np.clip(probability, SMALLEST, 1 - SMALLEST)
    odds: FloatArray = np.log(inside) - np.log1p(-inside)
    return odds


def measure(case: Case) -> float:
    """The mean of log-odds without the highest share less those with it, over ERASER's shares."""
    after = log_odds(case.erase([case.top(share) for share in SHARES]))
    return float((after - log_odds(np.array(case.value))).mean())


MEMBER = Metric("log-odds", "Log-odds", measure, higher=False)
