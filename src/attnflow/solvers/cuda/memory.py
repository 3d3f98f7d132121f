"""How much memory a pair takes, and the structures that kernels read (network.cu, solve.cu)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

_ADDRESS = np.uint64
GRAPH = np.dtype(
    [(name, _ADDRESS) for name in ("weights", "own", "sums", "usable", "above")]
    + [(name, np.int64) for name in ("layer_stride", "item_stride")]
    + [(name, np.int32) for name in ("depth", "size", "words")],
    align=True,
)
_POINTERS = "edges order layers sinks reach share values gaps proofs jobs"
PAIRS = np.dtype(
    [(name, _ADDRESS) for name in _POINTERS.split()]
    + [("count", np.int64)]
    + [(name, np.int32) for name in ("items", "sources", "slots")],
    align=True,
)
LANES = 32


def pack(kind: np.dtype[Any], addresses: Iterable[int], *numbers: int) -> Any:
    """A structure as bytes: its addresses, then its numbers."""
    return np.array((*addresses, *numbers), dtype=kind).reshape(1).view(np.uint8)


def words_of(size: int) -> int:
    """How many words of 32 bits hold a bit for each position."""
    return -(-size // LANES)


def shared_bytes(size: int) -> int:
    """Shared memory of a warp: excess of two layers, places in a list, two rows of bits."""
    return size * (2 * 8 + 4) + 2 * 4 * words_of(size) + 8


def bytes_of_pair(depth: int, size: int, blocks: int) -> int:
    """Memory of a warp with this many blocks for its lists, as `lay_out` of solve.cu divides it."""
    nodes, bits = (depth + 1) * size, (depth + 1) * words_of(size)
    doubles = 3 * nodes + size + blocks * LANES
    total = (
        8 * doubles
        + 4 * (7 * nodes + 2 * (depth + 2) + blocks + 3 * bits)
        + 2 * (blocks * LANES + nodes)
    )
    return -(-total // 256) * 256


def rounded(size: int) -> int:
    """At most an eighth more: memory of few sizes can be used again when texts differ."""
    step = max(256, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step


def usual_blocks(depth: int, size: int) -> int:
    """Blocks that suffice for most pairs: one for each row that is poured."""
    return min(most_blocks(depth, size), max(64, (depth - 1) * size))


def most_blocks(depth: int, size: int) -> int:
    """Blocks that suffice for any pair."""
    return max(1, depth * size * words_of(size))
