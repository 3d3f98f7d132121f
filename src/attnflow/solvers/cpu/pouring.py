"""The first flow: poured down the layers once, by rules that leave little to be mended.

A node first offers to the sink's column, whose entries are narrow and lead straight to the sink,
then to its own column, the widest edge it has, then to the others. Columns first take no more than
their ``share``, which all of them can pass on at once, and only then up to their ``reach``. The
sources' largest edges go first: they have the most to place. On real attention this alone is the
maximum flow for most pairs; what gets stuck on the way stays as excess and is sent on later.
"""

from __future__ import annotations

from numba import njit

from attnflow.solvers.cpu.network import NEGLIGIBLE, IntArray, Network, note_edge


@njit(cache=True, nogil=True)
def pour(network: Network, top: int, sink: int, order: IntArray, low: int, high: int) -> float:
    """Send the excess of the top layer down; returns what arrived at the sink."""
    residual, excess, room, open_keys = (
        network.residual,
        network.excess,
        network.room,
        network.open,
    )
    for layer in range(top, 1, -1):
        below = layer - 1
        for key in range(low, high):
            excess[below, key] = 0.0
        for generous in range(2):
            limit = network.reach if generous else network.share
            count = 0
            for key in range(low, high):
                room[key] = limit[below, key] - excess[below, key]
                if room[key] > NEGLIGIBLE:
                    open_keys[count] = key
                    count += 1
            for place in range(order.shape[0]):
                query = order[place]
                if query < low or query >= high or excess[layer, query] <= NEGLIGIBLE:
                    continue
                left = excess[layer, query]
                entry = -2
                while entry < count:
                    key = open_keys[entry] if entry >= 0 else (sink if entry == -2 else query)
                    amount = min(left, min(residual[below, query, key], room[key]))
                    if amount > NEGLIGIBLE:
                        residual[below, query, key] -= amount
                        excess[below, key] += amount
                        room[key] -= amount
                        note_edge(network, below, query, key)
                        left -= amount
                        if left <= NEGLIGIBLE:
                            break
                    if entry >= 0 and room[key] <= NEGLIGIBLE:
                        count -= 1
                        open_keys[entry] = open_keys[count]
                    else:
                        entry += 1
                excess[layer, query] = left
            if layer == 2:
                break  # the share of layer 1 is its reach
    arrived = 0.0
    for key in range(low, high):
        arrived += excess[1, key]
        network.demand[key] -= excess[1, key]
    return arrived
