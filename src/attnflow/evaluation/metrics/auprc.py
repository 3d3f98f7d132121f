"""AUPRC: the area under precision and recall of marked tokens, as average precision."""

from __future__ import annotations

import numpy as np

from attnflow.evaluation.metrics.metric import Case, Metric


def measure(case: Case) -> float:
    """The sum of precision × the gain in recall, over thresholds; tied tokens come together."""
    if case.rationale is None or not case.rationale.any():
        return float("nan")
    area = seen = hits = 0.0
    marked = float(case.rationale.sum())
    for score in sorted(set(case.sizes.tolist()), reverse=True):
        tied = case.sizes == score
        gain = float(case.rationale[tied].sum())
        seen, hits = seen + int(np.sum(tied)), hits + gain
        area += hits / seen * gain / marked
    return area


MEMBER = Metric("auprc", "AUPRC", measure, higher=True, against="rationale")
