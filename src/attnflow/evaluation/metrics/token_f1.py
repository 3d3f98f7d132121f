"""Token F1: how many of the marked tokens are among the highest."""

from __future__ import annotations

import numpy as np

from attnflow.evaluation.metrics.metric import Case, Metric


def measure(case: Case) -> float:
    """F1 of as many highest tokens as are marked; then precision and recall are the same."""
    if case.rationale is None or not case.rationale.any():
        return float("nan")
    count = int(case.rationale.sum())
    highest = np.argsort(-case.sizes, kind="stable")[:count]
    return float(case.rationale[highest].sum() / count)


MEMBER = Metric("token-f1", "Token F1", measure, higher=True, against="rationale")
