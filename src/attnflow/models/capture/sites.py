"""What a capture keeps of one call of attention."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnflow.records.types import Array


@dataclass(frozen=True)
class Norm:
    """A layer norm: its weight, or ``None`` for ones, and what it adds to the variance."""

    weight: Tensor | None
    epsilon: float


@dataclass
class Site:
    """One place where the model attended, in the order of the calls.

    Attributes:
        probabilities: ``[batch, head, query, key]``, or ``[batch, query, key]`` with heads fused;
            of one input whose attention is mostly 0, sparse; `NotKept` where edges are read off the
            backward pass.
        sums: ``[batch, head, query]``: what each row summed to before it was made to sum to 1.
        precision: The element type the model computed in.
        ahead: For each item, whether a position reads a later one, where attention is not kept.
        sink: Whether the model gave a share of each row to something that is no token.
        values: ``[batch, head, key, dimension]``: what was averaged, where requested.
        output: The averaged values, as the model computed them, where values were requested.
        projection: The weight ``[model dimension, head · dimension]`` that the output met next.
        bias: What the projection adds.
        packed: Whether the projection's weights were read off a quantised layer.
        scale: ``[model dimension]``: factors on the block's output before it is added.
        row_scale: ``[batch, query, 1]``: such factors of positions, from a norm behind the block.
        block: What the attention block gives to the residual stream, as the model computed it.
        residual: What the block's output is added to: the residual stream.
        sum: The two added.
        norm: The layer norm that alone reads the sum (post-norm models).
        goes_on: Whether the sum is added to again (pre-norm models).
        stream: The residual stream behind the layer, where more was added (pre-norm models).
        leaf: The tensor to differentiate by, where gradients were requested.
        call: Which of the model's attention calls this was, counted from 1.
    """

    probabilities: Array
    sums: Tensor
    precision: torch.dtype
    sink: bool = False
    ahead: tuple[bool, ...] = ()
    values: Tensor | None = None
    output: Tensor | None = None
    projection: Tensor | None = None
    bias: Tensor | None = None
    packed: bool = False
    scale: Tensor | None = None
    row_scale: Tensor | None = None
    block: Tensor | None = None
    residual: Tensor | None = None
    sum: Tensor | None = None
    norm: Norm | None = None
    goes_on: bool = False
    stream: Tensor | None = None
    leaf: Tensor | None = None
    call: int = 0
