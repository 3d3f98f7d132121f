"""The first flow: poured down the layers once, by rules that leave little to repair.

A node first offers to the sink's column, whose entries are narrow and lead straight to the sink,
then to its own column, the widest edge it has, then to the others. Columns first take no more than
their ``share``, which all of them can pass on at once, and only then up to their ``reach``. The
sources' largest edges go first: they have the most to place. On real attention this alone is the
maximum flow for most pairs; what gets stuck on the way stays as excess and is sent on later.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from attnflow.solvers.cpu.kernels import KERNEL
from attnflow.solvers.cpu.network import HALF, LOWER, NEGLIGIBLE, IntArray, Network

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
        # Whether these two take something is hard to foresee, so there is no branch: nothing is
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
