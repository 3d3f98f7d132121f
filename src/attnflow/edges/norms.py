"""Norms of what is carried: ‖T_ij‖, how much position i takes from position j (Kobayashi et al.).

Attention to a position whose value vector is short carries little. ``norms`` is of 2020: value and
output projection, with the residual as a share. ``norms-residual`` is of 2021: the residual
connection and the layer norm are measured, too.
"""

from __future__ import annotations

import numpy as np

from attnflow.edges.decomposition import take_apart
from attnflow.edges.rule import EdgeRule, Needs
from attnflow.records import Activations, FloatArray

LENGTHS = "lengths (L2) of the vectors that are carried"


def norm_maps(activations: Activations) -> list[FloatArray]:
    """‖T_ij‖ for every layer, ``[query, key]``."""
    maps = []
    for parts in take_apart(activations, "norms", residual=False):
        norms = np.empty(parts.attention.shape[1:])
        for rows, vectors in parts.chunks():
            norms[rows] = np.linalg.norm(vectors, axis=-1)
        maps.append(norms)
    return maps


def norm_maps_with_residual(activations: Activations) -> list[FloatArray]:
    """‖T_ij + [i = j] x_i‖ behind the norm's linear part, for every layer."""
    maps = []
    for parts in take_apart(activations, "norms-residual", residual=True):
        norms = np.empty(parts.attention.shape[1:])
        for rows, vectors in parts.chunks():
            norms[rows] = np.linalg.norm(parts.with_residual(vectors, rows), axis=-1)
        maps.append(norms)
    return maps


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
