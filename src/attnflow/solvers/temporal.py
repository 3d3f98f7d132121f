"""Maximum flow on relevance: exact, for sets of sources and sinks, every value with its proof.

The graph is a temporal network. From the node (l, i), position i of layer l, an edge leads to
every (l−1, j); its capacity is what passed over it, in the unit of the model's output, so that rows
have no particular sum. From a position to itself, (l, i) → (l−1, i), flow passes without limit,
because a token keeps what it has (*free columns*). Or it passes a node of the layers 1 … L−1 only
up to the capacity of the node's *station*, whichever edge it comes by. Flow runs from the sources,
positions of the top layer, down to the sinks, sets of positions of layer 0.

A source that is among the sinks reaches itself through its own column. With free columns this flow
is infinite, and so is the value that `solve` returns; a flow in full is refused. With stations it
is finite, as it has to pass them.

`prepare` makes a network of capacities and sources that is solved for any number of sinks. A solver
for another device is one more class behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.records.arrays import check_float, contiguous, is_tensor
from attnflow.records.checks import check_number, check_real
from attnflow.records.selection import is_integer
from attnflow.records.sparse import SparseLayer, SparseLayers
from attnflow.records.types import Array, FloatArray
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import LongArray

Positions = int | Iterable[int]
"""One position, or a set of them."""
Side = Literal["sink", "source"]
SIDES: tuple[Side, ...] = ("sink", "source")


class EdgeAmounts(NamedTuple):
    """Edges (layer, query) → (layer − 1, key), and an amount for each."""

    layers: LongArray
    queries: LongArray
    keys: LongArray
    amounts: FloatArray

    def dense(self, depth: int, size: int) -> FloatArray:
        """The amounts as ``[layer, query, key]``."""
        made = np.zeros((depth, size, size))
        made[self.layers - 1, self.queries, self.keys] = self.amounts
        return made


class Stations(NamedTuple):
    """Nodes (layer, position), and an amount for each."""

    layers: LongArray
    positions: LongArray
    amounts: FloatArray


@dataclass(frozen=True, eq=False)
class Flows:
    """Maximum flows to many sinks, ``[sink]``.

    Attributes:
        values: The maximum flow; where edges were dropped, that of the edges which were kept.
        upper: The capacity of a cut, which no flow exceeds. It differs from ``values`` by rounding,
            and by what the cut may hold of dropped edges: the exact value is between the two.
        statistics: How many sinks were solved by how many threads, the largest gap between a flow
            and its cut, beside the cut, and how much capacity was dropped.
    """

    values: FloatArray
    upper: FloatArray
    statistics: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Flow:
    """One maximum flow in full.

    Attributes:
        value: The maximum flow.
        upper: The capacity of the cut, with what it may hold of dropped edges.
        edges: What passes over every edge, those of columns included; edges without flow are left
            out.
        cut: The edges of a minimum cut, with their capacities.
        cut_stations: The stations of that cut.
        carries_from: With free columns, the whole cut as one number for each position,
            ``[position]``: the layer from which on the position carries the sink's information
            and the sources have not got it by other ways. 0 for the sink itself, depth + 1 for
            positions that never do. An edge (l, i) → (l−1, j) is cut where
            ``carries_from[j] < l < carries_from[i]``. ``None`` with stations.
        routes: Positions from layer L down to 0, and the amount; the widest is taken off first.
        routed: The amount of all routes: less than the value if there are more than are kept.
    """

    value: float
    upper: float
    edges: EdgeAmounts
    cut: EdgeAmounts
    cut_stations: Stations
    carries_from: LongArray | None
    routes: tuple[tuple[tuple[int, ...], float], ...]

    @property
    def gap(self) -> float:
        """How far the value can be from the maximum."""
        return self.upper - self.value

    @property
    def routed(self) -> float:
        """The amount of all routes together."""
        return sum(amount for _, amount in self.routes)


class OneFlow(NamedTuple):
    """The value of a maximum flow, and what tells the flow in full, which takes longer."""

    value: float
    in_full: Callable[[], Flow]


class TemporalNetwork(Protocol):
    """Capacities and sources, ready to be solved for any sinks; calls share no buffers."""

    def solve(self, sinks: Sequence[Positions], execution: Execution | None = None) -> Flows:
        """The maximum flow to each set of positions."""

    def solve_one(self, sink: Positions, *, cut_near: Side = "source") -> Flow:
        """One flow in full. Of all minimum cuts it has the one nearest the sink or the sources."""

    def solve_value(self, sink: Positions, *, cut_near: Side = "source") -> OneFlow:
        """The same, where not every flow is needed in full."""


def prepare(
    capacities: Any,
    sources: Positions,
    stations: Array | None = None,
    *,
    tolerance: float = 0.0,
) -> TemporalNetwork:
    """A network that can be solved.

    Args:
        capacities: ``[layer, query, key]``, at least 0: a NumPy array, a torch tensor, or a
            sequence of layers, each of which may also be sparse (`SparseLayer`, or one of SciPy's).
            Layers are read once, from the top down, so that a sequence may make each when it is
            read. Entries from a position to itself are ignored.
        sources: The positions of the top layer where flow starts.
        stations: How much may pass each node of the layers between, ``[layer, position]`` for
            layers 1 … L−1. ``None`` is without limit.
        tolerance: How much capacity may be dropped, smallest edges first, in the unit of the
            capacities. No cut holds more of it, so that no flow is further below the maximum;
            `Flows.upper` says how far it can be. An edge counts for no more than what can arrive
            at its upper end from the sources.
    """
    limit = check_real("tolerance", tolerance)
    if limit < 0:
        msg = f"tolerance={shown(tolerance)} must be at least 0"
        raise InputError(msg)
    layers, depth = _from_the_top(capacities)
    top = next(layers)
    size = top.shape[0]
    chosen = check_set("sources", sources, size)
    limits = None if stations is None else check_stations(stations, depth, size)
    from attnflow.solvers.cpu.temporal.solver import CpuTemporalNetwork

    return CpuTemporalNetwork(chain([top], layers), depth, chosen, limits, limit)


def solve(
    capacities: Any,
    sources: Positions,
    sinks: Sequence[Positions],
    stations: Array | None = None,
    *,
    tolerance: float = 0.0,
    execution: Execution | None = None,
) -> Flows:
    """The maximum flow from the sources to each sink; see `prepare` for the arguments."""
    return prepare(capacities, sources, stations, tolerance=tolerance).solve(sinks, execution)


def solve_one(
    capacities: Any,
    sources: Positions,
    sink: Positions,
    stations: Array | None = None,
    *,
    cut_near: Side = "source",
) -> Flow:
    """One maximum flow in full; see `prepare` and `TemporalNetwork.solve_one`."""
    return prepare(capacities, sources, stations).solve_one(sink, cut_near=cut_near)


def _from_the_top(given: Any) -> tuple[Iterator[Any], int]:
    """The layers, checked, and how many there are: an array at once, others one after the other."""
    if isinstance(given, SparseLayers):
        given = given.layers
    array = not isinstance(given, Sequence)
    if array:
        check_float("capacities", given)
        shape = tuple(given.shape)
        if len(shape) != 3 or shape[1] != shape[2] or not shape[1]:
            msg = f"capacities have shape {shape}; they must be [layer, query, key], and square"
            raise InputError(msg)
    depth = len(given)
    if not depth:
        msg = "capacities have no layers; there must be at least one"
        raise InputError(msg)
    if array:
        return iter(contiguous(given)[::-1]), depth

    def layers() -> Iterator[Any]:
        size = None
        for number in range(depth, 0, -1):
            layer = _check_layer(given[number - 1], number, size)
            size = layer.shape[0]
            yield layer

    return layers(), depth


def _check_layer(given: Any, number: int, size: int | None) -> Any:
    """One layer ``[query, key]``: NumPy's in float32 or float64, or sparse."""
    name = f"layer {number} of the capacities"
    if hasattr(given, "tocsr"):
        given = given.tocsr()
        given.sum_duplicates()
        starts, keys = given.indptr.astype(np.int64), given.indices.astype(np.int32)
        given = SparseLayer(starts, keys, given.data)
    if not isinstance(given, SparseLayer):
        check_float(name, given)
        given = contiguous(given)
    if given.ndim != 2 or given.shape[0] != given.shape[1] or not given.shape[0]:
        msg = f"{name} has shape {tuple(given.shape)}; it must be square, [query, key]"
        raise InputError(msg)
    if size is not None and given.shape[0] != size:
        msg = f"{name} has {given.shape[0]} positions, the one above {size}; they must be alike"
        raise InputError(msg)
    return given


def check_stations(given: Array, depth: int, size: int) -> FloatArray:
    """Stations in float64."""
    limits: FloatArray = np.asarray(
        given.detach().cpu().double() if is_tensor(given) else given, np.float64
    )
    if limits.shape != (depth - 1, size):
        msg = (
            f"stations have shape {limits.shape}; they must be [layer, position] of the layers "
            f"between the top and the input, {(depth - 1, size)}"
        )
        raise InputError(msg)
    if not (np.isfinite(limits) & (limits >= 0)).all():
        msg = "stations must be finite and at least 0; take their positive part"
        raise InputError(msg)
    return limits


def check_sets(name: str, given: Sequence[Positions], size: int) -> list[LongArray]:
    """Several sets of positions."""
    return [check_set(f"{name}[{at}]", each, size) for at, each in enumerate(given)]


def check_set(name: str, given: Positions, size: int) -> LongArray:
    """A set of positions, rising."""
    plain = (given,) if type(given) is int else given
    if type(plain) is tuple and plain and all(type(at) is int and 0 <= at < size for at in plain):
        return np.array(sorted(set(plain)), np.int64)  # most are, and need no closer look
    if is_integer(given):
        given = (given,)  # type: ignore[assignment]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        msg = f"{name}={shown(given)} must be a position or a set of positions"
        raise InputError(msg)
    positions = sorted({check_number(name, each, 0, size - 1) for each in given})
    if not positions:
        msg = f"{name} is empty; it must be a position or a set of positions"
        raise InputError(msg)
    return np.array(positions, np.int64)
