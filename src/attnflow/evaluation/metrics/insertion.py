"""Insertion: the area under the probability while the highest tokens are put back."""

from __future__ import annotations

from attnflow.evaluation.metrics.metric import Case, Metric


def measure(case: Case) -> float:
    """The area over the share of tokens that are there, from none to all."""
    return case.area(case.adding())


MEMBER = Metric("insertion", "Insertion", measure, higher=True)
