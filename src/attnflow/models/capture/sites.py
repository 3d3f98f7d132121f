"""Where a model attended, and what of it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Fusion = Callable[[Tensor], Tensor]  # [batch, head, query, key] → [batch, query, key]


@dataclass
class Site:
    """One place where the model attended, in the order of the calls.

    Attributes:
        probabilities: ``[batch, head, query, key]``, or ``[batch, query, key]`` with heads fused.
        sums: ``[batch, head, query]``: what each row summed to before it was made to sum to 1.
        precision: The element type the model computed in.
        sink: Whether the model gave a share of each row to something that is no token.
        values: ``[batch, head, key, dimension]``: what was averaged, where asked for.
        output: The averaged values, as the model computed them, where values were asked for.
        projection: The weight ``[model dimension, head · dimension]`` that the output met next.
        leaf: The tensor to differentiate by, where gradients were asked for.
    """

    probabilities: Tensor
    sums: Tensor
    precision: torch.dtype
    sink: bool = False
    values: Tensor | None = None
    output: Tensor | None = None
    projection: Tensor | None = None
    leaf: Tensor | None = None


@dataclass(frozen=True)
class Wanted:
    """What a capture keeps; everything else costs nothing.

    Attributes:
        fuse: Merges the heads of a layer as it is captured; ``None`` keeps every head.
        layers: The attention sites to keep, counted from 1 in the order of the calls.
        queries: The rows to keep.
        values: Keep values, outputs and output projections too.
        gradients: Put the probabilities on the autograd tape; see `Capture.gradients`.
        batch: The batch size, for models that flatten batch and heads into one axis.
    """

    fuse: Fusion | None = None
    layers: Collection[int] | None = None
    queries: Sequence[int] | None = None
    values: bool = False
    gradients: bool = False
    batch: int = 1
