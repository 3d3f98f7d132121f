"""Sufficiency: how far the probability falls when only the highest tokens are left."""

from __future__ import annotations

from attnflow.evaluation.metrics.metric import SHARES, Case, Metric


def measure(case: Case) -> float:
    """The mean of p − p(the highest share alone), over the shares of ERASER."""
    removed = [case.without(case.top(share)) for share in SHARES]
    return float(case.value - case.erase(removed).mean())


MEMBER = Metric("sufficiency", "Sufficiency", measure, higher=False)
