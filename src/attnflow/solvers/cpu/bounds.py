"""Bounds that end a solve: no flow can exceed them, and a flow that meets one is proven optimal.

A node sends to the sink at most the sum over its edges of min(edge, what the edge's end can send);
see docs/flow.md. Most flows of real attention meet this bound, so most need no proof by search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from attnflow.records import FloatArray
from attnflow.solvers.cpu.kernels import KERNEL
from attnflow.solvers.cpu.network import IntArray, Network

MOST_BYTES = 64 * 1024 * 1024  # of cached bounds; those of larger graphs are computed every time

# Sums may be taken in any order, in vector lanes; a bound need not be the same to the last bit.
REORDER = {"reassoc", "nsz", "nnan", "ninf", "contract"}


@njit(**KERNEL, fastmath=REORDER)
def capped_sum(row: FloatArray, cap: FloatArray) -> float:
    """Σ_j min(row[j], cap[j])."""
    # The cost of the bounds is here. LLVM turns this loop over contiguous rows into vector
    # instructions, and it needs no temporary array, as np.minimum would.
    total = 0.0
    for place in range(row.shape[0]):
        total += row[place] if row[place] < cap[place] else cap[place]
    return total


class Bounds(NamedTuple):
    """The bounds of every sink that was solved before; arrays are empty where none are cached."""

    known: IntArray  # [sink], up to which layer the bounds are known
    reach: FloatArray  # [sink, layer, position]
    share: FloatArray  # [sink, layer, position]


def make_bounds(depth: int, size: int, sinks: int | None = None) -> Bounds:
    """Arrays for the bounds of all sinks; empty ones if they would exceed `MOST_BYTES`."""
    if sinks is None:
        # 16 bytes: reach and share are float64 each.
        sinks = size if 16 * size * (depth + 1) * size <= MOST_BYTES else 0
    shape = (sinks, depth + 1, size)
    return Bounds(np.zeros(sinks, np.int32), np.zeros(shape), np.zeros(shape))


@njit(cache=True, nogil=True)
def recall_reach(network: Network, bounds: Bounds, top: int, sink: int, low: int) -> None:
    """Fill ``reach`` and ``share`` for layers 1 … top, from what is known of the sink."""
    # Threads share `bounds` without a lock: they take different sinks, and two that were given the
    # same one would write the same numbers. `known` is set last, when its rows are complete.
    if bounds.known.shape[0] == 0:
        bound_reach(network, 1, top, sink, low)
        return
    known = bounds.known[sink]
    # The copies cost layers × positions, against layers × positions² for computing the bounds anew.
    if known < top:
        # The bounds of a layer follow from the layer below, so that a later call for higher
        # layers continues where an earlier one stopped.
        network.reach[: known + 1] = bounds.reach[sink, : known + 1]
        network.share[: known + 1] = bounds.share[sink, : known + 1]
        bound_reach(network, known + 1, top, sink, low)
        bounds.reach[sink, known + 1 : top + 1] = network.reach[known + 1 : top + 1]
        bounds.share[sink, known + 1 : top + 1] = network.share[known + 1 : top + 1]
        bounds.known[sink] = top
    else:
        network.reach[: top + 1] = bounds.reach[sink, : top + 1]
        network.share[: top + 1] = bounds.share[sink, : top + 1]


@njit(**KERNEL)
def read_column(network: Network, sink: int, low: int) -> None:
    """Fill ``column``: the edges into the sink's position, side by side in memory."""
    capacity, column = network.capacity, network.column
    for layer in range(column.shape[0]):
        for query in range(low, column.shape[1]):
            column[layer, query] = capacity[layer, query, sink]


@njit(**KERNEL)
def bound_reach(network: Network, first: int, top: int, sink: int, low: int) -> None:
    """Fill ``reach`` and ``share`` for layers first … top, from the layers below.

    ``reach`` is what each node could send to the sink at most. ``share`` is what it can send down
    its own column and from there into the sink's: a modest guess that all nodes can keep at once.
    """
    reach, share = network.reach, network.share
    # Layer 1 is filled even when `first` is higher: its sum, all that the sink can take, caps the
    # reach of every node. Positions below `low` can't reach the sink and are never read.
    whole = 0.0
    for position in range(low, reach.shape[1]):
        reach[1, position] = share[1, position] = network.capacity[0, position, sink]
        whole += reach[1, position]
    for layer in range(max(2, first), top + 1):
        for position in range(low, reach.shape[1]):
            row = network.capacity[layer - 1, position, low:]
            reach[layer, position] = min(whole, capped_sum(row, reach[layer - 1, low:]))
            # `share` is a guess and proves nothing: if it is too high, pouring leaves more to be
            # repaired by a search. At the sink's position, the own column is the sink's already.
            side = network.capacity[layer - 1, position, sink] if position != sink else 0.0
            share[layer, position] = min(reach[layer, position], share[layer - 1, position] + side)


@njit(**KERNEL)
def cut_capacity(network: Network, sink: int, top: int, low: int, high: int) -> float:
    """The capacity of the cut between the nodes that `measure` reached and those it did not."""
    # Every edge from the unreached side to the reached one: from the source, between layers, and to
    # the sink. Capacities are summed, never flows, so that this checks the flow independently.
    capacity, level, supplied, reached = (
        network.capacity,
        network.level,
        network.supplied,
        network.row,
    )
    total = 0.0
    for position in range(low, high):
        if level[top, position]:
            total += supplied[position]
        if not level[1, position]:
            total += capacity[0, position, sink]
    for layer in range(2, top + 1):
        # Ones and zeros instead of a choice, so that a row is summed in vector registers.
        for key in range(low, high):
            reached[key] = 1.0 if level[layer - 1, key] else 0.0
        for query in range(low, high):
            if not level[layer, query]:
                total += _weighed(capacity[layer - 1, query, low:high], reached[low:high])
    return total


@njit(**KERNEL, fastmath=REORDER)
def _weighed(row: FloatArray, weights: FloatArray) -> float:
    total = 0.0
    for place in range(row.shape[0]):
        total += row[place] * weights[place]
    return total
