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
        readout: Keep how the target's logit is read off the residual stream; needs ``blocks``.
        zeroing: Run every layer again without the value of each position; see `zeroing`.
        progress: Told the share of these runs that is done, of one input.
    """

    fuse: Fusion | None = None
    layers: Collection[int] | None = None
    queries: Sequence[int] | None = None
    blocks: bool = False
    gradients: bool = False
    readout: bool = False
    zeroing: bool = False
    progress: Callable[[float], None] | None = None
