"""Scores without the noise of rounding, for whatever depends on their order."""

import numpy as np

from attnflow.records.kinds import FloatArray


def level(values: FloatArray) -> FloatArray:
    """Scores with differences below a billionth of the largest taken as none.

    Flow is exactly 1 for every token that a position can send all it has to; what rounding makes
    of such ties must not decide their ranks.
    """
    largest = float(np.abs(values).max(initial=0.0))
    return values if largest == 0 else np.round(values / largest, 9)
