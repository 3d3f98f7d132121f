"""Metrics of agreement: with the scores of another explanation, or with what people marked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps

import numpy as np

from attnflow.evaluation.agreement import spearman
from attnflow.evaluation.metrics.metric import Case, Metric
from attnflow.records import FloatArray
from attnflow.records.arrays import round_scores

SHARE = 0.2
Compare = Callable[[FloatArray, FloatArray], float]  # the sizes of scores with a reference


def _with_reference(compare: Compare) -> Callable[[Case], float]:
    """Compares the sizes of scores with those of another explanation."""

    @wraps(compare)
    def measure(case: Case) -> float:
        if case.reference is None:
            return float("nan")
        return compare(case.sizes, round_scores(np.abs(case.reference)))

    return measure


def _with_rationale(compare: Compare) -> Callable[[Case], float]:
    """Compares the sizes of scores with the tokens that people marked."""

    @wraps(compare)
    def measure(case: Case) -> float:
        if case.rationale is None or not case.rationale.any():
            return float("nan")
        return compare(case.sizes, case.rationale)

    return measure


def kendall(first: FloatArray, second: FloatArray) -> float:
    """Tau-b: pairs in the same order less those in the other, over the root of the untied."""
    x, y = (np.sign(values[:, None] - values) for values in (first, second))
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale > 0 else float("nan")


def _top_k(sizes: FloatArray, reference: FloatArray) -> float:
    """The share of the highest fifth of tokens, at least one, that is the other's, too."""
    count = max(1, round(SHARE * len(sizes)))
    both = (sizes, reference)
    highest = [set(np.argsort(-each, kind="stable")[:count].tolist()) for each in both]
    return len(highest[0] & highest[1]) / count


def _partial(sizes: FloatArray, reference: FloatArray) -> float:
    """What is left of Spearman's correlation once both are known to follow the position."""
    places = np.arange(len(sizes), dtype=float)
    own, other = spearman(sizes, places), spearman(reference, places)
    left = (1 - own * own) * (1 - other * other)
    if not left > 1e-12:  # also where one of them is undefined
        return float("nan")
    return float((spearman(sizes, reference) - own * other) / np.sqrt(left))


def _token_f1(sizes: FloatArray, rationale: FloatArray) -> float:
    """F1 of as many highest tokens as are marked; then precision and recall are the same."""
    count = int(rationale.sum())
    highest = np.argsort(-sizes, kind="stable")[:count]
    return float(rationale[highest].sum() / count)


def _auprc(sizes: FloatArray, rationale: FloatArray) -> float:
    """The sum of precision × the gain in recall, over thresholds; tied tokens come together."""
    area = seen = hits = 0.0
    marked = float(rationale.sum())
    for score in sorted(set(sizes.tolist()), reverse=True):
        tied = sizes == score
        gain = float(rationale[tied].sum())
        seen, hits = seen + int(np.sum(tied)), hits + gain
        area += hits / seen * gain / marked
    return area


_agreement = partial(Metric, higher=True, against="reference")
SPEARMAN = _agreement("spearman", "Spearman", _with_reference(spearman))
KENDALL = _agreement("kendall", "Kendall", _with_reference(kendall))
TOP_K = _agreement("top-k", "Top 20 %", _with_reference(_top_k))
PARTIAL = _agreement("partial", "Spearman given position", _with_reference(_partial))
TOKEN_F1 = Metric("token-f1", "Token F1", _with_rationale(_token_f1), True, "rationale")
AUPRC = Metric("auprc", "AUPRC", _with_rationale(_auprc), True, "rationale")
