"""Later phases: distances to the sink in the residual network, and blocking flows along them.

The network is dense, so a search that asks only the nodes it has *not* reached ends after a few
rows: `measure` costs little more than a look at every node.
"""

from __future__ import annotations

from numba import njit

from attnflow.kernels.network import NEGLIGIBLE, Network


@njit(cache=True, nogil=True)
def measure(network: Network, top: int, low: int, high: int) -> bool:
    """Set ``level`` to the distance to the sink; returns whether any excess can still get there.

    Breadth first from the sink, backwards, a level at a time. If no excess can get there, the nodes
    with a level and those without are the two sides of a minimum cut.
    """
    _start(network, top, low, high)
    capacity, residual, excess = network.capacity, network.residual, network.excess
    level, reached, missing = network.level, network.reached, network.missing
    found, lacking, segment = network.found, network.lacking, network.segment
    parents, senders = network.parents, network.senders
    hopeful = False
    distance = 1
    while True:
        grown = False
        for layer in range(1, top + 1):
            segment[layer, distance + 1] = found[layer]
            grown = grown or found[layer] > segment[layer, distance]
        if not grown:
            return hopeful
        for layer in range(1, top + 1):
            begin, end = segment[layer, distance], segment[layer, distance + 1]
            if begin == end:
                continue
            for place in range(begin, end):
                hopeful = hopeful or (
                    layer > 1 and excess[layer, reached[layer, place]] > NEGLIGIBLE
                )
            if layer < top:
                above = layer + 1
                kept, now = 0, found[above]
                for entry in range(lacking[above]):
                    query = missing[above, entry]
                    place = begin
                    while (
                        place < end and residual[layer, query, reached[layer, place]] <= NEGLIGIBLE
                    ):
                        place += 1
                    if place < end:
                        level[above, query] = distance + 1
                        reached[above, now] = query
                        now += 1
                    else:
                        missing[above, kept] = query
                        kept += 1
                found[above], lacking[above] = now, kept
            if layer > 1:
                below = layer - 1
                kept, now = 0, found[below]
                for entry in range(lacking[below]):
                    key = missing[below, entry]
                    hands_back = False
                    for slot in range(senders[below, key]):
                        query = parents[below, key, slot]
                        if (
                            level[layer, query] == distance
                            and capacity[below, query, key] - residual[below, query, key]
                            > NEGLIGIBLE
                        ):
                            hands_back = True
                            break
                    if hands_back:
                        level[below, key] = distance + 1
                        reached[below, now] = key
                        now += 1
                    else:
                        missing[below, kept] = key
                        kept += 1
                found[below], lacking[below] = now, kept
        distance += 1


@njit(cache=True, nogil=True)
def _start(network: Network, top: int, low: int, high: int) -> None:
    """Nothing is reached but the positions of layer 1 that still have demand, at distance 1."""
    for layer in range(1, top + 1):
        found = lacking = 0
        for position in range(low, high):
            if layer == 1 and network.demand[position] > NEGLIGIBLE:
                network.level[layer, position] = 1
                network.reached[layer, found] = position
                found += 1
            else:
                network.level[layer, position] = 0
                network.missing[layer, lacking] = position
                lacking += 1
        network.found[layer] = found
        network.lacking[layer] = lacking
        network.segment[layer, 1] = 0


@njit(cache=True, nogil=True)
def send_along(network: Network, top: int, low: int, high: int) -> float:
    """Send excess on along shortest residual paths until they are blocked; returns what arrived."""
    capacity, residual, level, arc = (
        network.capacity,
        network.residual,
        network.level,
        network.arc,
    )
    reached, segment = network.reached, network.segment
    touched, parents, senders = network.touched, network.parents, network.senders
    stack, wanted, got = network.stack, network.wanted, network.got
    excess, demand = network.excess, network.demand
    for layer in range(1, top + 1):
        for place in range(network.found[layer]):
            arc[layer, reached[layer, place]] = 0
    arrived = 0.0
    width = high - low
    for turn in range((top - 1) * width):
        start_layer, start = 2 + turn // width, low + turn % width
        if excess[start_layer, start] <= NEGLIGIBLE or level[start_layer, start] <= 0:
            continue
        depth = 0
        stack[0, 0], stack[0, 1] = start_layer, start
        wanted[0], got[0] = excess[start_layer, start], 0.0
        while True:
            layer, position = stack[depth, 0], stack[depth, 1]
            want = wanted[depth] - got[depth]
            closer = level[layer, position] - 1
            if layer == 1 and closer == 0:
                amount = min(want, demand[position])
                demand[position] -= amount
                got[depth] = amount
                if demand[position] <= NEGLIGIBLE:
                    level[1, position] = -1
            elif want > NEGLIGIBLE:
                tried = arc[layer, position]
                room = 0.0
                down = 0
                other_layer, other = 0, 0
                if layer > 1:
                    begin = segment[layer - 1, closer]
                    down = segment[layer - 1, closer + 1] - begin
                    while tried < down:
                        other = reached[layer - 1, begin + tried]
                        if (
                            residual[layer - 1, position, other] > NEGLIGIBLE
                            and level[layer - 1, other] == closer
                        ):
                            room = residual[layer - 1, position, other]
                            other_layer = layer - 1
                            break
                        tried += 1
                if room == 0.0 and layer < top:
                    while tried < down + senders[layer, position]:
                        other = parents[layer, position, tried - down]
                        if level[layer + 1, other] == closer:
                            back = (
                                capacity[layer, other, position] - residual[layer, other, position]
                            )
                            if back > NEGLIGIBLE:
                                room = back
                                other_layer = layer + 1
                                break
                        tried += 1
                arc[layer, position] = tried
                if room > 0.0:
                    depth += 1
                    stack[depth, 0], stack[depth, 1] = other_layer, other
                    wanted[depth], got[depth] = min(want, room), 0.0
                    continue
                level[layer, position] = -1
            if depth == 0:
                break
            amount = got[depth]
            complete = wanted[depth] - amount <= NEGLIGIBLE
            other_layer, other = layer, position
            depth -= 1
            layer, position = stack[depth, 0], stack[depth, 1]
            if amount > 0.0:
                got[depth] += amount
                if other_layer < layer:
                    residual[other_layer, position, other] -= amount
                    if not touched[other_layer, position, other]:
                        touched[other_layer, position, other] = 1
                        parents[other_layer, other, senders[other_layer, other]] = position
                        senders[other_layer, other] += 1
                else:
                    residual[layer, other, position] += amount
            if not complete:
                arc[layer, position] += 1
        excess[start_layer, start] -= got[0]
        arrived += got[0]
    return arrived
