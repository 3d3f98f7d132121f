"""The first flow: poured down the layers once, by rules that leave little to be mended.

A node first offers to the sink's column, whose entries are narrow and lead straight to the sink,
then to its own column, the widest edge it has, then to the others. Columns first take no more than
their ``share``, which all of them can pass on at once, and only then up to their ``reach``. The
sources' largest edges go first: they have the most to place. On real attention this alone is the
maximum flow for most pairs; what gets stuck on the way stays as excess and is sent on later.
"""

from __future__ import annotations

from numba import njit

from attnflow.kernels.network import NEGLIGIBLE, IntArray, Network


@njit(cache=True, nogil=True)
def pour(network: Network, top: int, sink: int, order: IntArray, low: int, high: int) -> float:
    """Send the excess of the top layer down; returns what arrived at the sink."""
    residual, excess = network.residual, network.excess
    touched, parents, senders = network.touched, network.parents, network.senders
    for layer in range(top, 1, -1):
        for key in range(low, high):
            excess[layer - 1, key] = 0.0
        for generous in range(2):
            limit = network.reach if generous else network.share
            for place in range(order.shape[0]):
                query = order[place]
                if query < low or query >= high or excess[layer, query] <= NEGLIGIBLE:
                    continue
                left = excess[layer, query]
                for turn in range(low - 2, high):
                    key = turn if turn >= low else (sink if turn == low - 2 else query)
                    room = limit[layer - 1, key] - excess[layer - 1, key]
                    amount = min(left, min(residual[layer - 1, query, key], room))
                    if amount > NEGLIGIBLE:
                        residual[layer - 1, query, key] -= amount
                        excess[layer - 1, key] += amount
                        if not touched[layer - 1, query, key]:
                            touched[layer - 1, query, key] = 1
                            parents[layer - 1, key, senders[layer - 1, key]] = query
                            senders[layer - 1, key] += 1
                        left -= amount
                        if left <= NEGLIGIBLE:
                            break
                excess[layer, query] = left
            if layer == 2:
                break  # the share of layer 1 is its reach
    arrived = 0.0
    for key in range(low, high):
        arrived += excess[1, key]
        network.demand[key] -= excess[1, key]
    return arrived
