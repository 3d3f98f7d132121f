"""Value zeroing: how far a layer's output moves without a position's value (Mohebbi et al. 2023).

The edge from i to j is the cosine distance of the layer's output at i, behind residual connections,
norms and MLP, from what it is when the value vector of j is zero in all heads. Rows are made to sum
to 1. Residual connections are in place in both: they make i move less, for all j alike, and what i
keeps by them is not a separate edge, and no share is added for them.
"""

from __future__ import annotations

from attnflow.edges.rule import EdgeRule, Needs
from attnflow.records import Activations, FloatArray
from attnflow.records.arrays import to_numpy


def maps(activations: Activations) -> list[FloatArray]:
    """The distances of every layer, ``[query, key]``."""
    return [to_numpy(moved) for moved in activations.zeroed or ()]


MEMBER = EdgeRule(
    "value-zeroing",
    "Value zeroing",
    maps,
    Needs(zeroing=True),
    residual="measured",
    single_heads=False,
    unit="cosine distances of layer outputs",
)
