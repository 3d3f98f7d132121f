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

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import config, njit, types
from numba.core.options import DefaultOptions
from numba.extending import intrinsic

from attnflow.records import FloatArray

KERNEL: dict[str, Any] = {"cache": True, "nogil": True}
"""How functions that are called for every pair are compiled.

They allocate nothing and keep nothing, so that references to their arrays need no counting. The
atomic instructions for it, some fifty in every call with a network, would take a sixth of the time.
"""
if hasattr(DefaultOptions, "_nrt"):
    KERNEL["_nrt"] = False


# Sets of positions are bits of 64-bit words: a search looks at 64 edges with one instruction.

Bits = npt.NDArray[np.uint64]
WORD = 64
ONE = np.uint64(1)
SIX, SIXTY_THREE = np.uint64(6), np.uint64(63)


def words(size: int) -> int:
    """How many words hold this many positions.

    >>> words(64), words(65)
    (1, 2)
    """
    return -(-size // WORD)


@intrinsic
def _lowest(typing: Any, word: Any) -> Any:
    # numba offers no such function, and the processor has one instruction for it.
    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.cttz(given[0], context.get_constant(types.boolean, 0))

    return types.uint64(types.uint64), generate


def _plain_lowest(word: np.uint64) -> np.uint64:
    return np.uint64((int(word) & -int(word)).bit_length() - 1)


_compiled = not vars(config)["DISABLE_JIT"]  # set when numba reads its settings
lowest: Any = _lowest if _compiled else _plain_lowest
"""The number of the lowest bit of a word that is set."""


@njit(**KERNEL, inline="always")
def put(bits: Bits, layer: int, row: int, position: int) -> None:
    """Add a position to the set of a row."""
    at = np.uint64(position)
    bits[layer, row, at >> SIX] |= ONE << (at & SIXTY_THREE)


@njit(**KERNEL, inline="always")
def drop(bits: Bits, layer: int, row: int, position: int) -> None:
    """Take a position out of the set of a row."""
    at = np.uint64(position)
    bits[layer, row, at >> SIX] &= ~(ONE << (at & SIXTY_THREE))


@njit(**KERNEL, inline="always")
def holds(bits: Bits, layer: int, row: int, position: int) -> bool:
    """Whether a position is in the set of a row."""
    at = np.uint64(position)
    return bool(bits[layer, row, at >> SIX] >> (at & SIXTY_THREE) & ONE)


@njit(**KERNEL, inline="always")
def common(bits: Bits, layer: int, row: int, front: Bits, number: int) -> int:
    """The lowest position that is in the set of a row and in a front; −1 if none is."""
    found: Any = -1
    for word in range(front.shape[1]):
        both = bits[layer, row, word] & front[number, word]
        if both:
            found = word * WORD + np.int64(lowest(both))
            break
    return int(found)


# What is left of the edges. Short texts have a place for every edge. For long ones that would be as
# much memory as the weights take, in every thread; there, only the edges that a pair changed are
# kept, in a hash table. Either way a *slot* says where the residual of an edge is.

SLOTS = 32  # of a table for every node: the edges that a pair changes are some five a node
MOST = 0.75  # of the slots are used; what is free must be more than the longest path
SCATTER = np.uint64(0x9E3779B97F4A7C15)  # multiplied with, numbers in a row end up far apart
UPPER_BITS = np.uint64(32)
NOTHING = np.uint64(0)


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
    slot = ((number * SCATTER) >> UPPER_BITS) & mask
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
            # About every second edge is full, which is hard to predict: hence no branch.
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
