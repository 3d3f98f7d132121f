"""Scores without the noise of rounding, for whatever depends on their order."""

import numpy as np

from attnflow.records.types import FloatArray


def round_scores(values: FloatArray) -> FloatArray:
    """Scores without differences below a billionth of the largest.

    Flow is exactly 1 for every token that all flow of a position can reach; rounding must not
    decide the ranks of such ties.
    """
    largest = float(np.abs(values).max(initial=0.0))
    return values if largest == 0 else np.round(values / largest, 9)
