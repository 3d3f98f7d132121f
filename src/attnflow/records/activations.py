"""What a model computed on one input, as far as edge rules need it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attnflow.errors import InputError
from attnflow.records.arrays import to_numpy
from attnflow.records.types import Array


@dataclass(frozen=True, eq=False)
class AttentionBlock:
    """An attention block of one input, in parts: tensors of torch, in the model's precision.

    Position i reads position j through head h as α_ij · values[h, j] · projection_h; all heads
    together, scaled, are what i takes from j. The sum over j with the bias is ``output``.

    Attributes:
        values: ``[head, key, dimension]``.
        projection: ``[model dimension, head · dimension]``.
        output: ``[query, model dimension]``: what the block gives to the residual stream.
        bias: ``[model dimension]``, or ``None``.
        scale: ``[model dimension]``: factors on the output, or ``None``.
        row_scale: ``[query, 1]``: factors of positions, from a norm on the output, or ``None``.
        residual: ``[query, model dimension]``: the residual stream that the output is added to;
            ``None`` where it was not found.
        norm_weight: ``[model dimension]``: the weight of the layer norm after the addition
            (post-norm models); ``None`` where there is no such norm.
        norm_epsilon: What this norm adds to the variance.
        packed: Whether the projection is a quantised layer, which may round what it reads.
    """

    values: Array
    projection: Array
    output: Array
    bias: Array | None = None
    scale: Array | None = None
    row_scale: Array | None = None
    residual: Array | None = None
    norm_weight: Array | None = None
    norm_epsilon: float = 0.0
    packed: bool = False


@dataclass(frozen=True, eq=False)
class Readout:
    """How a target's logit is read off the residual stream where a model decides; in float64.

    Attributes:
        position: Where it decides.
        direction: ``[model dimension]``: a part of the stream contributes its product with this to
            the logit less the mean of all logits, or less the contrast's; the norm's scale is held.
            Of labels that are independent of each other, to the logit itself.
        constant: What biases add to it.
        value: The logit less the mean of all logits, or less the contrast's, or alone.
        streams: ``[layer, model dimension]``: the stream after each layer.
    """

    position: int
    direction: Array
    constant: float
    value: float
    streams: Array


@dataclass(frozen=True, eq=False)
class NotKept:
    """The shape of attention that was read while the model ran, and not kept.

    Edges that are summed up during a backward pass (relevance, removal) need no map per head, and
    long inputs have no memory for one.

    Attributes:
        shape: ``[query, key]``, or ``[head, query, key]``.
        sees_ahead: Whether a position reads a later one.
    """

    shape: tuple[int, ...]
    sees_ahead: bool

    nbytes = 0

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuse: there are no values."""
        msg = "attention was not kept by these edges; use edges='attention' to read it"
        raise InputError(msg)

    def __getitem__(self, _: Any) -> Any:
        """Refuse: there are no values."""
        return self.__array__()


@dataclass(frozen=True, eq=False)
class Relevances:
    """How a target's logit came about, edge by edge: layer-wise relevance, signed, in logits.

    What enters a position of the residual stream from above leaves it downwards, over edges and
    along its own column; biases and positions absorb a little.

    Attributes:
        maps: ``[step, query, key]``, or ``[step, head, query, key]``: what passed over each edge.
        inputs: ``[position]``: what arrived at each token's own embedding.
        value: The target: a logit less the mean of all logits, or less the contrast's; the logit
            itself where labels don't exclude each other.
        gap: How far the sum of everything that the value was handed to is from it.
        streams: ``[step + 1, position]``: the relevance of the residual stream below the first step
            and after each one; ``None`` where the model's layers were not found.
    """

    maps: Array
    inputs: Array
    value: float
    gap: float
    streams: Array | None = None

    @cached_property
    def read_at(self) -> tuple[int, ...]:
        """The positions of the top layer where the target is read; empty where that is unknown."""
        if self.streams is None:
            return ()
        return tuple(np.flatnonzero(to_numpy(self.streams[-1])).tolist())

    @property
    def absorbed(self) -> float:
        """What did not arrive at a token's embedding: biases and positions have it."""
        return self.value - float(self.inputs.sum())

    @property
    def statistics(self) -> dict[str, float]:
        """What the value is made of."""
        return {"value": self.value, "biases": self.absorbed, "conservation_gap": self.gap}


@dataclass(frozen=True, eq=False)
class Activations:
    """Attention probabilities of one input, and what else an edge rule needs.

    Attributes:
        attention: One array per step of attention, ``[head, query, key]``, or ``[query, key]``
            where the heads were already fused. NumPy or torch, or `NotKept`.
        causal: Whether later positions were hidden from earlier ones.
        ends: The step, counted from 1, at which each layer ends; ``None`` where every step is a
            layer. A decoder layer with cross-attention has two steps.
        gradients: One array per step, ``[head, query, key]``: the gradient of the target by the
            probabilities.
        blocks: The attention block of every step, or ``None`` where its parts were not found.
        zeroed: One array per step, ``[query, key]``: how far the layer's output at a query moves
            when the value vector of a key is zeroed; 0 where the key is not seen.
        relevance: How the target's logit came about, for rules that need it.
        removal: ``[step, query, key]``, or ``[step, head, query, key]``: what the target loses, to
            first order, where an edge is removed.
        source: For encoder–decoders, how many positions are of the source; they come first.
        carried: The positions that each step carries along as they are; ``None`` where every step
            moves all.
        readout: How the target's logit is read; ``None`` where that was not found or asked for.
        calls: Which of the model's attention calls each step is, counted from 1; ``None`` where
            that is not known, as for arrays.
        model: The model's name, for errors.
    """

    attention: tuple[Array, ...]
    causal: bool = False
    ends: tuple[int, ...] | None = None
    gradients: tuple[Array, ...] | None = None
    blocks: tuple[AttentionBlock | None, ...] | None = None
    zeroed: tuple[Array, ...] | None = None
    relevance: Relevances | None = None
    removal: Array | None = None
    source: int | None = None
    carried: tuple[tuple[int, ...], ...] | None = None
    readout: Readout | None = None
    calls: tuple[int, ...] | None = None
    model: str = "this model"

    def __post_init__(self) -> None:
        if not self.attention:
            msg = "activations need at least one layer"
            raise InputError(msg)
        maps = None if self.relevance is None else self.relevance.maps
        extras = {
            name: getattr(self, name)
            for name in ("gradients", "blocks", "zeroed", "carried", "calls")
        }
        for name, extra in {**extras, "removal": self.removal, "relevance": maps}.items():
            if extra is not None and len(extra) != len(self.attention):
                msg = f"{name} has {len(extra)} entries; there are {len(self.attention)} layers"
                raise InputError(msg)
        ends = self.steps
        if list(ends) != sorted(set(ends)) or ends[0] < 1 or ends[-1] != len(self.attention):
            msg = f"ends={ends} must rise from 1 or more to {len(self.attention)}, the last step"
            raise InputError(msg)

    @property
    def nbytes(self) -> int:
        """How much memory it holds: all but weights, which are the model's own."""
        arrays = [*self.attention, *(self.gradients or ()), *(self.zeroed or ())]
        maps = None if self.relevance is None else self.relevance.maps
        arrays += [each for each in (maps, self.removal) if each is not None]
        for block in self.blocks or ():
            if block is not None:
                parts = (block.values, block.output, block.residual, block.row_scale)
                arrays += [part for part in parts if part is not None]
        return sum(int(each.nbytes) for each in arrays)

    def carried_by(self, step: int) -> list[int]:
        """The positions that a step, counted from 0, carries along."""
        return [] if self.carried is None else list(self.carried[step])

    @property
    def steps(self) -> tuple[int, ...]:
        """The step at which each layer ends."""
        return self.ends or tuple(range(1, len(self.attention) + 1))
