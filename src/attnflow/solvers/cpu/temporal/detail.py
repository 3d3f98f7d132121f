"""One maximum flow written out: what passes over every edge, a minimum cut, and routes.

The network of the kernels has supplies and demands in place of the sources' and the sinks' edges.
Here they are edges again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from attnflow.records.sparse import IntArray, LongArray
from attnflow.records.types import FloatArray
from attnflow.solvers.cpu.routes import peel
from attnflow.solvers.cpu.temporal.flow import SINK, State
from attnflow.solvers.cpu.temporal.network import Network
from attnflow.solvers.interface import BoolArray
from attnflow.solvers.temporal import Edges, Stations

ROUNDING = 1e-13  # beside the value: routes that are narrower are rounding


class Graph(NamedTuple):
    """A network with what is known of its ends."""

    network: Network
    own_rows: FloatArray  # [layer, source, key]: the sources' capacities
    sources: LongArray
    sinks: LongArray
    free: bool  # flow may wait without limit

    @property
    def shape(self) -> tuple[int, int]:
        """How many layers and positions there are."""
        return self.own_rows.shape[0], self.own_rows.shape[2]

    def layers(self, nodes: LongArray) -> LongArray:
        """The layers of nodes."""
        depth, size = self.shape
        return nodes % (depth * size) // size

    def into_sinks(self, state: State) -> LongArray:
        """The edges that lead to the sinks from other nodes."""
        at, starts = np.flatnonzero(state.level == SINK), self.network.starts
        lists = [np.arange(starts[node], starts[node + 1]) for node in at]
        edges = np.concatenate([np.empty(0, np.int64), *lists])
        found: LongArray = edges[state.level[self.network.tails[edges]] != SINK]
        return found


def edges_with_flow(graph: Graph, state: State) -> Edges:
    """What passes over every edge, from the top layer down."""
    depth, size = graph.shape
    network, nodes = graph.network, depth * size
    inner = np.flatnonzero(state.flow)
    inner = inner[network.heads[inner] < nodes]  # not those within a station
    parts = [_edges(graph, inner, state.flow[inner])]
    # A node's supply comes over the sources' edges, and what it delivers goes over its edges to the
    # sinks: both fill their edges one after the other.
    given = np.where(state.level == SINK, network.supply, state.supplied)[:nodes]
    from_sources = _from_sources(graph, given > 0)
    at = (from_sources.layers - 1) * size + from_sources.keys
    parts.append(_filled(from_sources, at, given))
    ends = graph.into_sinks(state)
    to_sinks = _edges(graph, ends, network.capacity[ends])
    parts.append(_filled(to_sinks, network.tails[ends].astype(np.int64), state.delivered.copy()))
    edges = _joined(parts)
    return _joined([edges, *_waiting_at_ends(graph, edges)]) if graph.free else edges


def _joined(parts: Sequence[Edges]) -> Edges:
    """All of these edges, from the top layer down."""
    layers, queries, keys, amounts = (np.concatenate(each) for each in zip(*parts, strict=True))
    edges = Edges(layers, queries, keys, amounts)
    return edges.chosen(np.lexsort((keys, queries, -layers)))


def _edges(graph: Graph, edges: LongArray, amounts: FloatArray) -> Edges:
    """Edges of the network by layer, query and key."""
    _, size = graph.shape
    tails, heads = graph.network.tails[edges], graph.network.heads[edges]
    layers = graph.layers(tails.astype(np.int64))
    return Edges(layers, tails.astype(np.int64) % size, heads.astype(np.int64) % size, amounts)


def _from_sources(graph: Graph, chosen: BoolArray) -> Edges:
    """The edges from the sources to some nodes, with their capacities."""
    depth, size = graph.shape
    nodes = np.flatnonzero(chosen)
    limits = graph.own_rows[nodes // size, :, nodes % size]
    if not graph.free:  # from a source of the top layer to itself there is no limit
        itself = graph.sources == (nodes % size)[:, None]
        limits = np.where(itself & (nodes // size == depth - 1)[:, None], np.inf, limits)
    node, number = np.nonzero(limits)
    at = nodes[node]
    return Edges(at // size + 1, graph.sources[number], at % size, limits[node, number])


def _filled(edges: Edges, nodes: LongArray, left: FloatArray) -> Edges:
    """Edges with capacities, filled one after the other with what is left at their nodes."""
    filled = edges._replace(amounts=_fill(edges.amounts, nodes, left))
    return filled.chosen(filled.amounts > 0)


@njit(cache=True, nogil=True)
def _fill(limits: FloatArray, nodes: LongArray, left: FloatArray) -> FloatArray:
    amounts = np.zeros(len(limits))
    for edge in range(len(limits)):
        amounts[edge] = min(limits[edge], left[nodes[edge]])
        left[nodes[edge]] -= amounts[edge]
    return amounts


def _waiting_at_ends(graph: Graph, edges: Edges) -> Iterator[Edges]:
    """The flow in the columns of sources and sinks, between their layers and the ends."""
    depth, size = graph.shape
    leaving, arriving = np.zeros((2, depth + 1, size))
    np.add.at(leaving, (edges.layers, edges.queries), edges.amounts)
    np.add.at(arriving, (edges.layers - 1, edges.keys), edges.amounts)
    for columns, waiting in (
        (graph.sources, np.cumsum(leaving, axis=0)[:-1]),  # what leaves below layer l
        (graph.sinks, np.cumsum(arriving[::-1], axis=0)[::-1][1:]),  # what arrived from l on
    ):
        step, number = np.nonzero(waiting[:, columns])
        at = columns[number]
        yield Edges(step + 1, at, at, waiting[step, at])


def unbalanced(graph: Graph, edges: Edges, value: float) -> float:
    """What does not add up: at nodes between the ends, and between either end and the value."""
    depth, size = graph.shape
    net = np.zeros((depth + 1, size))
    np.add.at(net, (edges.layers, edges.queries), edges.amounts)
    np.subtract.at(net, (edges.layers - 1, edges.keys), edges.amounts)
    sent, received = net[depth, graph.sources].sum(), -net[0, graph.sinks].sum()
    net[depth, graph.sources] = net[0, graph.sinks] = 0.0
    return float(np.abs(net).sum() + abs(sent - value) + abs(received - value))


def routes_of(
    graph: Graph, edges: Edges, value: float, most: int
) -> tuple[tuple[tuple[int, ...], float], ...]:
    """The flow as routes from the sources down to the sinks, the widest first."""
    stacked = np.stack([edges.layers - 1, edges.queries, edges.keys], axis=1).astype(np.int32)
    amounts, ends = edges.amounts.copy(), (graph.sources, graph.sinks)
    routes: list[tuple[tuple[int, ...], float]] = []
    # A route is no wider than its edges, so that wide routes are found among few of them.
    width = value
    while len(routes) < most and width > ROUNDING * value:
        width = max(width / 16, ROUNDING * value)
        wide = np.flatnonzero(amounts > width)
        left = amounts[wide]
        found = peel(stacked[wide], left, graph.shape, ends, most - len(routes), width)
        amounts[wide] = left
        routes += [(tuple(map(int, path)), float(each)) for path, each in zip(*found, strict=True)]
    return tuple(routes)


def cut_of(graph: Graph, state: State, on_sinks_side: BoolArray) -> tuple[Edges, Stations]:
    """The edges and the stations that lead to the sinks' side."""
    depth, size = graph.shape
    network, nodes = graph.network, depth * size
    crossing = on_sinks_side[network.heads] & ~on_sinks_side[network.tails]
    crossing &= state.level[network.heads] != SINK
    cut = np.flatnonzero(crossing & (network.capacity > 0))
    inner = cut[network.heads[cut] < nodes]
    parts = [_edges(graph, inner, network.capacity[inner])]
    parts.append(_from_sources(graph, on_sinks_side[:nodes] & (network.supply[:nodes] > 0)))
    ends = graph.into_sinks(state)
    ends = ends[~on_sinks_side[network.tails[ends]]]
    parts.append(_edges(graph, ends, network.capacity[ends]))
    passed = cut[network.heads[cut] >= nodes]
    at = network.tails[passed].astype(np.int64)
    stations = Stations(at // size, at % size, network.capacity[passed])
    return _joined(parts), stations


def first_layers(graph: Graph, on_sinks_side: BoolArray) -> LongArray:
    """The lowest layer of each position that is on the sinks' side; depth + 1 where none is."""
    depth, size = graph.shape
    sides = on_sinks_side[: depth * size].reshape(depth, size)
    return np.where(sides.any(0), sides.argmax(0), depth + 1).astype(np.int64)


def side_nearest_sources(network: Network, state: State) -> BoolArray:
    """The sinks' side of the minimum cut that is nearest the sources.

    Of nodes that can't be reached from the sources any more, only those count that lead to the
    sinks without leaving this side: others could be on either.
    """
    reached = np.zeros(len(network.supply), bool)
    _reach_down(network, state, *_by_tail(network), reached)
    side: BoolArray = _leading_to_sinks(network, state, reached)
    return side


@njit(cache=True, nogil=True)
def _by_tail(network: Network) -> tuple[LongArray, IntArray]:
    """The edges from each node: where they begin, and their numbers."""
    starts = np.zeros(len(network.supply) + 1, np.int64)
    for tail in network.tails:
        starts[tail + 1] += 1
    starts = np.cumsum(starts)
    end, edges = starts[:-1].copy(), np.empty(len(network.tails), np.int32)
    for edge in range(len(network.tails)):
        tail = network.tails[edge]
        edges[end[tail]] = edge
        end[tail] += 1
    return starts, edges


@njit(cache=True, nogil=True)
def _reach_down(
    network: Network, state: State, starts: LongArray, edges: IntArray, reached: BoolArray
) -> None:
    """Mark the nodes to which the sources could still send something."""
    queue = np.empty(len(reached), np.int32)
    begin, end = 0, 0
    for node in range(len(reached)):
        if state.level[node] != SINK and state.supplied[node] < network.supply[node]:
            reached[node] = True
            queue[end] = node
            end += 1
    while begin < end:
        node = queue[begin]
        begin += 1
        for at in range(starts[node], starts[node + 1]):
            edge = edges[at]
            head = network.heads[edge]
            left = state.flow[edge] < network.capacity[edge]
            if left and not reached[head] and state.level[head] != SINK:
                reached[head] = True
                queue[end] = head
                end += 1
        for edge in range(network.starts[node], network.starts[node + 1]):
            tail = network.tails[edge]
            if state.flow[edge] > 0 and not reached[tail]:
                reached[tail] = True
                queue[end] = tail
                end += 1


@njit(cache=True, nogil=True)
def _leading_to_sinks(network: Network, state: State, reached: BoolArray) -> BoolArray:
    """The nodes that are not reached, and lead to the sinks over such nodes; and the sinks."""
    leading: BoolArray = state.level == SINK
    queue = np.empty(len(reached), np.int32)
    begin, end = 0, 0
    for node in range(len(reached)):
        if not reached[node] and not leading[node] and state.demand[node] > 0:
            leading[node] = True
            queue[end] = node
            end += 1
    while begin < end:
        node = queue[begin]
        begin += 1
        for edge in range(network.starts[node], network.starts[node + 1]):
            tail = network.tails[edge]
            if network.capacity[edge] > 0 and not reached[tail] and not leading[tail]:
                leading[tail] = True
                queue[end] = tail
                end += 1
    return leading
