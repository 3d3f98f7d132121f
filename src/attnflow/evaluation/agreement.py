"""How far two explanations agree: Spearman's rank correlation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnflow.errors import InputError
from attnflow.records import Attribution, FloatArray


def spearman(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Rank correlation of two lists of scores; equal scores share the mean of their ranks.

    NaN where it is undefined: fewer than two scores, or all of one list equal.

    Example:
        >>> spearman([0.1, 0.5, 0.4], [1, 3, 2])
        1.0
    """
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        msg = f"agreement needs two lists of the same length, not shapes {x.shape} and {y.shape}"
        raise InputError(msg)
    a, b = (ranks(values) - (len(x) + 1) / 2 for values in (x, y))
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else float("nan")


def ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1, the smallest value's; equal values have the mean of their ranks.

    Example:
        >>> ranks(np.array([0.2, 0.7, 0.2])).tolist()
        [1.5, 3.0, 1.5]
    """
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    mean: FloatArray = (last - (count - 1) / 2)[place.reshape(-1)]
    return mean


@dataclass(frozen=True)
class Agreement:
    """Rank correlations of many pairs of explanations.

    Attributes:
        mean: Of the defined ones.
        std: Of the defined ones, about their mean (divided by their number).
        count: How many are defined.
        undefined: How many are not: one of the two is constant, or has one token.
    """

    mean: float
    std: float
    count: int
    undefined: int


def agreement(first: Attribution, second: Attribution, layer: int | None = None) -> float:
    """Spearman's correlation of two explanations of the same tokens; NaN where undefined.

    ``layer`` is the layer of ``first``; ``None`` is the one it was asked about.
    """
    if first.tokens != second.tokens:
        msg = (
            f"the explanations are of different tokens: {' '.join(first.tokens)!r} and "
            f"{' '.join(second.tokens)!r}"
        )
        raise InputError(msg)
    return spearman(level(first.row(layer)), level(second.values))


def level(values: FloatArray) -> FloatArray:
    """Scores with differences below a billionth of the largest taken as none.

    Flow is exactly 1 for every token that a position can send all it has to; what rounding makes
    of such ties must not decide their ranks.
    """
    largest = float(np.abs(values).max(initial=0.0))
    return values if largest == 0 else np.round(values / largest, 9)


def summarize(correlations: Iterable[float]) -> Agreement:
    """Mean ± standard deviation; undefined correlations are counted, never taken as 0."""
    values = np.array(list(correlations), dtype=np.float64)
    defined = values[~np.isnan(values)]
    mean, std = (defined.mean(), defined.std()) if len(defined) else (np.nan, np.nan)
    return Agreement(float(mean), float(std), len(defined), len(values) - len(defined))
