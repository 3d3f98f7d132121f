"""An edge rule: how what a model computed becomes the weights of a graph's edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from attnflow.registry import Registry

if TYPE_CHECKING:
    from attnflow.records import Activations, Array


@dataclass(frozen=True)
class Needs:
    """What a rule reads beside the attention probabilities; everything costs time and memory.

    Attributes:
        values: The value vectors and the output projections.
        gradients: The gradient of the target by the probabilities.
        inputs: The vectors that the attention block's output is added to: the residual stream.
        norms: The layer norm that directly follows this addition, where there is one.
    """

    values: bool = False
    gradients: bool = False
    inputs: bool = False
    norms: bool = False

    @property
    def attention_alone(self) -> bool:
        """Whether attention probabilities suffice, so that arrays of them do."""
        return self == Needs()


@dataclass(frozen=True)
class EdgeRule:
    """A rule by its name.

    Attributes:
        name: What users write: ``edges="attention"``.
        title: What figures and pages call it.
        maps: From activations one array per step, none of its entries negative: ``[head, query,
            key]``, or ``[query, key]`` for a rule that knows no heads. Rows need not sum to 1.
        needs: What must be captured while the model runs.
        residual: ``"share"``: the residual connection is a chosen share of every row;
            ``"measured"``: the maps contain it already.
        fuses_heads: Whether the maps are the attention probabilities themselves, so that heads may
            be fused while the model runs and never be held all at once.
    """

    name: str
    title: str
    maps: Callable[[Activations], Sequence[Array]]
    needs: Needs = Needs()
    residual: Literal["share", "measured"] = "share"
    fuses_heads: bool = False


EDGE_RULES: Registry[EdgeRule] = Registry("edges", {"attention": "attnflow.edges.attention"})
