"""Value zeroing: how far a layer's output moves without a position's value (Mohebbi et al. 2023).

The edge from i to j is the cosine distance of the layer's output at i, behind residual connections,
norms and MLP, from what it is when the value vector of j is zero in all heads. Rows are made to sum
to 1. Residual connections are in place in both: they make i move less, for all j alike, and what i
keeps by them is no edge of its own. So no share is added for them.
"""

from __future__ import annotations

import numpy as np

from attnflow.edges.rule import EdgeRule, Needs
from attnflow.records import Activations, FloatArray
from attnflow.records.arrays import to_numpy


def maps(activations: Activations) -> list[FloatArray]:
    """The distances of every layer, ``[query, key]``; 0 where the position is not seen."""
    pairs = zip(activations.attention, activations.zeroed or (), strict=True)
    return [to_numpy(moved) * np.any(to_numpy(seen) > 0, axis=0) for seen, moved in pairs]


MEMBER = EdgeRule(
    "value-zeroing",
    "Value zeroing",
    maps,
    Needs(zeroing=True),
    residual="measured",
    single_heads=False,
)
