"""What a capture keeps of a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

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
