"""AOPC: the area over the perturbation curve (Samek et al. 2017)."""

from __future__ import annotations

from attnflow.evaluation.metrics.metric import Case, Metric


def measure(case: Case) -> float:
    """The mean of p − p(without the highest), over the steps of the curve, the first included."""
    return float((case.value - case.removing()).mean())


MEMBER = Metric("aopc", "AOPC", measure, higher=True)
