"""Norms of what is carried: ‖T_ij‖, how much position i takes from position j (Kobayashi et al.).

Attention to a position whose value vector is short carries little. ``norms`` is of 2020: value and
output projection, with the residual as a share. ``norms-residual`` is of 2021: the residual
connection and the layer norm are measured, too.
"""

from __future__ import annotations

from attnflow.edges.decomposition import take_apart
from attnflow.edges.rule import EdgeRule, Needs
from attnflow.records import Activations, FloatArray

LENGTHS = "lengths (L2) of the vectors that are carried"


def norm_maps(activations: Activations) -> list[FloatArray]:
    """‖T_ij‖ for every layer, ``[query, key]``."""
    layers = take_apart(activations, "norms", residual=False)
    return [parts.carried(residual=False).lengths() for parts in layers]


def norm_maps_with_residual(activations: Activations) -> list[FloatArray]:
    """‖T_ij + [i = j] x_i‖ after the norm's linear part, for every layer."""
    layers = take_apart(activations, "norms-residual", residual=True)
    return [parts.carried(residual=True).lengths() for parts in layers]


MEMBER = EdgeRule("norms", "Norms", norm_maps, Needs(blocks=True), single_heads=False, unit=LENGTHS)
WITH_RESIDUAL = EdgeRule(
    "norms-residual",
    "Norms with residual",
    norm_maps_with_residual,
    Needs(blocks=True),
    residual="measured",
    single_heads=False,
    unit=LENGTHS,
)
