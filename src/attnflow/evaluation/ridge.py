"""Non-negative ridge regression: min ‖X·w − y‖² + λ‖w‖² over w ≥ 0."""

from __future__ import annotations

import numpy as np

from attnflow.errors import InputError
from attnflow.records import FloatArray

TOLERANCE = 1e-12


def nonnegative_ridge(products: FloatArray, moments: FloatArray, ridge: float) -> FloatArray:
    """The weights, from XᵀX and Xᵀy, by active sets (Lawson & Hanson 1974; Bro & de Jong 1997).

    The weight whose gradient is steepest becomes free, and free weights are solved for; those that
    would turn negative are held at zero again. The problem is strictly convex: this ends at its
    only solution.
    """
    system = products + ridge * np.eye(len(products))
    weights = np.zeros(len(moments))
    free = np.zeros(len(moments), dtype=bool)
    least = TOLERANCE * float(np.abs(moments).max(initial=0.0))
    for _ in range(10 * len(moments) + 10):
        downhill = np.where(free, 0.0, moments - system @ weights)
        if downhill.max(initial=0.0) <= least:
            return weights
        free[np.argmax(downhill)] = True
        while True:
            solved = np.zeros_like(weights)
            solved[free] = np.linalg.solve(system[np.ix_(free, free)], moments[free])
            wrong = free & (solved <= 0)
            if not wrong.any():
                break
            # As far towards the solution as all weights allow; the first to reach zero stays there.
            share = (weights[wrong] / (weights[wrong] - solved[wrong])).min()
            weights += share * (solved - weights)
            free &= weights > least
            weights[~free] = 0.0
        weights = solved
    msg = f"the weights did not settle; give a larger ridge than {ridge:g}"
    raise InputError(msg)
