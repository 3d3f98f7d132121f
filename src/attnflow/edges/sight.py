"""What the positions of a causal model see: all before them, or those in their window."""

from __future__ import annotations

import numpy as np

from attnflow.records.sparse import LongArray, SparseLayer
from attnflow.records.types import Array


def first_seen(layer: Array) -> LongArray:
    """``[query]``: the first position that each position of a causal map ``[…, query, key]`` sees.

    It is the first that it or a later one reads, since windows only move on: an entry that has
    become 0 by rounding changes nothing.
    """
    if isinstance(layer, SparseLayer):
        own = np.diff(layer.starts) > 0
        first = np.arange(layer.size)
        first[own] = layer.keys[layer.starts[:-1][own]]
    else:
        read = (layer.reshape(-1, *layer.shape[-2:]) > 0).any(0)
        read = np.asarray(read.cpu() if hasattr(read, "cpu") else read)
        first = np.where(read.any(-1), read.argmax(-1), np.arange(len(read)))
    first = np.minimum(first, np.arange(len(first)))
    found: LongArray = np.minimum.accumulate(first[::-1])[::-1]
    return found


def even_rows(first: LongArray) -> SparseLayer:
    """Rows that are spread over the positions from ``first`` to the own one."""
    counts = np.arange(len(first)) - first + 1
    starts = np.concatenate([[0], np.cumsum(counts)])
    keys = np.arange(starts[-1]) - np.repeat(starts[:-1] - first, counts)
    return SparseLayer(starts, keys.astype(np.int32), np.repeat(1 / counts, counts))
