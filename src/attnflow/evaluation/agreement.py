"""How far two explanations agree: Spearman's rank correlation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnflow.errors import InputError
from attnflow.records import FloatArray


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
