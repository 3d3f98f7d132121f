"""Maximum flows through layers with few edges; each flow has its proof.

The dense solver holds every pair of positions. This one holds the edges that exist, in 28 bytes
each: nothing else grows with them. As there (see `pairs`), flow is poured down first and most often
meets a bound; where it does not, Dinic's algorithm goes on. There are no separate edges back up:
edges that carry flow are listed at their lower end, where a search may hand flow back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from attnflow.io.progress import progress_bar
from attnflow.records.sparse import IntArray, LongArray, SparseLayers
from attnflow.records.types import FloatArray
from attnflow.solvers.execution import Execution, SharedParts, cores, work_together
from attnflow.solvers.interface import MET, check_gaps

BoolArray = npt.NDArray[np.bool_]
NEGLIGIBLE = 1e-15  # a capacity that rounding leaves behind
UNLISTED, NONE = -2, -1


class Poured(NamedTuple):
    """Edges with the flow on them; nodes are layer · size + position."""

    starts: LongArray  # [node + 1], where the edges of a node begin; those of layer 0 have none
    heads: IntArray  # [edge], the node that it leads to
    tails: IntArray  # [edge], the node that it comes from
    capacity: FloatArray  # [edge]
    flow: FloatArray  # [edge]
    following: IntArray  # [edge], the next that carries flow to the same node
    first: IntArray  # [node], the first edge that carries flow to it
    reach: FloatArray  # [node], a bound on what it can send to the sinks
    share: FloatArray  # [node], what it can send without crossing other columns
    excess: FloatArray  # [node], flow that arrived and was not sent on
    room: FloatArray  # [position], what a position of the layer being filled still takes


@njit(cache=True, nogil=True, inline="always")
def list_edge(edges: Poured, edge: int) -> None:
    """Note that an edge carries flow."""
    if edges.following[edge] == UNLISTED:
        edges.following[edge] = edges.first[edges.heads[edge]]
        edges.first[edges.heads[edge]] = edge


@njit(cache=True, nogil=True)
def bound_reach(edges: Poured, top: int, sinks: BoolArray, column: int) -> None:
    """Fill ``reach`` and ``share`` for layers 1 … top; ``column`` is the first of the sinks."""
    size, whole = len(sinks), 0.0
    reach, share = edges.reach, edges.share
    for node in range(size, 2 * size):
        total = 0.0
        for edge in range(edges.starts[node], edges.starts[node + 1]):
            if sinks[edges.heads[edge]]:
                total += edges.capacity[edge]
        reach[node] = share[node] = total
        whole += total
    for node in range(2 * size, (top + 1) * size):
        total, side = 0.0, 0.0
        above = (node // size - 1) * size + column  # the sinks' column, a layer below
        for edge in range(edges.starts[node], edges.starts[node + 1]):
            to = edges.heads[edge]
            total += min(edges.capacity[edge], reach[to])
            if to == above and node != above + size:
                side = edges.capacity[edge]
        reach[node] = min(whole, total)
        share[node] = min(reach[node], share[node - size] + side)


@njit(cache=True, nogil=True)
def pour(edges: Poured, source: int, sinks: BoolArray, order: IntArray) -> tuple[float, float]:
    """Send what the source has down; returns what arrived at the sinks, and a bound on it."""
    size, excess, reach = len(sinks), edges.excess, edges.reach
    top = source // size - 1
    excess[size : (top + 1) * size] = 0.0
    direct, bound, whole = 0.0, 0.0, 0.0
    for edge in range(edges.starts[source], edges.starts[source + 1]):
        to, amount = edges.heads[edge], edges.capacity[edge]
        if top == 0:
            direct += amount if sinks[to] else 0.0
            continue
        edges.flow[edge] = excess[to] = amount
        list_edge(edges, edge)
        bound += min(amount, reach[to])
    if top == 0:
        return direct, direct
    for node in range(size, 2 * size):
        whole += reach[node]
    for layer in range(top, 1, -1):
        _pour_layer(edges, layer, size, order)
    arrived = 0.0
    for node in range(size, 2 * size):
        for edge in range(edges.starts[node], edges.starts[node + 1]):
            if excess[node] > NEGLIGIBLE and sinks[edges.heads[edge]]:
                amount = min(excess[node], edges.capacity[edge])
                edges.flow[edge] = amount
                list_edge(edges, edge)
                excess[node] -= amount
                arrived += amount
    return arrived, min(bound, whole)


@njit(cache=True, nogil=True)
def _pour_layer(edges: Poured, layer: int, size: int, order: IntArray) -> None:
    """From one layer to the next: first what all columns can pass on at once, then all they can."""
    below = (layer - 1) * size
    for generous in range(2):
        limit = edges.reach if generous else edges.share
        for position in range(size):
            edges.room[position] = limit[below + position] - edges.excess[below + position]
        for place in range(size):
            node = layer * size + order[place]
            left = edges.excess[node]
            if left <= NEGLIGIBLE:
                continue
            begin, end = edges.starts[node], edges.starts[node + 1]
            # The own column is the widest edge; it is tried first, and again with the others.
            own = begin + np.searchsorted(edges.heads[begin:end], node - size)
            for entry in range(begin - 1, end):
                edge = own if entry < begin else entry
                if edge == end or left <= NEGLIGIBLE:
                    continue
                to = edges.heads[edge] - below
                if entry < begin and to != order[place]:
                    continue
                room = min(edges.capacity[edge] - edges.flow[edge], edges.room[to])
                amount = min(left, room)
                if amount > NEGLIGIBLE:
                    edges.flow[edge] += amount
                    edges.excess[below + to] += amount
                    edges.room[to] -= amount
                    list_edge(edges, edge)
                    left -= amount
            edges.excess[node] = left
        if layer == 2:
            break  # the share of layer 1 is its reach


@njit(cache=True, nogil=True)
def take_back(edges: Poured, source: int, size: int) -> None:
    """Send what got stuck back to where it came from, from below, so that a flow is left."""
    for node in range(size, (source // size) * size):
        stuck = edges.excess[node]
        edge = edges.first[node]
        while stuck > 0.0 and edge >= 0:
            amount = min(stuck, edges.flow[edge])
            edges.flow[edge] -= amount
            stuck -= amount
            if edges.tails[edge] != source:
                edges.excess[edges.tails[edge]] += amount
            edge = edges.following[edge]


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


NETWORK_BYTES = 2 << 30  # of what all threads have of their own, 12 bytes for every edge


def solve(
    layers: SparseLayers,
    sources: Sequence[tuple[int, int]],
    groups: Sequence[Sequence[int]],
    execution: Execution,
) -> tuple[FloatArray, dict[str, Any]]:
    """The maximum flow from every (layer, position) to every group of positions of layer 0.

    Returns ``[source, group]`` and statistics. An interrupt (Ctrl-C) stops every thread after the
    pair that it is at.
    """
    size = layers.shape[-1]
    edges = sum(len(each.keys) for each in layers)
    most = max(1, NETWORK_BYTES // max(1, 12 * edges))
    workers = min(execution.threads or cores(), len(groups), most)
    values = np.zeros((len(groups), len(sources)))
    gaps = np.full_like(values, np.inf)  # until a pair is solved
    orders, supply = [], np.zeros(len(sources))
    for column, (layer, query) in enumerate(sources):
        row = layers[layer - 1][query]
        orders.append(np.argsort(-row, kind="stable").astype(np.int32))
        supply[column] = row.sum()
    stop, places = np.zeros(1, np.uint8), SharedParts(range(len(groups)))

    def work(network: SparseNetwork) -> None:
        for place in places:
            if stop[0]:
                return
            sinks = np.zeros(size, bool)
            sinks[list(groups[place])] = True
            bound_reach(network.poured, len(layers) - 1, sinks, groups[place][0])
            for column, (layer, query) in enumerate(sources):
                if stop[0]:
                    return
                found = max_flow(network, layer * size + query, sinks, orders[column])
                values[place, column], gaps[place, column] = found[0], found[1] - found[0]

    first = make_network(layers)
    networks = [first, *(another(first) for _ in range(workers - 1))]
    with progress_bar("flow", values.size, shown=execution.progress) as show:
        tasks = [partial(work, each) for each in networks]
        work_together(tasks, stop, lambda: show(int(np.isfinite(gaps).sum())))
        show(values.size)
    gap = check_gaps(gaps, supply)
    return values.T, {"pairs": values.size, "largest_gap": gap, "threads": workers}
