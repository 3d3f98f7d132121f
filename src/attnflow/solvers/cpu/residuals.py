"""What is left of the edges: of all edges side by side, or only of those that a pair changed.

Short texts have a place for every edge. For long ones that would be as much memory as the weights
take, in every thread; there, the changed edges are in a table, found by hashing. Either way a
*slot* says where the residual of an edge is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from attnflow.records import FloatArray
from attnflow.solvers.cpu.bits import Bits
from attnflow.solvers.cpu.kernels import KERNEL

SLOTS = 32  # of a table for every node: the edges that a pair changes are some five a node
MOST = 0.75  # of the slots are used; what is free must be more than the longest path
SCATTER = np.uint64(0x9E3779B97F4A7C15)  # multiplied with, numbers in a row end up far apart
HALF = np.uint64(32)
NOTHING, ONE = np.uint64(0), np.uint64(1)


class Residuals(NamedTuple):
    """Residual capacities, and of a table what is where; see `make_residuals`."""

    left: FloatArray  # [slot]
    edge: Bits | None  # [slot], the number of the edge plus 1, or 0; None: every edge has a slot
    used: Bits  # [order], the slots in use
    counts: Bits  # [0], how many there are; [1], whether there were too few


def make_residuals(capacity: FloatArray, slots: int | None) -> Residuals:
    """Residuals of a network at rest: a table with this many slots, or a place for every edge."""
    places = 0 if slots is None else 1 << (slots - 1).bit_length()
    return Residuals(
        left=capacity.ravel().copy() if slots is None else np.zeros(places),
        edge=None if slots is None else np.zeros(places, np.uint64),
        used=np.zeros(places, np.uint64),
        counts=np.zeros(2, np.uint64),
    )


# Numba compiles these for either kind: a test whether an argument is None costs nothing.


@njit(**KERNEL)
def number_of(capacity: FloatArray, layer: int, query: int, key: int) -> Any:
    """The number of an edge."""
    size = np.uint64(capacity.shape[1])
    return (np.uint64(layer) * size + np.uint64(query)) * size + np.uint64(key)


@njit(**KERNEL)
def slot_of(edge: Bits, number: Any) -> Any:
    """Where the residual of the edge of this number is, or would be."""
    mask = np.uint64(edge.shape[0] - 1)
    slot = ((number * SCATTER) >> HALF) & mask
    while edge[slot] != NOTHING and edge[slot] != number + ONE:
        slot = (slot + ONE) & mask
    return slot


@njit(**KERNEL)
def _left_of(
    left: FloatArray, edge: Bits | None, capacity: FloatArray, layer: int, query: int, key: int
) -> Any:
    number = number_of(capacity, layer, query, key)
    if edge is None:
        return left[number]
    slot = slot_of(edge, number)
    return left[slot] if edge[slot] != NOTHING else capacity[layer, query, key]


@njit(**KERNEL)
def _change(
    residuals: Residuals,
    edge: Bits | None,
    capacity: FloatArray,
    at: tuple[int, int, int],
    by: float,
) -> Any:
    number = number_of(capacity, at[0], at[1], at[2])
    left = residuals.left
    if edge is None:
        left[number] += by
        return left[number]
    slot = slot_of(edge, number)
    if edge[slot] == NOTHING:
        edge[slot] = number + ONE
        residuals.used[residuals.counts[0]] = slot
        residuals.counts[0] += ONE
        left[slot] = capacity[at]
    left[slot] += by
    return left[slot]


@njit(**KERNEL)
def _is_full(edge: Bits | None, counts: Bits) -> Any:
    return False if edge is None else counts[0] > MOST * edge.shape[0]


@njit(**KERNEL, inline="always")
def left_of(residuals: Residuals, capacity: FloatArray, layer: int, query: int, key: int) -> Any:
    """The residual capacity of an edge."""
    return _left_of(residuals.left, residuals.edge, capacity, layer, query, key)


@njit(**KERNEL, inline="always")
def change(
    residuals: Residuals, capacity: FloatArray, layer: int, query: int, key: int, by: float
) -> Any:
    """Add to the residual capacity of an edge; returns what it is now."""
    return _change(residuals, residuals.edge, capacity, (layer, query, key), by)


@njit(**KERNEL, inline="always")
def is_full(residuals: Residuals) -> Any:
    """Whether a table must not take more edges than those of one path."""
    return _is_full(residuals.edge, residuals.counts)
