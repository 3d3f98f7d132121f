"""What a capture keeps of a forward pass, and of each call of attention."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from attnflow.records.types import Array

    Fusion = Callable[[Tensor], Tensor]  # [batch, head, query, key] → [batch, query, key]


@dataclass(frozen=True)
class CaptureSpec:
    """What is kept; everything else costs nothing.

    Attributes:
        fuse: Merges the heads of a layer as it is captured; ``None`` keeps every head.
        layers: The attention calls to keep, counted from 1 in their order.
        queries: The rows to keep.
        blocks: Keep the parts of every attention block: values, output projection, residual stream
            and norm.
        gradients: Put the probabilities on the autograd tape; see `Capture.gradients`.
        relevance: Run the model so that its backward pass is layer-wise relevance, and read what
            passed over each edge; see `attnflow.models.capture.relevance`.
        removal: Read the first-order cost of removing each edge off the backward pass.
        heads: Keep a map for every head of what is read off the backward pass.
        readout: Keep how the target's logit is read off the residual stream; needs ``blocks``.
        zeroing: Run every layer again without the value of each position; see `zeroing`.
        progress: Told the share of these runs that is done, of one input.
    """

    fuse: Fusion | None = None
    layers: Collection[int] | None = None
    queries: Sequence[int] | None = None
    blocks: bool = False
    gradients: bool = False
    relevance: bool = False
    removal: bool = False
    heads: bool = False
    readout: bool = False
    zeroing: bool = False
    progress: Callable[[float], None] | None = None

    @property
    def reads_backward(self) -> bool:
        """Whether edges are read off the backward pass."""
        return self.relevance or self.removal

    @property
    def towards_target(self) -> bool:
        """Whether anything that is kept depends on a target."""
        return self.gradients or self.reads_backward


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
        sink: Whether the model gave a share of each row to something that is not a token.
        values: ``[batch, head, key, dimension]``: what was averaged, where requested.
        output: The averaged values, as the model computed them, where values were requested.
        projection: The weight ``[model dimension, head · dimension]`` that the output met next.
        bias: What the projection adds.
        packed: Whether the projection's weights were read off a quantised layer.
        scale: ``[model dimension]``: factors on the block's output before it is added.
        row_scale: ``[batch, query, 1]``: such factors of positions, from a norm after the block.
        block: What the attention block gives to the residual stream, as the model computed it.
        residual: What the block's output is added to: the residual stream.
        sum: The two added.
        norm: The layer norm that is the only reader of the sum (post-norm models).
        goes_on: Whether the sum is added to again (pre-norm models).
        stream: The residual stream after the layer, where more was added (pre-norm models).
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
