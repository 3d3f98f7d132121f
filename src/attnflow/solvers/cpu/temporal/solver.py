"""Maximum flows to many sinks on the CPU; threads share the sinks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from attnflow.errors import CertificateError, InputError, shown
from attnflow.io.progress import progress_bar
from attnflow.records.checks import check_number
from attnflow.records.sparse import IntArray, LongArray
from attnflow.records.types import FloatArray
from attnflow.solvers.cpu.network import ByteArray
from attnflow.solvers.cpu.temporal.detail import (
    Graph,
    cut_of,
    edges_with_flow,
    first_layers,
    routes_of,
    side_nearest_sources,
    unbalanced,
)
from attnflow.solvers.cpu.temporal.flow import UNREACHED, State, clear, make_state, maximize
from attnflow.solvers.cpu.temporal.network import Ends, Network, make_network
from attnflow.solvers.cpu.working import SharedParts, work_together
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import BoolArray
from attnflow.solvers.temporal import (
    MOST_ROUTES,
    SIDES,
    Flow,
    Flows,
    Positions,
    Side,
    check_set,
)
from attnflow.solvers.threads import cores

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
        sets = [self._sink(f"sinks[{at}]", each) for at, each in enumerate(sinks)]
        ends = np.cumsum([0, *map(len, sets)])
        nodes = np.concatenate([np.empty(0, np.int32), *sets]).astype(np.int32)
        found, stop = np.full((len(sets), 4), np.nan), np.zeros(1, np.uint8)
        for number, each in enumerate(sets):
            if self._is_endless(each):
                found[number] = np.inf, np.inf, 0.0, 0.0
        edges = len(self._network.tails)
        small = edges * len(sets) < WORTH_THREADS
        most = STATE_BYTES // (EDGE_BYTES * edges + NODE_BYTES * len(self._network.supply))
        workers = 1 if small else max(1, min(execution.threads or cores(), len(sets), most))
        parts = SharedParts([slice(at, at + PART) for at in range(0, len(sets), PART)])

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

    def solve_one(
        self, sink: Positions, *, cut_near: Side = "source", most_routes: int = MOST_ROUTES
    ) -> Flow:
        """See `TemporalNetwork`."""
        if cut_near not in SIDES:
            msg = f"cut_near={shown(cut_near)} must be {' or '.join(map(repr, SIDES))}"
            raise InputError(msg)
        check_number("most_routes", most_routes, 0)
        nodes = self._sink("sink", sink)
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

        work_together([work], stop, lambda: None)
        check(found)
        side = state.level != UNREACHED
        if cut_near == "source":
            side = side_nearest_sources(self._network, state)
        sinks = np.unique(nodes.astype(np.int64) % self._size)
        graph = Graph(self._network, self._ends.own_rows, self._sources, sinks, self._free)
        edges = edges_with_flow(graph, state)
        cut, stations = cut_of(graph, state, side)
        value = float(found[0, VALUE])
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
            routes_of(graph, edges, value, most_routes),
        )

    def _sink(self, name: str, sink: Positions) -> IntArray:
        """The nodes of a sink: its columns where flow may wait, otherwise those of layer 0."""
        at = check_set(name, sink, self._size)
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
    network: Network,
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
