"""Later phases: distances to the sink in the residual network, and blocking flows along them.

The network is dense, so a search that visits only the nodes it has *not* reached ends after a few
rows: `measure` costs little more than a look at every node.
"""

from __future__ import annotations

from numba import njit

from attnflow.solvers.cpu.network import NEGLIGIBLE, Network, note_edge

USED_UP = -1  # the level of a node that can pass nothing more in this phase


@njit(cache=True, nogil=True)
def measure(network: Network, top: int, low: int, high: int) -> bool:
    """Set ``level`` to the distance to the sink; returns whether any excess can still get there.

    Breadth first from the sink, backwards, a level at a time. If no excess can get there, the nodes
    with a level and those without are the two sides of a minimum cut.
    """
    _start(network, top, low, high)
    excess, found, segment = network.excess, network.found, network.segment
    # It does not stop at the first excess: `send_along` needs the levels of all nodes, and the cut
    # needs to know everything that can be reached.
    hopeful = False
    distance = 1
    while True:
        # The ends of this distance are fixed for all layers before any layer is expanded: what is
        # found meanwhile, above or below, belongs to the next distance.
        grown = False
        for layer in range(1, top + 1):
            segment[layer, distance + 1] = found[layer]
            grown = grown or found[layer] > segment[layer, distance]
        if not grown:
            return hopeful
        for layer in range(1, top + 1):
            begin, end = segment[layer, distance], segment[layer, distance + 1]
            for place in range(begin, end):
                position = network.reached[layer, place]
                # The excess of layer 1 has arrived at the sink (see `pour`).
                hopeful = hopeful or (layer > 1 and excess[layer, position] > NEGLIGIBLE)
            if begin < end and layer < top:
                _reach_above(network, layer, distance)
            if begin < end and layer > 1:
                _reach_below(network, layer, distance)
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
def _reach_above(network: Network, layer: int, distance: int) -> None:
    """Reach the nodes of the layer above that can send to one of this layer at this distance."""
    above = layer + 1
    missing, reached, residual = network.missing, network.reached, network.residual
    begin, end = network.segment[layer, distance], network.segment[layer, distance + 1]
    # Those that stay unreached move to the front of the same list: `lacking` never passes `entry`.
    lacking, found = 0, network.found[above]
    for entry in range(network.lacking[above]):
        query = missing[above, entry]
        # Most nodes have room on one of their first edges, so that this loop ends early.
        place = begin
        while place < end and residual[layer, query, reached[layer, place]] <= NEGLIGIBLE:
            place += 1
        if place < end:
            network.level[above, query] = distance + 1
            reached[above, found] = query
            found += 1
        else:
            missing[above, lacking] = query
            lacking += 1
    network.found[above], network.lacking[above] = found, lacking


@njit(cache=True, nogil=True)
def _reach_below(network: Network, layer: int, distance: int) -> None:
    """Reach the nodes of the layer below that can hand flow back to one of this layer."""
    below = layer - 1
    missing, parents, level = network.missing, network.parents, network.level
    residual, capacity = network.residual, network.capacity
    lacking, found = 0, network.found[below]
    for entry in range(network.lacking[below]):
        key = missing[below, entry]
        # The few edges that brought flow are looked through, instead of all nodes at this distance.
        # Some of them have handed their flow back since, hence the difference.
        sends_back = False
        for place in range(network.senders[below, key]):
            query = parents[below, key, place]
            if (
                level[layer, query] == distance
                and capacity[below, query, key] - residual[below, query, key] > NEGLIGIBLE
            ):
                sends_back = True
                break
        if sends_back:
            level[below, key] = distance + 1
            network.reached[below, found] = key
            found += 1
        else:
            missing[below, lacking] = key
            lacking += 1
    network.found[below], network.lacking[below] = found, lacking


@njit(cache=True, nogil=True)
def send_along(network: Network, top: int, low: int, high: int) -> float:
    """Send excess on along shortest residual paths until they are blocked; returns what arrived."""
    # Only nodes with a level are ever visited, so only their arcs are reset.
    for layer in range(1, top + 1):
        for place in range(network.found[layer]):
            network.arc[layer, network.reached[layer, place]] = 0
    arrived = 0.0
    for layer in range(2, top + 1):
        for position in range(low, high):
            if network.excess[layer, position] > NEGLIGIBLE and network.level[layer, position] > 0:
                amount = _send_from(network, top, layer, position)
                network.excess[layer, position] -= amount
                arrived += amount
    return arrived


@njit(cache=True, nogil=True)
def _send_from(network: Network, top: int, start_layer: int, start: int) -> float:
    """Depth first, each step one closer to the sink, down or back up; returns what arrived."""
    # An explicit stack, as a path may be as long as there are nodes. `offered` is what a node may
    # pass on, `sent` what arrived through it so far. Residuals change on the way back, by what
    # really arrived: nothing is ever undone.
    stack, offered, sent = network.stack, network.offered, network.sent
    level, arc, demand = network.level, network.arc, network.demand
    depth = 0
    stack[0, 0], stack[0, 1] = start_layer, start
    offered[0], sent[0] = network.excess[start_layer, start], 0.0
    while True:
        layer, position = stack[depth, 0], stack[depth, 1]
        remaining = offered[depth] - sent[depth]
        # Level 1 has demand left. Other nodes of layer 1 can only hand flow back upwards.
        if layer == 1 and level[1, position] == 1:
            sent[depth] = min(remaining, demand[position])
            demand[position] -= sent[depth]
            if demand[position] <= NEGLIGIBLE:
                level[1, position] = USED_UP
        elif remaining > NEGLIGIBLE:
            next_layer, next_position, room = _next_edge(network, top, layer, position)
            if room > 0.0:
                depth += 1
                stack[depth, 0], stack[depth, 1] = next_layer, next_position
                offered[depth], sent[depth] = min(remaining, room), 0.0
                continue
            # Its edges are exhausted: no later path of this phase needs to try it again.
            level[layer, position] = USED_UP
        if depth == 0:
            return float(sent[0])
        amount, complete = sent[depth], offered[depth] - sent[depth] <= NEGLIGIBLE
        depth -= 1
        parent_layer, parent = stack[depth, 0], stack[depth, 1]
        if amount > 0.0:
            sent[depth] += amount
            if layer < parent_layer:
                network.residual[layer, parent, position] -= amount
                note_edge(network, layer, parent, position)
            else:
                network.residual[parent_layer, position, parent] += amount
        # An edge that passed on all it was offered may pass on more, so the arc stays at it.
        if not complete:
            arc[parent_layer, parent] += 1


@njit(cache=True, nogil=True, inline="always")
def _next_edge(network: Network, top: int, layer: int, position: int) -> tuple[int, int, float]:
    """The next residual edge a step closer to the sink: (layer, position, room); room 0 is none.

    Edges down come first, then flow that can be handed back to those who sent it.
    """
    # The arc counts the nodes of the layer below at the closer distance, then the parents. Parents
    # that are added during the phase are farther from the sink, so none is skipped by mistake.
    closer = network.level[layer, position] - 1
    tried = network.arc[layer, position]
    down, room = 0, 0.0
    next_layer, other = 0, 0
    if layer > 1:
        begin = network.segment[layer - 1, closer]
        down = network.segment[layer - 1, closer + 1] - begin
        while tried < down:
            other = network.reached[layer - 1, begin + tried]
            left = network.residual[layer - 1, position, other]
            # The level is compared again, because the node may have been used up meanwhile.
            if left > NEGLIGIBLE and network.level[layer - 1, other] == closer:
                next_layer, room = layer - 1, left
                break
            tried += 1
    if room == 0.0 and layer < top:
        while tried < down + network.senders[layer, position]:
            other = network.parents[layer, position, tried - down]
            if network.level[layer + 1, other] == closer:
                sent = (
                    network.capacity[layer, other, position]
                    - network.residual[layer, other, position]
                )
                if sent > NEGLIGIBLE:
                    next_layer, room = layer + 1, sent
                    break
            tried += 1
    network.arc[layer, position] = tried
    return next_layer, other, room
