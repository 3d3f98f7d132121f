"""Layers of capacities as the network that the kernels solve.

Sources and sinks are not part of it. What the sources can send directly to a node is the node's
*supply*, and what a node can send directly to the sinks is its *demand*, so that sets of sources
and sinks cost no more than single ones. What remains are the nodes (l, i) of the layers 0 … L−1,
numbered l · size + i; layer 0 is there for its incoming edges, from which demands are read. Every
edge is listed at its lower end, because flow is pulled upwards from the sinks.

With stations every node is two: flow enters number v and leaves number depth · size + v, and the
edge between the two has the station's capacity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from attnflow.errors import InputError
from attnflow.records.sparse import IntArray, LongArray, SparseLayer
from attnflow.records.types import FloatArray
from attnflow.solvers.interface import BoolArray

BINS_PER_OCTAVE = 256  # of the histogram that finds a threshold
LEAST_EXPONENT, OCTAVES = -1100, 2200  # those of float64


class LayerRows(NamedTuple):
    """The positive entries of a layer off the diagonal, row after row."""

    starts: LongArray  # [query + 1]: where each row begins
    keys: IntArray  # [entry]
    values: FloatArray  # [entry]


def rows_of(layer: Any, number: int) -> LayerRows:
    """The entries of a layer, dense or sparse, which are checked; the diagonal is ignored."""
    if isinstance(layer, SparseLayer):
        rows, values = layer.queries, np.asarray(layer.values, np.float64)
        off = rows != layer.keys
        counts, sound = _counts_of(rows[off], values[off], layer.size)
    else:
        counts = np.zeros(len(layer), np.int64)
        sound = _count(layer, counts)
    if not sound:
        msg = (
            f"layer {number} of the capacities has entries that are negative, infinite or NaN; "
            "capacities are finite and at least 0: take the positive part of the relevance"
        )
        raise InputError(msg)
    starts = np.concatenate([[0], np.cumsum(counts)])
    if isinstance(layer, SparseLayer):
        used = off & (values > 0)
        return LayerRows(starts, layer.keys[used].astype(np.int32, copy=False), values[used])
    found = LayerRows(starts, np.empty(starts[-1], np.int32), np.empty(starts[-1]))
    _fill(layer, found)
    return found


def without_smallest(
    rows: LayerRows, reach: FloatArray, tolerance: float
) -> tuple[LayerRows, FloatArray, FloatArray]:
    """The rows without the smallest entries, and the sums of these by query and by key.

    All of them sum to ``tolerance`` at most. No entry counts for more than ``reach``, ``[query]``,
    as no more can arrive at its query.
    """
    size = len(reach)
    queries = np.repeat(np.arange(size, dtype=np.int32), np.diff(rows.starts))
    carried = np.minimum(rows.values, reach[queries])
    kept = (carried >= _threshold(carried, tolerance)) & (carried > 0)
    starts = np.concatenate([[0], np.cumsum(np.bincount(queries[kept], minlength=size))])
    lost = carried[~kept]
    return (
        LayerRows(starts, rows.keys[kept], rows.values[kept]),
        np.bincount(queries[~kept], lost, size).astype(np.float64, copy=False),
        np.bincount(rows.keys[~kept], lost, size).astype(np.float64, copy=False),
    )


def _counts_of(rows: IntArray, values: FloatArray, size: int) -> tuple[LongArray, bool]:
    """How many positive values each row has, and whether all values are capacities."""
    sound = bool((np.isfinite(values) & (values >= 0)).all())
    return np.bincount(rows[values > 0], minlength=size), sound


@njit(cache=True, nogil=True)
def _count(layer: Any, counts: LongArray) -> bool:
    """Count the positive entries of each row; returns whether all entries are capacities."""
    sound = True
    for query in range(len(layer)):
        for key in range(len(layer)):
            if key != query:
                counts[query] += layer[query, key] > 0
                sound &= 0 <= layer[query, key] < np.inf
    return sound


@njit(cache=True, nogil=True)
def _fill(layer: Any, rows: LayerRows) -> None:
    """Copy the positive entries."""
    entry = 0
    for query in range(len(layer)):
        for key in range(len(layer)):
            if key != query and layer[query, key] > 0:
                rows.keys[entry], rows.values[entry] = key, layer[query, key]
                entry += 1


@njit(cache=True, nogil=True)
def _threshold(values: FloatArray, tolerance: float) -> float:
    """A value as large as possible; all values below it sum to ``tolerance`` at most."""
    sums = np.zeros(OCTAVES * BINS_PER_OCTAVE)
    for value in values[values > 0]:
        mantissa, exponent = math.frexp(value)  # the mantissa is from 0.5 to 1
        octave = (exponent - LEAST_EXPONENT) * BINS_PER_OCTAVE
        sums[octave + int((mantissa - 0.5) * (2 * BINS_PER_OCTAVE))] += value
    total = 0.0
    for number in range(len(sums)):
        total += sums[number]
        if total > tolerance:
            mantissa = 0.5 + (number % BINS_PER_OCTAVE) / (2 * BINS_PER_OCTAVE)
            return math.ldexp(mantissa, number // BINS_PER_OCTAVE + LEAST_EXPONENT)
    return np.inf


NONE = -1
MOST_EDGES = 2**31 - 2  # numbers of edges, plus one, are held in 32 bits


class FlatNetwork(NamedTuple):
    """Edges listed by the node that they lead to, and what the sources supply.

    Attributes:
        starts: ``[node + 1]``: where the edges into each node begin. First comes the edge from the
            same position in the layer above, if there is one; then the others, sorted by how much
            can arrive at their upper ends, the most first.
        tails: ``[edge]``: the upper end.
        heads: ``[edge]``: the lower end, in whose list the edge is.
        capacity: ``[edge]``: infinite from a position to itself.
        supply: ``[node]``: the capacity of all edges from the sources together.
        above: ``[node]``: the upper end of the first edge if any amount of flow may wait between
            the two, otherwise −1.
    """

    starts: LongArray
    tails: IntArray
    heads: IntArray
    capacity: FloatArray
    supply: FloatArray
    above: IntArray


class Ends(NamedTuple):
    """What is known of the sources, and of edges that were dropped.

    Attributes:
        is_source: ``[position]``.
        own_rows: ``[layer, source, key]``: the capacities of the sources' own edges.
        dropped_by_query: ``[layer, query]``: how much was dropped from each row.
        dropped_by_key: ``[layer, key]``: how much was dropped from each column.
        received: ``[node]``: what can arrive at a node at most, by all edges that there were, those
            in its own column only with stations.
    """

    is_source: BoolArray
    own_rows: FloatArray
    dropped_by_query: FloatArray
    dropped_by_key: FloatArray
    received: FloatArray


def make_network(
    layers: Iterable[Any],
    depth: int,
    sources: LongArray,
    stations: FloatArray | None,
    tolerance: float,
) -> tuple[FlatNetwork, Ends]:
    """The network of layers that are read from the top down."""
    lists, supply = [], np.empty(0)
    for layer, entries in zip(range(depth, 0, -1), layers, strict=True):
        rows = rows_of(entries, layer)
        if layer == depth:
            size = len(rows.starts) - 1
            supply = np.zeros((depth, size))
            ends = Ends(
                np.isin(np.arange(size), sources),
                np.zeros((depth, len(sources), size)),
                np.zeros((depth, size)),
                np.zeros((depth, size)),
                np.zeros(depth * size),
            )
            # No more than this can arrive at the nodes of a layer.
            reach = np.where(ends.is_source, np.inf, 0.0)
        received = _received(rows, reach)
        arriving = reach + received
        below = slice((layer - 1) * size, layer * size)
        ends.received[below] = received if stations is None else arriving
        if tolerance:
            left = tolerance - ends.dropped_by_key.sum()
            rows, *sums = without_smallest(rows, reach, left / layer)
            ends.dropped_by_query[layer - 1], ends.dropped_by_key[layer - 1] = sums
        own = ends.own_rows[layer - 1]
        for number, source in enumerate(sources):
            entry = slice(rows.starts[source], rows.starts[source + 1])
            own[number, rows.keys[entry]] = rows.values[entry]
        if layer == depth or stations is None:
            supply[layer - 1] = own.sum(0)
            # A source that may wait is itself in every layer; one that is limited goes on below.
            supply[layer - 1, sources] = 0.0 if stations is None else np.inf
        if layer < depth:
            sends = reach > 0
            receives = np.ones(len(reach), bool)
            if stations is None:
                sends, receives = sends & ~ends.is_source, ~ends.is_source
            order = np.argsort(-reach, kind="stable").astype(np.int32)
            lists.append(_list_by_key(rows, order, sends, receives))
        reach = arriving
        if stations is None:
            reach[sources] = np.inf
        elif layer > 1:
            reach = np.minimum(reach, stations[layer - 2])
    return _assemble(lists[::-1], supply, stations), ends


def _assemble(
    lists: list[tuple[LongArray, IntArray, FloatArray]],
    supply: FloatArray,
    stations: FloatArray | None,
) -> FlatNetwork:
    """One network of the lists of layers 1 … L−1."""
    depth, size = supply.shape
    nodes = depth * size
    leaving = 0 if stations is None else nodes  # the number of a node that flow leaves, less v
    counts = [np.diff(starts) for starts, _, _ in lists]
    tails = [tails + (leaving + layer * size) for layer, (_, tails, _) in enumerate(lists, 1)]
    capacity = [values for _, _, values in lists]
    counts.append(np.zeros(size, np.int64))  # all edges of the top layer are supply
    if stations is not None:
        inner = stations.ravel()
        counts += [np.zeros(size, np.int64), (inner > 0).astype(np.int64)]
        tails.append(size + np.flatnonzero(inner > 0))
        capacity.append(inner[inner > 0])
        supply = np.concatenate([supply, np.zeros_like(supply)])
    count = np.concatenate(counts)
    starts = np.concatenate([[0], np.cumsum(count)])
    if starts[-1] > MOST_EDGES:
        msg = (
            f"there are {starts[-1]:,} edges; at most {MOST_EDGES:,} can be solved. "
            "Give a tolerance, so that the smallest are dropped"
        )
        raise InputError(msg)
    every_tail = np.concatenate([np.empty(0, np.int32), *tails], dtype=np.int32)
    every_capacity = np.concatenate([np.empty(0), *capacity])
    above = np.full(len(count), NONE, np.int32)
    if stations is None and len(every_tail):
        node = np.flatnonzero(count)
        first = every_tail[starts[node]]
        waits = first == node + size
        above[node[waits]] = first[waits]
    heads = np.repeat(np.arange(len(count), dtype=np.int32), count)
    return FlatNetwork(starts, every_tail, heads, every_capacity, supply.ravel(), above)


@njit(cache=True, nogil=True)
def _received(rows: LayerRows, reach: FloatArray) -> FloatArray:
    """What the nodes of the layer below can receive at most, if ``reach`` arrives at these."""
    received = np.zeros(len(reach))
    for query in range(len(reach)):
        if reach[query] > 0:
            for entry in range(rows.starts[query], rows.starts[query + 1]):
                received[rows.keys[entry]] += min(rows.values[entry], reach[query])
    return received


@njit(cache=True, nogil=True)
def _list_by_key(
    rows: LayerRows, order: IntArray, sends: BoolArray, receives: BoolArray
) -> tuple[LongArray, IntArray, FloatArray]:
    """The edges between nodes that send and receive, by key: starts, queries and capacities.

    The edge from a position to itself comes first, the others in the order of their queries.
    """
    size = len(order)
    starts = np.zeros(size + 1, np.int64)
    for query in range(size):
        if not sends[query]:
            continue
        if receives[query]:
            starts[query + 1] += 1
        for entry in range(rows.starts[query], rows.starts[query + 1]):
            if receives[rows.keys[entry]]:
                starts[rows.keys[entry] + 1] += 1
    starts = np.cumsum(starts)
    queries, values = np.empty(starts[size], np.int32), np.empty(starts[size])
    end = starts[:-1].copy()
    for key in range(size):
        if sends[key] and receives[key]:
            queries[end[key]], values[end[key]] = key, np.inf
            end[key] += 1
    for query in order:
        if not sends[query]:
            continue
        for entry in range(rows.starts[query], rows.starts[query + 1]):
            key = rows.keys[entry]
            if receives[key]:
                queries[end[key]], values[end[key]] = query, rows.values[entry]
                end[key] += 1
    return starts, queries, values
