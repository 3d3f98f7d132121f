"""Maximum flows in layers of which few edges are there, by Dinic's algorithm; each has its proof.

The dense solver holds every pair of positions. This one holds the edges that are there, with 28
bytes for each: nothing else grows with them. An edge back is no edge of its own: edges that carry
flow are listed at their lower end, which is where a search may hand flow back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from attnflow.records.sparse import IntArray, LongArray, SparseLayers
from attnflow.records.types import FloatArray

NEGLIGIBLE = 1e-15  # a capacity that rounding leaves behind
UNLISTED, NONE = -2, -1


class SparseNetwork(NamedTuple):
    """Layers of edges and the flow on them; nodes are layer · size + position."""

    starts: LongArray  # [node + 1], where the edges of a node begin; those of layer 0 have none
    heads: IntArray  # [edge], the node that it leads to
    tails: IntArray  # [edge], the node that it comes from
    capacity: FloatArray  # [edge]
    flow: FloatArray  # [edge]
    following: IntArray  # [edge], the next that carries flow to the same node
    first: IntArray  # [node], the first edge that carries flow to it
    level: IntArray  # [node], its distance from the source
    queue: IntArray  # [node], in the order in which they were reached
    down: LongArray  # [node], the next edge to try
    back: IntArray  # [node], the next edge to hand flow back over
    path: LongArray  # [step], an edge twice, and one more where it is gone back


def make_network(layers: SparseLayers) -> SparseNetwork:
    """The network of capacities, without any flow."""
    depth, size, _ = layers.shape
    nodes = (depth + 1) * size
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
    return SparseNetwork(
        starts,
        heads,
        tails,
        capacity,
        flow=np.zeros(edges),
        following=np.full(edges, UNLISTED, np.int32),
        first=np.full(nodes, NONE, np.int32),
        level=np.zeros(nodes, np.int32),
        queue=np.zeros(nodes, np.int32),
        down=np.zeros(nodes, np.int64),
        back=np.zeros(nodes, np.int32),
        path=np.zeros(nodes, np.int64),
    )


def network_bytes(network: SparseNetwork) -> int:
    """How much memory it holds."""
    return sum(each.nbytes for each in network)


@njit(cache=True, nogil=True)
def max_flow(
    network: SparseNetwork, source: int, sinks: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    """The maximum flow from a node to these positions of layer 0, and a cut's capacity.

    The network is without flow before and after.
    """
    value = 0.0
    while True:
        distance = _measure(network, source, sinks)
        if distance < 0:
            break
        value += _send(network, source, sinks, distance)
    cut = 0.0  # of capacities alone, so that it checks the flow independently
    level = network.level
    for node in range(len(level)):
        if level[node] >= 0:
            for edge in range(network.starts[node], network.starts[node + 1]):
                if level[network.heads[edge]] < 0:
                    cut += network.capacity[edge]
    _clear(network)
    return value, cut


@njit(cache=True, nogil=True)
def _measure(network: SparseNetwork, source: int, sinks: npt.NDArray[np.bool_]) -> int:
    """Set levels, breadth first; returns the distance of the nearest sink, −1 where none is."""
    level, queue, heads = network.level, network.queue, network.heads
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
        for edge in range(network.starts[node], network.starts[node + 1]):
            to = heads[edge]
            if level[to] < 0 and network.capacity[edge] - network.flow[edge] > NEGLIGIBLE:
                level[to] = level[node] + 1
                if to < len(sinks) and sinks[to]:
                    distance = level[to]
                else:
                    queue[end] = to
                    end += 1
        edge = network.first[node]
        while edge >= 0:
            to = network.tails[edge]
            if level[to] < 0 and network.flow[edge] > NEGLIGIBLE:
                level[to] = level[node] + 1
                queue[end] = to
                end += 1
            edge = network.following[edge]
    return distance


@njit(cache=True, nogil=True)
def _send(
    network: SparseNetwork, source: int, sinks: npt.NDArray[np.bool_], distance: int
) -> float:
    """Send along shortest ways until each is blocked; returns what arrived."""
    level, down, back, path = network.level, network.down, network.back, network.path
    heads, tails, flow, capacity = network.heads, network.tails, network.flow, network.capacity
    # Edges that are listed during a phase lead back to nodes that are nearer to the source, and
    # are of no use before the next.
    down[:] = network.starts[:-1]
    back[:] = network.first
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
                    if network.following[edge] == UNLISTED:
                        network.following[edge] = network.first[heads[edge]]
                        network.first[heads[edge]] = edge
            arrived += amount
            depth = narrow
            edge = path[narrow] // 2
            node = heads[edge] if path[narrow] % 2 else tails[edge]
            continue
        moved = False
        while down[node] < network.starts[node + 1]:
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
            back[node] = network.following[held]
        if moved:
            depth += 1
            continue
        if depth == 0:
            return arrived
        depth -= 1  # a dead end: the step that led here is not tried again
        edge = path[depth] // 2
        if path[depth] % 2:
            node = heads[edge]
            back[node] = network.following[edge]
        else:
            node = tails[edge]
            down[node] += 1


@njit(cache=True, nogil=True)
def _clear(network: SparseNetwork) -> None:
    """Take all flow off; only edges that are listed have any."""
    for node in range(len(network.first)):
        edge = network.first[node]
        while edge >= 0:
            after = network.following[edge]
            network.flow[edge] = 0.0
            network.following[edge] = UNLISTED
            edge = after
        network.first[node] = NONE


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
