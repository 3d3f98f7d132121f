"""Rows of attention on the CPU: checked, and made rows of edges, each in one pass over memory.

What NumPy does in a dozen passes and copies is done here while a row is in the cache.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numba import njit

from attnflow.records import FloatArray
from attnflow.solvers.threads import cores

T = TypeVar("T")
WORTH_THREADS = 1 << 23
"""Weights below which threads cost more than they bring, beside those of the matrix products."""


def are_sound(layers: Sequence[Any], tolerance: float) -> list[bool]:
    """For layers ``[row, key]``: no weight below zero, every sum within ``tolerance`` of 1.

    Neither NaN nor infinity is.
    """
    return _each(layers, lambda number: bool(_is_sound(layers[number], tolerance)))


def fuse_rows(layers: Sequence[Any], heads: Sequence[FloatArray], residual: float) -> FloatArray:
    """Edges ``[layer, item, query, key]`` of layers ``[item, head, query, key]``.

    The heads of each layer are fused by their weights, the residual is added, and every row sums
    to 1.
    """
    items, _, size, _ = layers[0].shape
    edges = np.empty((len(layers), items, size, size))
    _each(layers, lambda number: _fuse(layers[number], heads[number], residual, edges[number]))
    return edges


class LayersOnDemand:
    """Edges ``[layer, …, query, key]`` as of `fuse_rows`, each layer made when it is read.

    For methods that read the layers one after the other: a layer is still in the processor's cache
    when it is used, and its memory serves the next, unless somebody still holds it.
    """

    dtype = np.dtype(np.float64)

    def __init__(
        self,
        layers: Sequence[Any],
        heads: Sequence[FloatArray],
        residual: float,
        batch: tuple[int, ...],
    ) -> None:
        self._layers, self._heads, self._residual = layers, heads, residual
        size = layers[0].shape[-1]
        self.shape = (len(layers), *batch, size, size)
        self.ndim = len(self.shape)
        self._edges = np.empty((layers[0].shape[0], size, size))

    @property
    def nbytes(self) -> int:
        """The memory of one layer."""
        return self._edges.nbytes

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, number: int) -> FloatArray:
        # Two references: this object's, and the one that is passed. Views of it have more.
        if sys.getrefcount(self._edges) > 2:
            self._edges = np.empty_like(self._edges)
        _fuse(self._layers[number], self._heads[number], self._residual, self._edges)
        return self._edges.reshape(self.shape[1:])


def _each(layers: Sequence[Any], work: Callable[[int], T]) -> list[T]:
    """The work of every layer by its number, in threads where that pays."""
    threads = min(len(layers), cores())
    if threads < 2 or layers[0].size * len(layers) < WORTH_THREADS:
        return [work(number) for number in range(len(layers))]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, range(len(layers))))


# Sums may be taken in any order, so that they fit into vector registers; NaN is still NaN.
@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _is_sound(rows: Any, tolerance: float) -> bool:
    for number in range(rows.shape[0]):
        row = rows[number]
        total, negative = 0.0, False
        for key in range(row.shape[0]):
            value = np.float64(row[key])
            total += value
            negative |= bool(value < 0.0)
        if negative or not abs(total - 1.0) <= tolerance:
            return False
    return True


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _fuse(layer: Any, heads: FloatArray, residual: float, edges: FloatArray) -> None:
    items, count, size, _ = layer.shape
    for item in range(items):
        for query in range(size):
            row = edges[item, query]
            row[:] = 0.0
            for head in range(count):
                attention = layer[item, head, query]
                for key in range(size):
                    row[key] += heads[head] * np.float64(attention[key])
            total = 0.0
            for key in range(size):
                total += row[key]
            total = (1.0 - residual) * total + residual
            if total == 0.0:  # a row of zeros reads nothing, and stays so
                continue
            scale = (1.0 - residual) / total
            for key in range(size):
                row[key] *= scale
            row[query] += residual / total
