"""What a model attended to, and the graph that is made of it."""

from __future__ import annotations

from dataclasses import dataclass

from attnflow.errors import InputError
from attnflow.records.kinds import Array


@dataclass(frozen=True, eq=False)
class Activations:
    """Attention probabilities of one input, as a model computed them.

    Attributes:
        layers: One array a step of attention, ``[head, query, key]``, or ``[query, key]`` where the
            heads were already fused. NumPy or torch.
        causal: Whether later positions were hidden from earlier ones.
        ends: The step, counted from 1, at which each layer ends; ``None`` where every step is a
            layer. A decoder layer with cross-attention has two steps.
        gradients: One array a step, ``[head, query, key]``: the gradient of the model's prediction
            by the probabilities, where asked for.
        values: One array a step, ``[head, key, dimension]``: the value vectors, where asked for.
        projections: One array a step, ``[model dimension, head · dimension]``: the output
            projection, or ``None`` where it was not found.
    """

    layers: tuple[Array, ...]
    causal: bool = False
    ends: tuple[int, ...] | None = None
    gradients: tuple[Array, ...] | None = None
    values: tuple[Array, ...] | None = None
    projections: tuple[Array | None, ...] | None = None

    def __post_init__(self) -> None:
        if not self.layers:
            msg = "an Activations needs at least one layer"
            raise InputError(msg)
        for name in ("gradients", "values", "projections"):
            extra = getattr(self, name)
            if extra is not None and len(extra) != len(self.layers):
                msg = f"{name} has {len(extra)} entries; there are {len(self.layers)} layers"
                raise InputError(msg)
        ends = self.steps
        if list(ends) != sorted(set(ends)) or ends[0] < 1 or ends[-1] != len(self.layers):
            msg = f"ends={ends} must rise from 1 or more to {len(self.layers)}, the last step"
            raise InputError(msg)

    @property
    def steps(self) -> tuple[int, ...]:
        """The step at which each layer ends."""
        return self.ends or tuple(range(1, len(self.layers) + 1))


@dataclass(frozen=True, eq=False)
class LayeredGraph:
    """Weighted edges from every layer to the layer below.

    Attributes:
        weights: ``[layer, query, key]``: ``weights[l - 1, i, j]`` is the weight of the edge from
            node (l, i) to node (l − 1, j). Rows sum to 1 (or to 0: a node that reads nothing).
        heads: ``[layer, head, query, key]``: for questions about single heads (Appendix A.1), the
            edges of each head, used on top of the merged ``weights`` of the layers below.
    """

    weights: Array
    heads: Array | None = None

    @property
    def depth(self) -> int:
        """The number of layers of edges."""
        return int(self.weights.shape[0])

    @property
    def size(self) -> int:
        """The number of nodes of a layer."""
        return int(self.weights.shape[-1])
