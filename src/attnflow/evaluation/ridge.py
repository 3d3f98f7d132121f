"""Non-negative ridge regression: min ‖X·w − y‖² + λ‖w‖² over w ≥ 0."""

from __future__ import annotations

import numpy as np

from attnflow.errors import InputError
from attnflow.records import FloatArray

TOLERANCE = 1e-10
MOST_SWEEPS = 100_000


def nonnegative_ridge(products: FloatArray, moments: FloatArray, ridge: float) -> FloatArray:
    """The weights, from XᵀX and Xᵀy.

    Coordinate descent: each weight in turn is set to its best value, the others held fixed. The
    problem is strictly convex, so that this ends at its only solution: where the gradient is zero
    at positive weights, and not negative at those that are zero.
    """
    system = products + ridge * np.eye(len(products))
    diagonal = np.diag(system)
    weights = np.zeros(len(moments))
    gradient = -moments.copy()  # of half the objective
    scale = float(np.abs(moments).max(initial=0.0))
    for _ in range(MOST_SWEEPS):
        for at in range(len(weights)):
            step = max(-weights[at], -gradient[at] / diagonal[at])
            if step:
                weights[at] += step
                gradient += step * system[at]
        open_to = np.where(weights > 0, np.abs(gradient), np.maximum(0.0, -gradient))
        if open_to.max(initial=0.0) <= TOLERANCE * scale:
            return weights
    msg = f"the weights did not settle in {MOST_SWEEPS} rounds; give a larger ridge than {ridge}"
    raise InputError(msg)
