"""Lengths of what is carried, T_ij, and how close it comes to the sum; no T_ij is kept.

T_ij = s_i · Σ_h α^h_ij · v^h_j, and o_i on top where i = j. Each vector is made and measured while
it is in the processor's cache, for the pairs of which any head reads something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from attnflow.edges.rows import in_threads
from attnflow.records import FloatArray

ROWS = 64  # whose sums stay in the cache while the vectors of all keys pass by


@dataclass(frozen=True, eq=False)
class Carried:
    """What all T_ij of a layer are made of.

    Attributes:
        attention: ``[head, query, key]``, in float32 or float64.
        vectors: ``[key, head, model dimension]``.
        scale: ``[query]``: factors of positions.
        own: ``[query, model dimension]``: what T_ii has on top.
        total: ``[query, model dimension]``: Σ_j T_ij.
    """

    attention: FloatArray
    vectors: FloatArray
    scale: FloatArray
    own: FloatArray
    total: FloatArray

    def lengths(self) -> FloatArray:
        """‖T_ij‖₂, ``[query, key]``."""
        return self._measured(near=False)

    def nearness(self) -> FloatArray:
        """‖y_i‖₁ − ‖y_i − T_ij‖₁ with y_i = Σ_j T_ij, ``[query, key]``; 0 where it is negative."""
        return self._measured(near=True)

    def _measured(self, *, near: bool) -> FloatArray:
        _, queries, keys = self.attention.shape
        found = np.zeros((queries, keys))
        starts = range(0, queries, ROWS)

        def measure(number: int) -> None:
            rows = starts[number], min(starts[number] + ROWS, queries)
            given = self.attention, self.vectors, self.scale, self.own, self.total
            _measure(*given, *rows, near, found)

        in_threads(len(starts), measure, work=queries * self.vectors.size)
        return found


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _measure(  # noqa: PLR0913 - arrays, for numba
    attention: Any,
    vectors: FloatArray,
    scale: FloatArray,
    own: FloatArray,
    total: FloatArray,
    first: int,
    end: int,
    near: bool,
    found: FloatArray,
) -> None:
    keys, heads, width = vectors.shape
    weights, vector = np.empty(heads), np.empty(width)
    for key in range(keys):
        for query in range(first, end):
            read = 0.0
            for head in range(heads):
                weights[head] = scale[query] * np.float64(attention[head, query, key])
                read += abs(weights[head])
            if read == 0.0 and query != key:
                continue
            _add_up(weights, vectors[key], vector)
            if query == key:
                for at in range(width):
                    vector[at] += own[query, at]
            size = 0.0
            if near:
                for at in range(width):
                    size += abs(total[query, at]) - abs(total[query, at] - vector[at])
                found[query, key] = max(0.0, size)
            else:
                for at in range(width):
                    size += vector[at] * vector[at]
                found[query, key] = np.sqrt(size)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, inline="always")
def _add_up(weights: FloatArray, vectors: FloatArray, into: FloatArray) -> None:
    """Σ_h weights[h] · vectors[h]; several heads at a time, so that sums are read less often."""
    heads, width = vectors.shape
    into[:] = 0.0
    whole = heads - heads % 3
    for head in range(0, whole, 3):
        a, b, c = weights[head], weights[head + 1], weights[head + 2]
        for at in range(width):
            into[at] += (
                a * vectors[head, at] + b * vectors[head + 1, at] + c * vectors[head + 2, at]
            )
    for head in range(whole, heads):
        for at in range(width):
            into[at] += weights[head] * vectors[head, at]
