"""The probabilities of one call of attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def probabilities_of(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    rows: Sequence[int] | None = None,
) -> Tensor:
    """What `F.scaled_dot_product_attention` weighs values by, in float32 or better."""
    chosen = slice(None) if rows is None else _as_index(rows)
    dtype = torch.promote_types(query.dtype, torch.float32)
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = (query[..., chosen, :].to(dtype) * scale) @ key.to(dtype).transpose(-2, -1)
    if causal:
        size = (query.size(-2), key.size(-2))
        visible = torch.ones(size, dtype=torch.bool, device=query.device).tril()
        mask = visible if mask is None else mask
    if mask is None:
        return scores.softmax(-1)
    mask = mask[..., chosen, :] if mask.size(-2) > 1 else mask
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -math.inf)
    scores = scores.add_(mask)
    blind = (mask == -math.inf).all(-1, keepdim=True)  # padding that sees nothing
    if not bool(blind.any()):
        return scores.softmax(-1)
    # Before the softmax, too: it would have no gradient there but NaN.
    return scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)


def for_each_head(query: Tensor, *shared: Tensor) -> tuple[Tensor, ...]:
    """Keys or values ``[…, head, key, dimension]`` with one head for each of the query's.

    Where several heads of the query share one (grouped heads), it is repeated.
    """
    heads = query.size(-3)
    return tuple(
        each if each.size(-3) == heads else each.repeat_interleave(heads // each.size(-3), -3)
        for each in shared
    )


def _as_index(rows: Sequence[int]) -> slice | list[int]:
    return slice(rows.start, rows.stop) if isinstance(rows, range) else list(rows)


def give_sink_to_self(attention: Tensor, sums: Tensor) -> Tensor:
    """What a head gave to its sink it did not write: the position keeps that share of itself."""
    queries, keys = attention.shape[-2:]
    if queries != keys:
        return attention / sums.unsqueeze(-1)
    return attention + torch.diag_embed((1 - sums).clamp_min(0))
