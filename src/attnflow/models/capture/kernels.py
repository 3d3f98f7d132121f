"""Edges of fused attention on a GPU, in Triton: no map of a head is ever written.

Triton comes with torch's own packages for GPUs. A tile of the map is computed for one head after
the other and added up in registers; all that is read are queries, keys, values and the gradient of
the output. Row sums of the softmax (as logarithms) are computed first.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

WIDEST = 256  # dimensions of a head
KINDS = (torch.float16, torch.bfloat16, torch.float32)
NO_MASK, SEEN, ADDED = 0, 1, 2
# Rows and columns of a tile, warps that compute it, and how far loads run ahead.
TILES = ((128, 64, 8, 2), (64, 64, 4, 2), (64, 32, 4, 2), (32, 32, 4, 1))
_fits: dict[Any, int] = {}  # the tiles that fit, by device, precision and widths


def can_run(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Whether these tensors are such as the kernels read."""
    tensors = (query, key, value)
    alike = all(each.is_cuda and each.dim() == 4 and each.dtype in KINDS for each in tensors)
    narrow = max(query.size(-1), value.size(-1)) <= WIDEST
    return alike and narrow and (mask is None or mask.dim() <= 4) and _is_there()


def add_edges(  # noqa: PLR0913 - of attention, and of what is read
    into: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    gradient: Tensor,
    mask: Tensor | None,
    *,
    causal: bool,
    scale: float,
    least_rest: float | None = None,
) -> bool:
    """Write edges into a map ``[batch, query, key]``, or ``[batch, head, query, key]``, of zeros.

    They are relevance; with ``least_rest``, below which the rest of a row does not count, the
    first-order cost of removing them. Tells whether this GPU could: heads may be too wide for it.
    """
    query, key, value, gradient = (
        each if each.stride(-1) == 1 else each.contiguous()
        for each in (query, key, value, gradient)
    )
    batch, heads, queries, width = query.shape
    keys, depth, removal = key.size(-2), value.size(-1), least_rest is not None
    kind, masked = NO_MASK, query  # a pointer that nothing is read from
    if mask is not None:
        kind = SEEN if mask.dtype == torch.bool else ADDED
        masked = mask.to(torch.uint8 if kind == SEEN else torch.float32)
        masked = masked.expand(batch, heads, queries, keys)
    sums, means = (
        torch.empty(batch, heads, queries, dtype=torch.float32, device=query.device)
        for _ in range(2)
    )
    each_head = into.dim() == 4
    tensors = (query, key, value, gradient, masked, sums, means, into)
    strides = [n for each in (query, key, value, gradient) for n in each.stride()[:3]]
    strides += [*(masked.stride() if kind else (0, 0, 0, 0)), into.stride(0)]
    strides += [into.stride(1) if each_head else 0, *into.stride()[-2:]]
    numbers = (heads, queries, keys, width, depth, scale, least_rest or 1.0)
    options = {
        "GROUPS": heads // key.size(1),
        "CAUSAL": causal and mask is None,
        "MASK": kind,
        "EXACT": query.dtype == torch.float32,
        "WIDE": max(16, 1 << (width - 1).bit_length()),
        "DEEP": max(16, 1 << (depth - 1).bit_length()),
        "REMOVAL": removal,
        "EACH": each_head,
    }

    def run(rows: int, columns: int, warps: int, stages: int) -> None:
        from attnflow.models.capture import triton_edges

        sizes = {"ROWS": rows, "COLUMNS": columns, "num_warps": warps, "num_stages": stages}
        by_row = (_tiles(queries, rows), batch * heads)
        tiles = (_tiles(queries, rows), _tiles(keys, columns), batch)
        triton_edges.rows_kernel[by_row](*tensors, *strides, *numbers, **options, **sizes)
        triton_edges.edges_kernel[tiles](*tensors, *strides, *numbers, **options, **sizes)

    place = (query.device, query.dtype, *options.values())
    with torch.cuda.device(query.device):
        return _fitting(place, run)


def _fitting(place: Any, run: Callable[..., None]) -> bool:
    """Run with the largest tiles that fit into a GPU's memory, determined once for each place."""
    from triton.runtime.errors import OutOfResources

    for number in range(_fits.get(place, 0), len(TILES)):
        try:
            run(*TILES[number])
        except OutOfResources:
            continue
        _fits[place] = number
        return True
    _fits[place] = len(TILES)
    return False


def _tiles(count: int, size: int) -> int:
    return -(-count // size)


@cache
def _is_there() -> bool:
    """Whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None
