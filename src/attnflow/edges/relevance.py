"""Relevance: how much of the target's logit passed over each edge.

One backward pass hands the target back through the network, with attention weights, the scales of
norms and the ratios of activations held fixed (`attnflow.models.capture.relevance`). Over the edge
from (l, i) to (l − 1, j) passed R_ij = Σ_h A_hij · (v_hj · ∂t/∂o_hi), signed and in logits. It is
conserved: what enters a position from above leaves it downwards. Nothing is divided.
"""

from __future__ import annotations

from attnflow.edges.rule import EdgeRule, Maps, Needs
from attnflow.errors import InputError
from attnflow.records import Activations


def maps(activations: Activations) -> Maps:
    """What passed over the edges of every layer, with what the target's logit is made of."""
    found = activations.relevance
    if found is None:
        msg = "edges='relevance' need a model and a target; use attnflow.explain"
        raise InputError(msg)
    return Maps(found.maps, found.statistics)


MEMBER = EdgeRule(
    "relevance",
    "Relevance",
    maps,
    Needs(relevance=True),
    residual="measured",
    amounts=True,
    conserved=True,
    method="flow",
    unit="logits of the target",
)
