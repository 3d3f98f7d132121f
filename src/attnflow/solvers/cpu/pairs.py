"""Maximum flows from many sources to one sink: values, and how far each can be from the optimum."""

from __future__ import annotations

from numba import njit

from attnflow.records import FloatArray
from attnflow.solvers.certificate import MET
from attnflow.solvers.cpu.bounds import Bounds, capped_sum, cut_capacity, read_column, recall_reach
from attnflow.solvers.cpu.kernels import KERNEL
from attnflow.solvers.cpu.network import (
    BoolArray,
    ByteArray,
    IntArray,
    LongArray,
    Network,
    restore,
)
from attnflow.solvers.cpu.pouring import pour
from attnflow.solvers.cpu.residuals import is_full
from attnflow.solvers.cpu.search import measure, send_along

CLOSED_FORM, BOUND_MET, CUT_FOUND = 0, 1, 2  # how a value was proven


@njit(cache=True, nogil=True)
def solve_sinks(
    network: Network,
    bounds: Bounds,
    sinks: LongArray,
    sources: tuple[FloatArray, IntArray, LongArray],
    causal: bool,
    results: tuple[FloatArray, FloatArray, BoolArray, LongArray, ByteArray],
) -> None:
    """Fill the results, ``[sink, source]``: values, gaps, and how many were proven in which way.

    Pairs that are known already, the third result, stay as they are. If a table of residuals gets
    full, its ``counts[1]`` is set, and those that are not known by then wait for a larger one.

    ``sources`` are their edges, ``[source, key]``, the keys by falling edge, and their layers,
    counted from the sinks'. A nonzero last result, set by another thread, stops the work.
    """
    values, gaps, known, proofs, stop = results
    deepest = sources[2].max() - 1
    for place in range(sinks.shape[0]):
        if stop[0]:
            return
        if known[place].all():
            continue
        sink = sinks[place]
        low = sink if causal else 0  # in a causal network nothing before the sink can reach it
        # Sinks are the outer loop because bounds depend on the sink, and all sources share them.
        read_column(network, sink, low)
        recall_reach(network, bounds, deepest, sink, low)
        own = (values[place], gaps[place], known[place], proofs, stop)
        if not _solve_sources(network, sink, sources, causal, own):
            return


@njit(**KERNEL)
def _solve_sources(
    network: Network,
    sink: int,
    sources: tuple[FloatArray, IntArray, LongArray],
    causal: bool,
    results: tuple[FloatArray, FloatArray, BoolArray, LongArray, ByteArray],
) -> bool:
    """The same for one sink, whose bounds are known; returns whether to go on."""
    values, gaps, known, proofs, stop = results
    edges, orders, layers = sources
    for source in range(edges.shape[0]):
        # Between pairs, where the network is restored: the next call can use it as it is.
        if stop[0]:
            return False
        if known[source]:
            continue
        value, gap, proof = _solve(
            network, sink, edges[source], orders[source], layers[source], causal
        )
        if network.residuals.counts[1]:
            return False
        values[source], gaps[source] = value, gap
        known[source] = True
        proofs[proof] += 1
    return True


@njit(**KERNEL)
def _solve(
    network: Network, sink: int, edges: FloatArray, order: IntArray, layer: int, causal: bool
) -> tuple[float, float, int]:
    """The flow from one source: in closed form up to two layers above the sink."""
    low, high = (sink if causal else 0), edges.shape[0]
    if layer == 1:
        return edges[sink], 0.0, CLOSED_FORM
    if layer == 2:
        return capped_sum(edges[low:], network.reach[1, low:]), 0.0, CLOSED_FORM
    # In a causal network flow only moves to earlier positions: none passes the source's last edge.
    while causal and high > low + 1 and edges[high - 1] == 0.0:
        high -= 1
    top = layer - 1
    load(network, edges, top, low, high)
    answer: tuple[float, float, int] = maximize(network, top, sink, order, low, high)
    restore(network, top)
    return answer


@njit(**KERNEL)
def load(network: Network, supply: FloatArray, top: int, low: int, high: int) -> None:
    """Set the supply and demand of a pair."""
    # The excess of lower layers is left over from the pair before; `pour` clears it on its way. It
    # changes the excess of this one, too, and the cut is computed from what was supplied.
    excess, supplied, demand = network.excess, network.supplied, network.demand
    for position in range(low, high):
        excess[top, position] = supplied[position] = supply[position]
        demand[position] = network.column[0, position]


@njit(**KERNEL)
def maximize(
    network: Network, top: int, sink: int, order: IntArray, low: int, high: int
) -> tuple[float, float, int]:
    """The maximum flow of the loaded pair, its optimality gap, and how it was proven.

    The flow itself stays in the network's residuals.
    """
    supplied, demand, reach = network.supplied, network.demand, network.reach
    bound = min(capped_sum(supplied[low:high], reach[top, low:high]), demand[low:high].sum())
    value = pour(network, top, sink, order, low, high)
    # As in Dinic's algorithm, every round makes the way of what is left longer: the loop ends.
    while value < bound - MET:
        if not measure(network, top, low, high):
            cut = cut_capacity(network, sink, top, low, high)
            return value, cut - value, CUT_FOUND
        value += send_along(network, top, low, high)
        if is_full(network.residuals):
            network.residuals.counts[1] = 1
            break
    return value, bound - value, BOUND_MET
