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
from attnflow.solvers.execution import cores

T = TypeVar("T")
WORTH_THREADS = 1 << 23
"""Multiplications below which threads cost more than they bring."""


def are_sound(layers: Sequence[Any], tolerance: float) -> list[bool]:
    """For layers ``[row, key]``: no weight below zero, every sum within ``tolerance`` of 1.

    Neither NaN nor infinity is.
    """
    work = layers[0].size * len(layers)
    return in_threads(
        len(layers), lambda number: bool(_is_sound(layers[number], tolerance)), work=work
    )


def fuse_rows(layers: Sequence[Any], heads: Sequence[FloatArray], residual: float) -> FloatArray:
    """Edges ``[layer, item, query, key]`` of layers ``[item, head, query, key]``.

    The heads of each layer are fused by their weights, the residual is added, and every row sums
    to 1.
    """
    items, _, size, _ = layers[0].shape
    edges = np.empty((len(layers), items, size, size))
    work = layers[0].size * len(layers)
    in_threads(
        len(layers),
        lambda number: _fuse(layers[number], heads[number], residual, edges[number]),
        work=work,
    )
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


def in_threads(count: int, do: Callable[[int], T], *, work: int) -> list[T]:
    """What is done for each number below ``count``, in threads where so much work pays them."""
    threads = min(count, cores())
    if threads < 2 or work < WORTH_THREADS:
        return [do(number) for number in range(count)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(do, range(count)))


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
