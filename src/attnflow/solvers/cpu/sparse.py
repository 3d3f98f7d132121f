"""Maximum flows in layers of which few edges are there; each has its proof.

The dense solver holds every pair of positions. This one holds the edges that are there, with 28
bytes for each: nothing else grows with them. As there, flow is poured down first and most often
meets a bound (`attnflow.solvers.cpu.sparse_pouring`); where it does not, Dinic's algorithm goes on.
An edge back is no edge of its own: edges that carry flow are listed at their lower end, which is
where a search may hand flow back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from attnflow.records.sparse import IntArray, LongArray, SparseLayers
from attnflow.records.types import FloatArray
from attnflow.solvers.certificate import MET
from attnflow.solvers.cpu.sparse_pouring import (
    NEGLIGIBLE,
    NONE,
    UNLISTED,
    BoolArray,
    Poured,
    list_edge,
    pour,
    take_back,
)


class SparseNetwork(NamedTuple):
    """Layers of edges and the flow on them; nodes are layer · size + position."""

    poured: Poured  # edges, flow and bounds
    level: IntArray  # [node], its distance from the source
    queue: IntArray  # [node], in the order in which they were reached
    down: LongArray  # [node], the next edge to try
    back: IntArray  # [node], the next edge to hand flow back over
    path: LongArray  # [step], an edge twice, and one more where it is gone back


def make_network(layers: SparseLayers) -> SparseNetwork:
    """The network of capacities, without any flow."""
    size = layers.shape[-1]
    counts = [np.zeros(size, np.int64), *(np.diff(each.starts) for each in layers)]
    starts = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    edges = int(starts[-1])
    heads, tails = np.empty(edges, np.int32), np.empty(edges, np.int32)
    capacity = np.empty(edges)
    at = 0
    for step, layer in enumerate(layers):
        into = slice(at, at + len(layer.keys))
        heads[into] = layer.keys + step * size
        tails[into] = layer.queries + (step + 1) * size
        capacity[into] = layer.values
        at = into.stop
    return _without_flow(starts, heads, tails, capacity, size)


def another(network: SparseNetwork) -> SparseNetwork:
    """A network of the same edges for another thread, with a flow of its own."""
    edges = network.poured
    size = len(edges.room)
    return _without_flow(edges.starts, edges.heads, edges.tails, edges.capacity, size)


def _without_flow(
    starts: LongArray, heads: IntArray, tails: IntArray, capacity: FloatArray, size: int
) -> SparseNetwork:
    nodes, edges = len(starts) - 1, len(heads)
    poured = Poured(
        starts,
        heads,
        tails,
        capacity,
        flow=np.zeros(edges),
        following=np.full(edges, UNLISTED, np.int32),
        first=np.full(nodes, NONE, np.int32),
        reach=np.zeros(nodes),
        share=np.zeros(nodes),
        excess=np.zeros(nodes),
        room=np.zeros(size),
    )
    return SparseNetwork(
        poured,
        level=np.zeros(nodes, np.int32),
        queue=np.zeros(nodes, np.int32),
        down=np.zeros(nodes, np.int64),
        back=np.zeros(nodes, np.int32),
        path=np.zeros(nodes, np.int64),
    )


@njit(cache=True, nogil=True)
def max_flow(
    network: SparseNetwork, source: int, sinks: BoolArray, order: IntArray
) -> tuple[float, float]:
    """The maximum flow from a node to these positions of layer 0, and what proves it.

    That is a bound that it meets, or the capacity of a cut. The network is without flow before and
    after; its bounds are those of these sinks. ``order`` are all positions, those first that the
    source reads most.
    """
    value, bound = pour(network.poured, source, sinks, order)
    if value < bound - MET:
        take_back(network.poured, source, len(sinks))
        while True:
            distance = _measure(network, source, sinks)
            if distance < 0:
                break
            value += _send(network, source, sinks, distance)
        bound = _cut(network)
    _clear(network.poured)
    return value, bound


@njit(cache=True, nogil=True)
def _cut(network: SparseNetwork) -> float:
    """The capacity of the edges that lead away from what was reached."""
    # Of capacities alone, so that it checks the flow independently.
    cut, level, edges = 0.0, network.level, network.poured
    for node in range(len(level)):
        if level[node] >= 0:
            for edge in range(edges.starts[node], edges.starts[node + 1]):
                if level[edges.heads[edge]] < 0:
                    cut += edges.capacity[edge]
    return cut


@njit(cache=True, nogil=True)
def _measure(network: SparseNetwork, source: int, sinks: BoolArray) -> int:
    """Set levels, breadth first; returns the distance of the nearest sink, −1 where none is."""
    level, queue, edges = network.level, network.queue, network.poured
    level[:] = -1
    level[source] = 0
    queue[0] = source
    begin, end, distance = 0, 1, -1
    while begin < end:
        node = queue[begin]
        begin += 1
        # Nothing behind the nearest sink is on a shortest way.
        if 0 <= distance <= level[node]:
            break
        for edge in range(edges.starts[node], edges.starts[node + 1]):
            to = edges.heads[edge]
            if level[to] < 0 and edges.capacity[edge] - edges.flow[edge] > NEGLIGIBLE:
                level[to] = level[node] + 1
                if to < len(sinks) and sinks[to]:
                    distance = level[to]
                else:
                    queue[end] = to
                    end += 1
        edge = edges.first[node]
        while edge >= 0:
            to = edges.tails[edge]
            if level[to] < 0 and edges.flow[edge] > NEGLIGIBLE:
                level[to] = level[node] + 1
                queue[end] = to
                end += 1
            edge = edges.following[edge]
    return distance


@njit(cache=True, nogil=True)
def _send(network: SparseNetwork, source: int, sinks: BoolArray, distance: int) -> float:
    """Send along shortest ways until each is blocked; returns what arrived."""
    level, down, back, path = network.level, network.down, network.back, network.path
    edges = network.poured
    heads, tails, flow, capacity = edges.heads, edges.tails, edges.flow, edges.capacity
    # Edges that are listed during a phase lead back to nodes that are nearer to the source, and
    # are of no use before the next.
    down[:] = edges.starts[:-1]
    back[:] = edges.first
    arrived, node, depth = 0.0, source, 0
    while True:
        if node < len(sinks) and sinks[node]:
            amount, narrow = np.inf, 0
            for step in range(depth):
                edge = path[step] // 2
                left = flow[edge] if path[step] % 2 else capacity[edge] - flow[edge]
                if left < amount:
                    amount, narrow = left, step
            for step in range(depth):
                edge = path[step] // 2
                if path[step] % 2:
                    flow[edge] -= amount
                else:
                    flow[edge] += amount
                    list_edge(edges, edge)
            arrived += amount
            depth = narrow
            edge = path[narrow] // 2
            node = heads[edge] if path[narrow] % 2 else tails[edge]
            continue
        moved = False
        while down[node] < edges.starts[node + 1]:
            edge = down[node]
            to = heads[edge]
            ends = to < len(sinks) and sinks[to]
            nearer = level[to] == level[node] + 1 and (ends or level[to] < distance)
            if nearer and capacity[edge] - flow[edge] > NEGLIGIBLE:
                path[depth] = 2 * edge
                node, moved = to, True
                break
            down[node] += 1
        while not moved and back[node] >= 0:
            held = back[node]
            to = tails[held]
            if level[node] + 1 == level[to] < distance and flow[held] > NEGLIGIBLE:
                path[depth] = 2 * np.int64(held) + 1
                node, moved = to, True
                break
            back[node] = edges.following[held]
        if moved:
            depth += 1
            continue
        if depth == 0:
            return arrived
        depth -= 1  # a dead end: the step that led here is not tried again
        edge = path[depth] // 2
        if path[depth] % 2:
            node = heads[edge]
            back[node] = edges.following[edge]
        else:
            node = tails[edge]
            down[node] += 1


@njit(cache=True, nogil=True)
def _clear(edges: Poured) -> None:
    """Take all flow off; only edges that are listed have any."""
    for node in range(len(edges.first)):
        edge = edges.first[node]
        while edge >= 0:
            after = edges.following[edge]
            edges.flow[edge] = 0.0
            edges.following[edge] = UNLISTED
            edge = after
        edges.first[node] = NONE


@njit(cache=True, nogil=True)
def times_layer(
    rows: FloatArray, starts: LongArray, keys: IntArray, values: FloatArray, made: FloatArray
) -> None:
    """Rows ``[row, query]`` times a sparse map, added to ``made``, ``[row, key]``."""
    for row in range(len(rows)):
        for query in range(rows.shape[1]):
            share = rows[row, query]
            if share != 0.0:
                for entry in range(starts[query], starts[query + 1]):
                    made[row, keys[entry]] += share * values[entry]
