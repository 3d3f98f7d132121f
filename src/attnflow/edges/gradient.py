"""Attention seen by the target: what it gains where positions attend (Chefer et al. 2021).

``gradient`` is (A ⊙ ∇A)⁺: per head what is carried from j to i, seen along the gradient of the
target; ``gradient-only`` is (∇A)⁺, the capacities of Generalized Attention Flow. Heads are fused
after negative parts are set to zero.
"""

from __future__ import annotations

import numpy as np

from attnflow.edges.rule import EdgeRule, Needs
from attnflow.records import Activations, FloatArray
from attnflow.records.arrays import to_numpy


def product_maps(activations: Activations) -> list[FloatArray]:
    """(A ⊙ ∇A)⁺ for every layer, ``[head, query, key]``."""
    pairs = zip(activations.attention, activations.gradients or (), strict=True)
    return [np.maximum(0.0, to_numpy(a) * to_numpy(gradient)) for a, gradient in pairs]


def gradient_maps(activations: Activations) -> list[FloatArray]:
    """(∇A)⁺ for every layer, where the position attends at all, ``[head, query, key]``."""
    pairs = zip(activations.attention, activations.gradients or (), strict=True)
    return [np.maximum(0.0, to_numpy(g)) * (to_numpy(a) > 0) for a, g in pairs]


MEMBER = EdgeRule(
    "gradient",
    "Attention × gradient",
    product_maps,
    Needs(gradients=True),
    by_row=True,
    method="direct",
    unit="attention × gradient of the target's log-probability",
)
ONLY = EdgeRule(
    "gradient-only",
    "Gradient of attention",
    gradient_maps,
    Needs(gradients=True),
    by_row=True,
    method="direct",
    unit="the gradient of the target's log-probability by attention",
)
