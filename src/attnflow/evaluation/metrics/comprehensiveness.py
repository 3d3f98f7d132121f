"""Comprehensiveness: how far the probability falls without the highest tokens."""

from __future__ import annotations

from attnflow.evaluation.metrics.metric import SHARES, Case, Metric


def measure(case: Case) -> float:
    """The mean of p − p(without the highest share), over the shares of ERASER."""
    return float(case.value - case.erase([case.top(share) for share in SHARES]).mean())


MEMBER = Metric("comprehensiveness", "Comprehensiveness", measure, higher=True)
