"""The first flow: poured down the layers once, by rules that leave little to repair.

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
    # `order` sorts the source's edges, the excess of the top layer. Lower layers use it as well:
    # most flow stays in its column, and a preference is not worth sorting every layer.
    for layer in range(top, 1, -1):
        below = layer - 1
        for key in range(low, high):
            excess[below, key] = 0.0
        # Twice: if the first nodes could fill a column up to its reach at once, later ones that
        # depend on this column would get stuck.
        for generous in range(2):
            limit = network.reach if generous else network.share
            # Full columns leave the list, so that late nodes don't try them one by one.
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
                # Entry −2 is the sink's column, −1 the own one; then those of the list, in which
                # both occur again, by then without room or residual.
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
                    # The last of the list takes the place of a full one and is tried next. That
                    # mixes up the order, which means nothing among the other columns.
                    if entry >= 0 and room[key] <= NEGLIGIBLE:
                        count -= 1
                        open_keys[entry] = open_keys[count]
                    else:
                        entry += 1
                # What is left stays here: a search sends it on, or proves that it can't arrive.
                excess[layer, query] = left
            if layer == 2:
                break  # the share of layer 1 is its reach
    # No position of layer 1 took more than its reach, which is its edge to the sink: all of it
    # arrives. Its excess stays set, and searches look for excess from layer 2 on.
    arrived = 0.0
    for key in range(low, high):
        arrived += excess[1, key]
        network.demand[key] -= excess[1, key]
    return arrived
