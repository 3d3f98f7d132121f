"""Metrics of explanations, one file each."""

from attnflow.evaluation.metrics.metric import METRICS, Case, Metric

__all__ = ["METRICS", "Case", "Metric"]
