"""Maximum flows to many sinks on the CPU, for which threads share the sinks, and one in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from attnflow.errors import CertificateError, InputError, shown
from attnflow.io.progress import progress_bar
from attnflow.records.sparse import IntArray, LongArray
from attnflow.records.types import FloatArray
from attnflow.solvers.cpu.network import ByteArray
from attnflow.solvers.cpu.pair import peel
from attnflow.solvers.cpu.temporal.flow import SINK, UNREACHED, State, clear, make_state, maximize
from attnflow.solvers.cpu.temporal.network import Ends, FlatNetwork, make_network
from attnflow.solvers.execution import Execution, SharedParts, cores, work_together
from attnflow.solvers.interface import BoolArray
from attnflow.solvers.temporal import (
    SIDES,
    EdgeAmounts,
    Flow,
    Flows,
    OneFlow,
    Positions,
    Side,
    Stations,
    check_set,
    check_sets,
)

MOST_ROUTES = 100  # that are kept of a flow
ROUNDING = 1e-13  # beside the value: routes that are narrower are rounding


class FullGraph(NamedTuple):
    """A network with its ends, as edges: kernels have supplies and demands in place of them."""

    network: FlatNetwork
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


def edges_with_flow(graph: FullGraph, state: State) -> EdgeAmounts:
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


def _joined(parts: Sequence[EdgeAmounts]) -> EdgeAmounts:
    """All of these edges, from the top layer down."""
    layers, queries, keys, amounts = (np.concatenate(each) for each in zip(*parts, strict=True))
    edges = EdgeAmounts(layers, queries, keys, amounts)
    return _chosen(edges, np.lexsort((keys, queries, -layers)))


def _edges(graph: FullGraph, edges: LongArray, amounts: FloatArray) -> EdgeAmounts:
    """Edges of the network by layer, query and key."""
    _, size = graph.shape
    tails, heads = graph.network.tails[edges], graph.network.heads[edges]
    layers = graph.layers(tails.astype(np.int64))
    return EdgeAmounts(
        layers, tails.astype(np.int64) % size, heads.astype(np.int64) % size, amounts
    )


def _from_sources(graph: FullGraph, chosen: BoolArray) -> EdgeAmounts:
    """The edges from the sources to some nodes, with their capacities."""
    depth, size = graph.shape
    nodes = np.flatnonzero(chosen)
    limits = graph.own_rows[nodes // size, :, nodes % size]
    if not graph.free:  # from a source of the top layer to itself there is no limit
        itself = graph.sources == (nodes % size)[:, None]
        limits = np.where(itself & (nodes // size == depth - 1)[:, None], np.inf, limits)
    node, number = np.nonzero(limits)
    at = nodes[node]
    return EdgeAmounts(at // size + 1, graph.sources[number], at % size, limits[node, number])


def _filled(edges: EdgeAmounts, nodes: LongArray, left: FloatArray) -> EdgeAmounts:
    """Edges with capacities, filled one after the other with what is left at their nodes."""
    filled = edges._replace(amounts=_fill(edges.amounts, nodes, left))
    return _chosen(filled, filled.amounts > 0)


def _chosen(edges: EdgeAmounts, which: Any) -> EdgeAmounts:
    """Some of these edges, or all in another order."""
    return EdgeAmounts(*(each[which] for each in edges))


@njit(cache=True, nogil=True)
def _fill(limits: FloatArray, nodes: LongArray, left: FloatArray) -> FloatArray:
    amounts = np.zeros(len(limits))
    for edge in range(len(limits)):
        amounts[edge] = min(limits[edge], left[nodes[edge]])
        left[nodes[edge]] -= amounts[edge]
    return amounts


def _waiting_at_ends(graph: FullGraph, edges: EdgeAmounts) -> Iterator[EdgeAmounts]:
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
        yield EdgeAmounts(step + 1, at, at, waiting[step, at])


def unbalanced(graph: FullGraph, edges: EdgeAmounts, value: float) -> float:
    """What does not add up: at nodes between the ends, and between either end and the value."""
    depth, size = graph.shape
    net = np.zeros((depth + 1, size))
    np.add.at(net, (edges.layers, edges.queries), edges.amounts)
    np.subtract.at(net, (edges.layers - 1, edges.keys), edges.amounts)
    sent, received = net[depth, graph.sources].sum(), -net[0, graph.sinks].sum()
    net[depth, graph.sources] = net[0, graph.sinks] = 0.0
    return float(np.abs(net).sum() + abs(sent - value) + abs(received - value))


def routes_of(
    graph: FullGraph, edges: EdgeAmounts, value: float, most: int
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


def cut_of(
    graph: FullGraph, state: State, on_sinks_side: BoolArray
) -> tuple[EdgeAmounts, Stations]:
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


def first_layers(graph: FullGraph, on_sinks_side: BoolArray) -> LongArray:
    """The lowest layer of each position that is on the sinks' side; depth + 1 where none is."""
    depth, size = graph.shape
    sides = on_sinks_side[: depth * size].reshape(depth, size)
    return np.where(sides.any(0), sides.argmax(0), depth + 1).astype(np.int64)


def side_nearest_sources(network: FlatNetwork, state: State) -> BoolArray:
    """The sinks' side of the minimum cut that is nearest the sources.

    Of nodes that can't be reached from the sources any more, only those count that lead to the
    sinks without leaving this side: others could be on either.
    """
    reached = np.zeros(len(network.supply), bool)
    _reach_down(network, state, *_by_tail(network), reached)
    side: BoolArray = _leading_to_sinks(network, state, reached)
    return side


@njit(cache=True, nogil=True)
def _by_tail(network: FlatNetwork) -> tuple[LongArray, IntArray]:
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
    network: FlatNetwork, state: State, starts: LongArray, edges: IntArray, reached: BoolArray
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
def _leading_to_sinks(network: FlatNetwork, state: State, reached: BoolArray) -> BoolArray:
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


LARGEST_GAP = 1e-9  # between a flow and its cut, beside the cut
WORTH_THREADS = 1 << 21  # edges × sinks; less is done before threads have started
STATE_BYTES = 2 << 30  # of all threads together
EDGE_BYTES, NODE_BYTES = 12, 76  # of one thread's state
PART = 8  # sinks that a thread takes at a time
VALUE, CUT, UNBALANCED, DROPPED = range(4)


class Sinks(NamedTuple):
    """The nodes of several sinks, one after the other."""

    ends: LongArray  # [sink + 1]: where the nodes of each begin, and end
    nodes: IntArray


class CpuTemporalNetwork:
    """A network of capacities and sources; every call has buffers of its own."""

    def __init__(
        self,
        layers: Iterable[Any],
        depth: int,
        sources: LongArray,
        stations: FloatArray | None,
        tolerance: float,
    ) -> None:
        """See `temporal.prepare`; layers come from the top down."""
        self._network, self._ends = make_network(layers, depth, sources, stations, tolerance)
        self._depth, self._size = depth, len(self._ends.is_source)
        self._sources, self._free = sources, stations is None

    @property
    def nbytes(self) -> int:
        """How much memory it holds."""
        return sum(each.nbytes for each in (*self._network, *self._ends))

    def solve(self, sinks: Sequence[Positions], execution: Execution | None = None) -> Flows:
        """See `TemporalNetwork`."""
        execution = Execution() if execution is None else execution
        sets = [self._nodes(at) for at in check_sets("sinks", sinks, self._size)]
        ends = np.cumsum([0, *map(len, sets)])
        nodes = np.concatenate([np.empty(0, np.int32), *sets]).astype(np.int32)
        found, stop = np.full((len(sets), 4), np.nan), np.zeros(1, np.uint8)
        for number, each in enumerate(sets):
            if self._is_endless(each):
                found[number] = np.inf, np.inf, 0.0, 0.0
        edges, small = len(self._network.tails), self._is_small(len(sets))
        most = STATE_BYTES // (EDGE_BYTES * edges + NODE_BYTES * len(self._network.supply))
        workers = 1 if small else max(1, min(execution.threads or cores(), len(sets), most))
        pieces = [slice(at, at + PART) for at in range(0, len(sets), PART)]
        parts = iter(pieces) if workers == 1 else SharedParts(pieces)

        def work(state: State) -> None:
            for part in parts:
                if stop[0]:
                    return
                some = Sinks(ends[part.start : part.stop + 1], nodes)
                _solve_part(self._network, state, self._ends, some, found[part], stop)

        tasks = [partial(work, make_state(self._network)) for _ in range(workers)]
        with progress_bar("flow", len(sets), shown=execution.progress) as show:
            if small:
                tasks[0]()
            else:
                work_together(tasks, stop, lambda: show(int((found[:, VALUE] >= 0).sum())))
            show(len(sets))
        statistics = {
            "sinks": len(sets),
            "largest_gap": check(found),
            "dropped": float(self._ends.dropped_by_key.sum()),
            "threads": workers,
        }
        upper = [self._upper(*each) for each in zip(found, sets, strict=True)]
        return Flows(found[:, VALUE], np.array(upper, float), statistics)

    def solve_beside(
        self, sets: Sequence[LongArray], demands: FloatArray
    ) -> tuple[FloatArray, BoolArray]:
        """Flows to sinks with more edges to them than the network has.

        ``demands`` has the capacity of all edges from each node to each sink, ``[sink, layer,
        position]``. Returns the flows and the sinks' sides of minimum cuts.
        """
        state, stop = make_state(self._network), np.zeros(1, np.uint8)
        found = np.full((len(sets), 4), np.nan)
        sides = np.zeros(demands.shape, bool)

        def work() -> None:
            for number, at in enumerate(sets):
                nodes = self._nodes(at)
                _demand_beside(self._network, state, nodes, demands[number].ravel())
                found[number, :DROPPED] = maximize(self._network, state, nodes, stop)
                if stop[0]:
                    return
                sides[number] = (state.level != UNREACHED).reshape(demands.shape[1:])
                clear(state)

        work_together([work], stop, lambda: None)
        check(found)
        return found[:, VALUE], sides

    def solve_one(self, sink: Positions, *, cut_near: Side = "source") -> Flow:
        """See `TemporalNetwork`."""
        return self.solve_value(sink, cut_near=cut_near).in_full()

    def solve_value(self, sink: Positions, *, cut_near: Side = "source") -> OneFlow:
        """See `TemporalNetwork`."""
        if cut_near not in SIDES:
            msg = f"cut_near={shown(cut_near)} must be {' or '.join(map(repr, SIDES))}"
            raise InputError(msg)
        nodes = self._nodes(check_set("sink", sink, self._size))
        if self._is_endless(nodes):
            msg = (
                f"sink={shown(sink)} holds a source, which reaches itself without limit; "
                "leave the sources out of the sink, or give stations"
            )
            raise InputError(msg)
        state, stop = make_state(self._network), np.zeros(1, np.uint8)
        found = np.full((1, 4), np.nan)

        def work() -> None:
            found[0, :DROPPED] = maximize(self._network, state, nodes, stop)

        if self._is_small(1):
            work()
        else:  # which an interrupt ends
            work_together([work], stop, lambda: None)
        check(found)
        return OneFlow(
            float(found[0, VALUE]), partial(self._in_full, state, nodes, found, cut_near)
        )

    def _in_full(self, state: State, nodes: IntArray, found: FloatArray, cut_near: Side) -> Flow:
        """A flow that was solved, with its edges, its cut and its routes."""
        side = state.level != UNREACHED
        if cut_near == "source":
            side = side_nearest_sources(self._network, state)
        sinks = np.unique(nodes.astype(np.int64) % self._size)
        graph = FullGraph(self._network, self._ends.own_rows, self._sources, sinks, self._free)
        edges = edges_with_flow(graph, state)
        cut, stations = cut_of(graph, state, side)
        found, value = found.copy(), float(found[0, VALUE])
        # The edges of the result are proven once more: they are not the kernel's.
        found[0, CUT] = cut.amounts.sum() + stations.amounts.sum()
        found[0, UNBALANCED] += unbalanced(graph, edges, value)
        found[0, DROPPED] = _dropped_into(side, self._ends)
        check(found)
        return Flow(
            value,
            self._upper(found[0], nodes),
            edges,
            cut,
            stations,
            first_layers(graph, side) if self._free else None,
            routes_of(graph, edges, value, MOST_ROUTES),
        )

    def _is_small(self, sinks: int) -> bool:
        """Whether so many sinks are done before a thread has started."""
        return len(self._network.tails) * sinks < WORTH_THREADS

    def _nodes(self, at: LongArray) -> IntArray:
        """The nodes of a sink: its columns where flow may wait, otherwise those of layer 0."""
        layers = np.arange(self._depth if self._free else 1)
        nodes: IntArray = (layers[:, None] * self._size + at).ravel().astype(np.int32)
        return nodes

    def _upper(self, found: FloatArray, nodes: IntArray) -> float:
        """What no flow to these nodes exceeds: a cut with all edges that there were."""
        cut = float(found[CUT] + found[DROPPED])
        # The cut around the sink is known with all its edges, and mostly the smallest.
        return min(cut, float(self._ends.received[nodes].sum())) if found[DROPPED] else cut

    def _is_endless(self, nodes: IntArray) -> bool:
        """Whether a source reaches the nodes of a sink without limit: in its own column."""
        limited = not self._free and self._depth > 1
        return not limited and bool(self._ends.is_source[nodes % self._size].any())


def check(found: FloatArray) -> float:
    """The largest gap between a flow and its cut, beside the cut.

    Raises:
        CertificateError: A gap is larger than rounding explains.
    """
    found = found[~np.isposinf(found[:, VALUE])]
    gaps = np.abs(found[:, CUT] - found[:, VALUE]) + found[:, UNBALANCED]
    wrong = ~(gaps <= LARGEST_GAP * found[:, CUT])  # NaN is wrong, too
    if wrong.any():
        worst = np.flatnonzero(wrong)[np.argmax(gaps[wrong])]
        msg = (
            f"{int(wrong.sum())} of {len(found)} maximum flows failed their proof: one of "
            f"{found[worst, VALUE]:.6g} is {gaps[worst]:.2g} from the cut that it should equal. "
            "None of them is returned; please report this input"
        )
        raise CertificateError(msg)
    ratios = np.divide(gaps, found[:, CUT], out=np.zeros(len(found)), where=found[:, CUT] > 0)
    return float(ratios.max(initial=0.0))


@njit(cache=True, nogil=True)
def _solve_part(
    network: FlatNetwork,
    state: State,
    ends: Ends,
    sinks: Sinks,
    found: FloatArray,
    stop: ByteArray,
) -> None:
    """Solve for sinks one after the other; those without a limit are known already."""
    for number in range(len(found)):
        if found[number, VALUE] == np.inf:
            continue
        nodes = sinks.nodes[sinks.ends[number] : sinks.ends[number + 1]]
        maximum = maximize(network, state, nodes, stop)
        if stop[0]:
            return
        found[number, VALUE] = maximum.value
        found[number, CUT] = maximum.cut
        found[number, UNBALANCED] = maximum.unbalanced
        found[number, DROPPED] = _dropped_into(state.level != UNREACHED, ends)
        clear(state)


@njit(cache=True, nogil=True)
def _demand_beside(
    network: FlatNetwork, state: State, sinks: IntArray, demands: FloatArray
) -> None:
    """Set demands less those of the network's own edges, which `maximize` adds."""
    state.demand[:] = demands
    for node in sinks:
        for edge in range(network.starts[node], network.starts[node + 1]):
            tail = network.tails[edge]
            state.demand[tail] = max(0.0, state.demand[tail] - network.capacity[edge])
    state.demand[sinks] = 0.0


@njit(cache=True, nogil=True)
def _dropped_into(on_sinks_side: BoolArray, ends: Ends) -> float:
    """What the edges that were dropped may add to a cut at most."""
    depth, size = ends.dropped_by_key.shape
    # Flow enters a node by its first number and leaves it by its last: two, where it is a station.
    leaves = len(on_sinks_side) - depth * size
    total = 0.0
    for layer in range(1, depth + 1):
        into, out_of = 0.0, 0.0
        for position in range(size):
            if on_sinks_side[(layer - 1) * size + position]:
                into += ends.dropped_by_key[layer - 1, position]
            if layer == depth:
                on_sources_side = ends.is_source[position]
            else:
                on_sources_side = not on_sinks_side[leaves + layer * size + position]
            if on_sources_side:
                out_of += ends.dropped_by_query[layer - 1, position]
        total += min(into, out_of)
    return total
