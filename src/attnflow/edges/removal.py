"""Removal: what the target loses, to first order, where an edge is removed.

Without the edge to j, the rest of a row of attention is made to sum to 1 again. With ordinary
gradients of the target's log-probability that costs K_ij = Σ_h A_hij / (1 − A_hij) · (∇A_hij − Σ_k
A_hik ∇A_hik); below 0 the target gains. It is what *would* happen, where relevance is what passed.
"""

from __future__ import annotations

from attnflow.edges.rule import EdgeRule, Maps, Needs
from attnflow.errors import InputError
from attnflow.records import Activations


def maps(activations: Activations) -> Maps:
    """The cost of removing each edge of every layer."""
    if activations.removal is None:
        msg = "edges='removal' need a model and a target; use attnflow.explain"
        raise InputError(msg)
    return Maps(activations.removal)


MEMBER = EdgeRule(
    "removal",
    "Cost of removal",
    maps,
    Needs(removal=True),
    residual="measured",
    amounts=True,
    method="direct",
    unit="the target's log-probability, to first order",
)
