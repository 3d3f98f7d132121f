"""One call of fused attention, and the probabilities that it does not show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor

# Whether products of half precision can be given in float32.
WIDE_OUTPUTS = torch.torch_version.TorchVersion(torch.__version__) >= "2.8"


class FusedCall(NamedTuple):
    """A call of `F.scaled_dot_product_attention`.

    ``grouped`` means that several heads of the query may share keys and values.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None = None
    dropout: float = 0.0
    causal: bool = False
    scale: float | None = None
    grouped: bool = False

    @classmethod
    def of(  # noqa: PLR0913 - the signature of torch's function
        cls,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> FusedCall:
        """The call with these arguments, as torch names them."""
        return cls(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)

    def run(self) -> Tensor:
        """What torch gives."""
        newer = {"enable_gqa": True} if self.grouped else {}  # torch 2.4 does not know it
        query, key, value, mask, dropout, causal, scale, _ = self
        return F.scaled_dot_product_attention(
            query, key, value, mask, dropout, causal, scale=scale, **newer
        )

    def for_each_head(self) -> FusedCall:
        """The call with keys and values for each head of the query."""
        if not self.grouped:
            return self
        key, value = for_each_head(self.query, self.key, self.value)
        return self._replace(key=key, value=value, grouped=False)

    def probabilities(self, rows: Sequence[int] | None = None) -> Tensor:
        """What values are weighted by, in float32 or better; of some rows where they are named."""
        return probabilities_of(self.query, self.key, self.mask, self.causal, self.scale, rows)


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
    scores = wide_product(query[..., chosen, :], key.transpose(-2, -1), scale)
    if causal and mask is None:
        every = torch.arange(max(query.size(-2), key.size(-2)), device=query.device)
        hidden = every[: key.size(-2)] > every[: query.size(-2)][chosen, None]
        return scores.masked_fill_(hidden, -math.inf).softmax(-1)  # the first key is seen by all
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


def wide_product(first: Tensor, second: Tensor, scale: float | None = None) -> Tensor:
    """The product of matrices, scaled, in float32 or better, whatever the factors' precision."""
    dtype = torch.promote_types(first.dtype, torch.float32)
    if not _multiplies_halves(first, second):
        first = first.to(dtype) if scale is None else first.to(dtype) * scale
        return first @ second.to(dtype)
    batch = torch.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    flat = [each.expand(*batch, *each.shape[-2:]).flatten(0, -3) for each in (first, second)]
    found = torch.bmm(flat[0], flat[1], out_dtype=dtype).unflatten(0, batch)
    return found if scale is None else found.mul_(scale)


def _multiplies_halves(first: Tensor, second: Tensor) -> bool:
    """Whether a GPU can multiply these as they are, which is faster, and add up in float32.

    The product has no derivative then.
    """
    halves = first.dtype == second.dtype and first.dtype in (torch.float16, torch.bfloat16)
    fast = first.is_cuda and halves and not torch.is_grad_enabled() and first.dim() > 2
    return fast and WIDE_OUTPUTS


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
