"""ALTI: how close what is carried comes to the layer's output (Ferrando et al. 2022).

With y_i = Σ_j T_ij, the residual in T_ii, j contributes ‖y_i‖₁ − ‖y_i − T_ij‖₁ where that is
positive: how much farther from zero y_i is because of it. Rows are made to sum to 1. The
residual's share is measured, which is what fixed shares get wrong.
"""

from __future__ import annotations

from attnflow.edges.decomposition import take_apart
from attnflow.edges.rule import EdgeRule, Needs
from attnflow.records import Activations, FloatArray


def maps(activations: Activations) -> list[FloatArray]:
    """The contributions of every layer, ``[query, key]``."""
    return [
        parts.carried(residual=True).nearness()
        for parts in take_apart(activations, "alti", residual=True)
    ]


MEMBER = EdgeRule(
    "alti",
    "ALTI",
    maps,
    Needs(blocks=True),
    residual="measured",
    single_heads=False,
    unit="how much a token adds to the L1 norm of the layer's output",
)
