"""Deletion: the area under the probability while the highest tokens are removed."""

from __future__ import annotations

from attnflow.evaluation.metrics.metric import Case, Metric


def measure(case: Case) -> float:
    """The area over the share of tokens removed, from none to all."""
    return case.area(case.removing())


MEMBER = Metric("deletion", "Deletion", measure, higher=False)
