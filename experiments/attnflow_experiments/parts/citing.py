"""A baseline of ContextCite's kind: a sparse linear model of what random deletions do.

Written from the description in Cohen-Wang et al., ContextCite: Attributing Model Generation to
Context (2024): sources are kept or deleted at random, the logit of the answer's probability is
measured each time, and a lasso from which sources were kept to these logits has the scores for its
weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from attnflow.records import FloatArray

PENALTY = 0.01  # of the lasso, as in the paper
ROUNDS = 1000
CLOSE = 1e-9


def random_masks(count: int, sources: int, seed: int) -> FloatArray:
    """``[run, source]``: 1 for sources that are kept, each with probability one half."""
    generator = np.random.default_rng(seed)
    return generator.integers(0, 2, (count, sources)).astype(np.float64)


def logit(log_probability: float) -> float:
    """Log p − log (1 − p), from log p."""
    rest = -np.expm1(min(log_probability, -1e-12))
    return float(log_probability - np.log(rest))


def lasso(masks: FloatArray, values: FloatArray, penalty: float = PENALTY) -> FloatArray:
    """The weights w that make ½·mean((values − masks·w − b)²) + penalty·‖w‖₁ least.

    Columns and values are standardised first, and weights told for the columns as they were, so
    that the penalty means the same for every case. By coordinate descent.
    """
    middle, spread = masks.mean(0), masks.std(0)
    usable = spread > 0
    wide = float(values.std()) or 1.0
    x = np.where(usable, (masks - middle) / np.where(usable, spread, 1), 0.0)
    y = (values - values.mean()) / wide
    weights = np.zeros(masks.shape[1])
    left = y.copy()
    for _ in range(ROUNDS):
        largest = 0.0
        for column in np.flatnonzero(usable):
            pull = x[:, column] @ left / len(y) + weights[column]
            new = np.sign(pull) * max(0.0, abs(pull) - penalty)
            left -= x[:, column] * (new - weights[column])
            largest = max(largest, abs(new - weights[column]))
            weights[column] = new
        if largest < CLOSE:
            break
    return np.where(usable, weights * wide / np.where(usable, spread, 1), 0.0)
