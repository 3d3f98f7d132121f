"""The flow network of one thread: arrays that are allocated once and reused for every pair.

Nodes are (layer, position). ``capacity[k, i, j]`` is the edge from (k + 1, i) to (k, j). For a pair
(source in layer l, sink) the source's edges become ``excess`` on layer l − 1 and the sink's edges
``demand`` on layer 1, so that only layers 1 … l − 1 are searched, of which ``top`` = l − 1 is the
highest.

A pair changes little of ``residual``. Each changed edge is written into a ``log``, so that
afterwards only these are reset, and no pair pays for the size of the network. Most pairs need no
search: only for those that do, the log becomes sets of bits (`mark_edges`), which searches read
instead of the residuals.

``low`` and ``high`` limit the positions everywhere: those outside can't carry flow of the pair, and
their entries are stale.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from attnflow.records import FloatArray
from attnflow.solvers.cpu.bits import ONE, SIX, SIXTY_THREE, WORD, Bits, drop, put, words
from attnflow.solvers.cpu.kernels import KERNEL
from attnflow.solvers.cpu.residuals import Residuals, change, make_residuals, number_of

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
ByteArray = npt.NDArray[np.uint8]
BoolArray = npt.NDArray[np.bool_]

# A capacity that carries nothing. Subtractions leave residues of this size on edges that are full:
# without the tolerance, searches would follow them and send next to nothing, again and again.
NEGLIGIBLE = 1e-15

LOGGED = 64  # edges a position and layer: more are rare, and then whole layers are reset
HALF = np.uint32(16)  # a log entry is the query in the upper half of its bits, the key in the lower
LOWER = np.uint32(0xFFFF)
MOST_POSITIONS = 1 << 16  # that fit into a half


class Network(NamedTuple):
    """Capacities, what is left of them, and working arrays of the searches; see `make_network`."""

    capacity: FloatArray  # [layer, query, key], never written
    residuals: Residuals  # what is left of the capacities
    excess: FloatArray  # [layer, position], flow that arrived and was not yet sent on
    supplied: FloatArray  # [position] of the top layer, the source's edges
    demand: FloatArray  # [position] of layer 1, what the sink still takes from there
    reach: FloatArray  # [layer, position], a bound on what the node can send to the sink
    share: FloatArray  # [layer, position], what it can send without crossing other columns
    open: IntArray  # [order], the positions that still take something
    rows: (
        IntArray  # [2, order], positions with something left, and where the log has what they sent
    )
    row: FloatArray  # [position], the residuals of one of them
    diagonal: FloatArray  # [layer, position], the capacity of the edge to the same position
    column: FloatArray  # [layer, query], the capacity of the edge to the sink's position
    log: IntArray  # [layer, order], the edges that were changed, query and key in one number
    poured: FloatArray  # [layer, order], how much was poured into each
    logged: LongArray  # [layer], how many there are, even if the log is full
    marked: LongArray  # [0], whether `free` and `carrying` are up to date
    usable: Bits  # [layer, query], the keys to which the edge can carry anything, never written
    free: Bits  # [layer, query], the keys to which the edge has residual capacity
    carrying: Bits  # [layer, key], the queries whose edge to this key carries flow
    level: IntArray  # [layer, position], the distance to the sink; 0 unreached
    missing: Bits  # [layer], the positions that a search has not reached
    front: Bits  # [number], positions of one layer at one distance that are not used up
    fronts: IntArray  # [layer, distance], the number of the front; 0 is an empty one
    stack: IntArray  # [depth of a path, (layer, position)]
    offered: FloatArray  # [depth of a path], what the node there may pass on
    sent: FloatArray  # [depth of a path], what arrived at the sink through it


def make_network(
    capacity: FloatArray, *, slots: int | None = None, logged: int = LOGGED
) -> Network:
    """A network for any pair on these capacities, ``[layer, query, key]``.

    Residuals are in a table of so many ``slots``, or of all edges.
    """
    # Everything but the table has its largest possible size: no search has to grow an array.
    # `capacity` is not copied: it is never written, and all threads read the same one.
    depth, size, _ = capacity.shape
    nodes, count = (depth + 1, size), words(size)
    # A path in the residual network goes up as well as down, but visits no node twice.
    longest = depth * size + 2
    if slots is not None:
        logged = min(logged, slots // (2 * depth * size))  # so that all of it fits into the table
    entries = min(2 * size, logged) * size + size + 2
    usable = _usable(capacity)
    return Network(
        capacity=capacity,
        residuals=make_residuals(capacity, slots),
        excess=np.zeros(nodes),
        supplied=np.zeros(size),
        demand=np.zeros(size),
        reach=np.zeros(nodes),
        share=np.zeros(nodes),
        open=np.zeros(size, np.uint32),
        rows=np.zeros((2, size), np.uint32),
        row=np.zeros(size),
        diagonal=np.diagonal(capacity, axis1=1, axis2=2).copy(),
        column=np.zeros((depth, size)),
        log=np.zeros((depth, entries), np.uint32),
        poured=np.zeros((depth, entries)),
        logged=np.zeros(depth, np.int64),
        marked=np.zeros(1, np.int64),
        usable=usable,
        free=usable.copy(),
        carrying=np.zeros((depth, size, count), np.uint64),
        level=np.zeros(nodes, np.int32),
        missing=np.zeros((depth + 1, count), np.uint64),
        # Memory that is never touched costs nothing, and few searches have many fronts.
        front=np.zeros((longest, count), np.uint64),
        fronts=np.zeros((depth + 1, longest + 2), np.int32),
        stack=np.zeros((longest, 2), np.uint32),
        offered=np.zeros(longest),
        sent=np.zeros(longest),
    )


def larger(network: Network) -> Network:
    """A network with twice as many slots for residuals."""
    return make_network(network.capacity, slots=2 * len(network.residuals.left))


def _usable(capacity: FloatArray) -> Bits:
    """The edges that can carry something, as bits."""
    depth, size, _ = capacity.shape
    packed = np.empty((depth, size, words(size)), np.uint64)
    bits = np.zeros((size, words(size) * WORD), np.uint8)
    for layer, into in zip(capacity, packed, strict=True):
        bits[:, :size] = layer > NEGLIGIBLE
        into[:] = np.packbits(bits, axis=-1, bitorder="little").view("<u8")
    return packed


@njit(**KERNEL, inline="always")
def log_edge(log: IntArray, logged: LongArray, layer: int, query: int, key: int) -> None:
    """Remember that this edge is changed. An edge may be there twice."""
    at = logged[layer]
    logged[layer] = at + 1
    if at < log.shape[1]:
        log[layer, at] = np.uint32(query) << HALF | np.uint32(key)


@njit(**KERNEL)
def mark_edges(network: Network, top: int) -> None:
    """Bring residuals and sets of bits up to date with the log; searches keep them so."""
    capacity, residuals, log, poured = (
        network.capacity,
        network.residuals,
        network.log,
        network.poured,
    )
    free, carrying = network.free, network.carrying
    network.marked[0] = 1
    for layer in range(1, top):
        for at in range(network.logged[layer]):
            query, key = log[layer, at] >> HALF, log[layer, at] & LOWER
            left = change(residuals, capacity, layer, query, key, -poured[layer, at])
            put(carrying, layer, key, query)
            # About every second edge is full, which is hard to foresee: there is no branch.
            full = ONE if left <= NEGLIGIBLE else np.uint64(0)
            free[layer, query, key >> SIX] &= ~(full << (key & SIXTY_THREE))


@njit(**KERNEL)
def restore(network: Network, top: int) -> None:
    """Make the residuals the capacities again."""
    # Layer 0 is left out: edges to the sink are `demand`, which is set for every pair.
    if network.marked[0]:
        _undo(network, network.residuals.edge, top)
    network.logged[1:top] = 0
    network.marked[0] = 0


@njit(**KERNEL)
def _undo(network: Network, edge: Bits | None, top: int) -> None:
    capacity, residuals, log = network.capacity, network.residuals, network.log
    free, carrying = network.free, network.carrying
    if edge is not None:
        # The table knows what was changed.
        size = np.uint64(capacity.shape[1])
        for at in range(residuals.counts[0]):
            slot = residuals.used[at]
            node, key = divmod(edge[slot] - ONE, size)
            layer, query = divmod(node, size)
            put(free, layer, query, key)
            drop(carrying, layer, key, query)
            edge[slot] = 0
        residuals.counts[0] = 0
        return
    for layer in range(1, top):
        # Capacities are copied, as adding the flow back would collect rounding errors.
        if network.logged[layer] > log.shape[1]:
            for query in range(capacity.shape[1]):
                for key in range(capacity.shape[2]):
                    number = number_of(capacity, layer, query, key)
                    residuals.left[number] = capacity[layer, query, key]
        else:
            for at in range(network.logged[layer]):
                query, key = log[layer, at] >> HALF, log[layer, at] & LOWER
                number = number_of(capacity, layer, query, key)
                residuals.left[number] = capacity[layer, query, key]
        # All bits of a layer are fewer words than a pair has edges there.
        count = free.shape[1] * free.shape[2]
        now, before = free[layer].reshape(count), network.usable[layer].reshape(count)
        flows = carrying[layer].reshape(count)
        for word in range(count):
            now[word] = before[word]
            flows[word] = 0
