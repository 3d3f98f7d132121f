"""Metrics of explanations."""

from attnflow.evaluation.metrics.metric import METRICS, Case, Metric

__all__ = ["METRICS", "Case", "Metric"]
