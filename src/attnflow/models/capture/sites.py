"""What a capture keeps of one call of attention."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Site:
    """One place where the model attended, in the order of the calls.

    Attributes:
        probabilities: ``[batch, head, query, key]``, or ``[batch, query, key]`` with heads fused.
        sums: ``[batch, head, query]``: what each row summed to before it was made to sum to 1.
        precision: The element type the model computed in.
        sink: Whether the model gave a share of each row to something that is no token.
        values: ``[batch, head, key, dimension]``: what was averaged, where requested.
        output: The averaged values, as the model computed them, where values were requested.
        projection: The weight ``[model dimension, head · dimension]`` that the output met next.
        leaf: The tensor to differentiate by, where gradients were requested.
    """

    probabilities: Tensor
    sums: Tensor
    precision: torch.dtype
    sink: bool = False
    values: Tensor | None = None
    output: Tensor | None = None
    projection: Tensor | None = None
    leaf: Tensor | None = None
