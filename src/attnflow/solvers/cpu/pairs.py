"""Maximum flows from many sources to one sink: values, and how far each can be from the optimum.

**Bounds** end a solve: no flow can exceed them, and a flow that meets one is proven optimal. A node
sends to the sink at most the sum over its edges of min(edge, what the edge's end can send); see
docs/flow.md. Most flows of real attention meet this bound, so most need no proof by search.

**The first flow** is poured down the layers once, by rules that leave little to repair. A node
first offers to the sink's column, whose entries are narrow and lead straight to the sink, then to
its own column, the widest edge it has, then to the others. Columns first take no more than their
``share``, which all of them can pass on at once, and only then up to their ``reach``. The source's
largest edges go first: they have the most to place. On real attention this alone is the maximum
flow for most pairs; what gets stuck on the way stays as excess and is sent on later, by `search`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from attnflow.records import FloatArray
from attnflow.solvers.cpu.network import (
    HALF,
    KERNEL,
    LOWER,
    NEGLIGIBLE,
    BoolArray,
    ByteArray,
    IntArray,
    LongArray,
    Network,
    is_full,
    restore,
)
from attnflow.solvers.cpu.search import measure, send_along
from attnflow.solvers.interface import MET

MOST_BYTES = 64 * 1024 * 1024  # of cached bounds; those of larger graphs are computed every time

# Sums may be taken in any order, in vector lanes; a bound need not be the same to the last bit.
REORDER = {"reassoc", "nsz", "nnan", "ninf", "contract"}


@njit(**KERNEL, fastmath=REORDER)
def capped_sum(row: FloatArray, cap: FloatArray) -> float:
    """Σ_j min(row[j], cap[j])."""
    # The cost of the bounds is here. LLVM turns this loop over contiguous rows into vector
    # instructions, and it needs no temporary array, as np.minimum would.
    total = 0.0
    for place in range(row.shape[0]):
        total += row[place] if row[place] < cap[place] else cap[place]
    return total


class Bounds(NamedTuple):
    """The bounds of every sink that was solved before; arrays are empty where none are cached."""

    known: IntArray  # [sink], up to which layer the bounds are known
    reach: FloatArray  # [sink, layer, position]
    share: FloatArray  # [sink, layer, position]


def make_bounds(depth: int, size: int, sinks: int | None = None) -> Bounds:
    """Arrays for the bounds of all sinks; empty ones if they would exceed `MOST_BYTES`."""
    if sinks is None:
        # 16 bytes: reach and share are float64 each.
        sinks = size if 16 * size * (depth + 1) * size <= MOST_BYTES else 0
    shape = (sinks, depth + 1, size)
    return Bounds(np.zeros(sinks, np.int32), np.zeros(shape), np.zeros(shape))


@njit(cache=True, nogil=True)
def recall_reach(network: Network, bounds: Bounds, top: int, sink: int, low: int) -> None:
    """Fill ``reach`` and ``share`` for layers 1 … top, from what is known of the sink."""
    # Threads share `bounds` without a lock: they take different sinks, and two that were given the
    # same one would write the same numbers. `known` is set last, when its rows are complete.
    if bounds.known.shape[0] == 0:
        bound_reach(network, 1, top, sink, low)
        return
    known = bounds.known[sink]
    # The copies cost layers × positions, against layers × positions² for computing the bounds anew.
    if known < top:
        # The bounds of a layer follow from the layer below, so that a later call for higher
        # layers continues where an earlier one stopped.
        network.reach[: known + 1] = bounds.reach[sink, : known + 1]
        network.share[: known + 1] = bounds.share[sink, : known + 1]
        bound_reach(network, known + 1, top, sink, low)
        bounds.reach[sink, known + 1 : top + 1] = network.reach[known + 1 : top + 1]
        bounds.share[sink, known + 1 : top + 1] = network.share[known + 1 : top + 1]
        bounds.known[sink] = top
    else:
        network.reach[: top + 1] = bounds.reach[sink, : top + 1]
        network.share[: top + 1] = bounds.share[sink, : top + 1]


@njit(**KERNEL)
def read_column(network: Network, sink: int, low: int) -> None:
    """Fill ``column``: the edges into the sink's position, side by side in memory."""
    capacity, column = network.capacity, network.column
    for layer in range(column.shape[0]):
        for query in range(low, column.shape[1]):
            column[layer, query] = capacity[layer, query, sink]


@njit(**KERNEL)
def bound_reach(network: Network, first: int, top: int, sink: int, low: int) -> None:
    """Fill ``reach`` and ``share`` for layers first … top, from the layers below.

    ``reach`` is what each node could send to the sink at most. ``share`` is what it can send down
    its own column and from there into the sink's: a modest guess that all nodes can keep at once.
    """
    reach, share = network.reach, network.share
    # Layer 1 is filled even when `first` is higher: its sum, all that the sink can take, caps the
    # reach of every node. Positions below `low` can't reach the sink and are never read.
    whole = 0.0
    for position in range(low, reach.shape[1]):
        reach[1, position] = share[1, position] = network.capacity[0, position, sink]
        whole += reach[1, position]
    for layer in range(max(2, first), top + 1):
        for position in range(low, reach.shape[1]):
            row = network.capacity[layer - 1, position, low:]
            reach[layer, position] = min(whole, capped_sum(row, reach[layer - 1, low:]))
            # `share` is a guess and proves nothing: if it is too high, pouring leaves more to be
            # repaired by a search. At the sink's position, the own column is the sink's already.
            side = network.capacity[layer - 1, position, sink] if position != sink else 0.0
            share[layer, position] = min(reach[layer, position], share[layer - 1, position] + side)


@njit(**KERNEL)
def cut_capacity(network: Network, sink: int, top: int, low: int, high: int) -> float:
    """The capacity of the cut between the nodes that `measure` reached and those it did not."""
    # Every edge from the unreached side to the reached one: from the source, between layers, and to
    # the sink. Capacities are summed, never flows, so that this checks the flow independently.
    capacity, level, supplied, reached = (
        network.capacity,
        network.level,
        network.supplied,
        network.row,
    )
    total = 0.0
    for position in range(low, high):
        if level[top, position]:
            total += supplied[position]
        if not level[1, position]:
            total += capacity[0, position, sink]
    for layer in range(2, top + 1):
        # Ones and zeros instead of a choice, so that a row is summed in vector registers.
        for key in range(low, high):
            reached[key] = 1.0 if level[layer - 1, key] else 0.0
        for query in range(low, high):
            if not level[layer, query]:
                total += _weighed(capacity[layer - 1, query, low:high], reached[low:high])
    return total


@njit(**KERNEL, fastmath=REORDER)
def _weighed(row: FloatArray, weights: FloatArray) -> float:
    total = 0.0
    for place in range(row.shape[0]):
        total += row[place] * weights[place]
    return total


# Unsigned: an index that might be negative costs a check.
NONE, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)


@njit(**KERNEL)
def pour(network: Network, top: int, sink: int, order: IntArray, low: int, high: int) -> float:
    """Send the excess of the top layer down; returns what arrived at the sink."""
    excess, demand = network.excess, network.demand
    for layer in range(top, 1, -1):
        for key in range(low, high):
            excess[layer - 1, key] = 0.0
        stuck = _pour_shares(network, layer, sink, order, low, high)
        # Twice: if the first nodes could fill a column up to its reach at once, later ones that
        # depend on this column would get stuck. The share of layer 1 is its reach.
        if stuck and layer > 2:
            _pour_rest(network, layer, sink, stuck, low, high)
    # No position of layer 1 took more than its reach, which is its edge to the sink: all of it
    # arrives. Its excess stays set, and searches look for excess from layer 2 on.
    arrived = 0.0
    for key in range(low, high):
        arrived += excess[1, key]
        demand[key] -= excess[1, key]
    return arrived


@njit(**KERNEL)
def _pour_shares(
    network: Network, layer: int, sink: int, order: IntArray, low: int, high: int
) -> int:
    """Pour a layer into the one below, no column beyond its share; returns how many got stuck."""
    capacity, excess, share, open_keys = (
        network.capacity,
        network.excess,
        network.share,
        network.open,
    )
    log, poured, rows = network.log, network.poured, network.rows
    diagonal, column = network.diagonal, network.column
    below, most = layer - 1, np.uint64(log.shape[1])
    # Full columns leave the list, so that late nodes don't try them one by one.
    count = NONE
    for key in range(low, high):
        open_keys[count] = key
        count += np.uint64(key != sink and share[below, key] > NEGLIGIBLE)
    # Every node tries the sink's column first: what it takes stays in registers.
    sink_excess = 0.0
    into, stuck = NONE, NONE
    # `order` sorts the source's edges, the excess of the top layer. Lower layers use it as well:
    # most flow stays in its column, and a preference is not worth sorting every layer.
    for place in range(order.shape[0]):
        query = np.uint32(order[place])
        if query < low or query >= high or excess[layer, query] <= NEGLIGIBLE:
            continue
        left = excess[layer, query]
        rows[0, stuck], rows[1, stuck] = query, into
        if into + count + TWO > most:
            # The log is full, which is rare: searches can do without.
            stuck += ONE
            continue
        upper = query << HALF
        # Whether these two take something is hard to predict, so there is no branch: nothing is
        # added, and the next entry of the log overwrites this one.
        amount = min(left, min(column[below, query], share[below, sink] - sink_excess))
        amount = amount if amount > NEGLIGIBLE else 0.0
        sink_excess += amount
        left -= amount
        log[below, into] = upper | np.uint32(sink)
        poured[below, into] = amount
        into += np.uint64(amount > 0.0)
        held = excess[below, query]
        amount = min(left, min(diagonal[below, query], share[below, query] - held))
        amount = amount if amount > NEGLIGIBLE and query != sink else 0.0
        excess[below, query] = held + amount
        left -= amount
        log[below, into] = upper | query
        poured[below, into] = amount
        into += np.uint64(amount > 0.0)
        entry = NONE
        while left > NEGLIGIBLE and entry < count:
            key = open_keys[entry]
            held, limit = excess[below, key], share[below, key]
            amount = min(left, min(capacity[below, query, key], limit - held))
            if amount > NEGLIGIBLE and key != query:
                held += amount
                excess[below, key] = held
                left -= amount
                log[below, into] = upper | key
                poured[below, into] = amount
                into += ONE
            # The last of the list takes the place of a full one and is tried next. That
            # mixes up the order, which means nothing among the other columns.
            if limit - held <= NEGLIGIBLE:
                count -= ONE
                open_keys[entry] = open_keys[count]
            else:
                entry += ONE
        # What is left stays here: a search sends it on, or proves that it can't arrive.
        excess[layer, query] = left
        stuck += np.uint64(left > NEGLIGIBLE)
    excess[below, sink] = sink_excess
    network.logged[below] = into
    return int(stuck)


@njit(**KERNEL)
def _pour_rest(network: Network, layer: int, sink: int, stuck: int, low: int, high: int) -> None:
    """Pour what got stuck, into columns up to their reach."""
    capacity, excess, reach, open_keys = (
        network.capacity,
        network.excess,
        network.reach,
        network.open,
    )
    log, poured, rows, row = network.log, network.poured, network.rows, network.row
    below, most = layer - 1, np.uint64(log.shape[1])
    count, into = NONE, np.uint64(network.logged[below])
    before = into
    for position in range(low, high):
        open_keys[count] = position
        count += np.uint64(reach[below, position] - excess[below, position] > NEGLIGIBLE)
    for place in range(stuck):
        query = rows[0, place]
        if into + count + TWO > most:
            break
        # What the node has left of its edges: the log has what it sent before.
        for position in range(low, high):
            row[position] = capacity[below, query, position]
        at = np.uint64(rows[1, place])
        while at < before and log[below, at] >> HALF == query:
            row[log[below, at] & LOWER] -= poured[below, at]
            at += ONE
        left = excess[layer, query]
        entry = -2
        while left > NEGLIGIBLE and entry < count:
            key = open_keys[entry] if entry >= 0 else np.uint32(sink if entry == -2 else query)
            held, limit = excess[below, key], reach[below, key]
            amount = min(left, min(row[key], limit - held))
            if amount > NEGLIGIBLE:
                held += amount
                excess[below, key] = held
                row[key] -= amount
                left -= amount
                log[below, into] = query << HALF | key
                poured[below, into] = amount
                into += ONE
            if entry >= 0 and limit - held <= NEGLIGIBLE:
                count -= ONE
                open_keys[entry] = open_keys[count]
            else:
                entry += 1
        excess[layer, query] = left
    network.logged[below] = into


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
