"""Later phases: distances to the sink in the residual network, and blocking flows along them.

Sets of positions are bits, so that one instruction looks at 64 edges. The network is dense: most
nodes are reached by the first word that a search looks at.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from attnflow.solvers.cpu.network import (
    KERNEL,
    NEGLIGIBLE,
    ONE,
    SIX,
    SIXTY_THREE,
    WORD,
    Bits,
    Network,
    change,
    common,
    drop,
    holds,
    is_full,
    left_of,
    log_edge,
    lowest,
    mark_edges,
    put,
)


@njit(**KERNEL)
def measure(network: Network, top: int, low: int, high: int) -> bool:
    """Set ``level`` to the distance to the sink; returns whether any excess can still get there.

    Breadth first from the sink, backwards, a distance at a time. If no excess can get there, the
    nodes with a level and those without are the two sides of a minimum cut.
    """
    if not network.marked[0]:
        mark_edges(network, top)
    used = _start(network, top, low, high)
    fronts = network.fronts
    # It does not stop at the first excess: `send_along` needs the levels of all nodes, and the cut
    # needs to know everything that can be reached.
    hopeful, grown = False, True
    distance = 0
    while grown:
        distance += 1
        for layer in range(1, top + 1):
            fronts[layer, distance + 1] = 0
        grown = False
        for layer in range(1, top + 1):
            if fronts[layer, distance] == 0:
                continue
            grown = True
            if layer < top:
                used, new = _reach(network, layer + 1, layer, distance, used)
                hopeful |= new
            if layer > 1:
                used, new = _reach(network, layer - 1, layer, distance, used)
                hopeful |= new
    return hopeful


@njit(**KERNEL)
def _start(network: Network, top: int, low: int, high: int) -> int:
    """Only positions of layer 1 that have demand are reached; returns the number of fronts."""
    level, missing, demand = network.level, network.missing, network.demand
    front, fronts = network.front, network.fronts
    for layer in range(1, top + 1):
        fronts[layer, 1] = 0
        for position in range(low, high):
            level[layer, position] = 0
    fronts[1, 1] = 1
    for word in range(missing.shape[1]):
        every, wanting = np.uint64(0), np.uint64(0)
        for position in range(max(low, word * WORD), min(high, word * WORD + WORD)):
            bit = ONE << np.uint64(position & 63)
            wants = demand[position] > NEGLIGIBLE
            level[1, position] = wants
            every |= bit
            wanting |= bit if wants else np.uint64(0)
        front[1, word] = wanting
        missing[1, word] = every ^ wanting
        for layer in range(2, top + 1):
            missing[layer, word] = every
    return 1


@njit(**KERNEL)
def _reach(
    network: Network, layer: int, next_to: int, distance: int, used: int
) -> tuple[int, bool]:
    """Reach the missing nodes of a layer with edges into the front of the layer next to it.

    Returns the number of fronts, and whether a node with excess was reached.
    """
    # From above, an edge leads into the front if it has capacity left; from below, if it carries
    # flow, which can be handed back.
    edges = network.free if layer > next_to else network.carrying
    step = min(layer, next_to)
    missing, excess, level = network.missing, network.excess, network.level
    front, fronts = network.front, network.fronts
    number, words = fronts[next_to, distance], missing.shape[1]
    hopeful = False
    for word in range(words):
        left, new = missing[layer, word], np.uint64(0)
        while left:
            position = (np.uint64(word) << SIX) | lowest(left)
            bit = left & (~left + ONE)
            left ^= bit
            both = np.uint64(0)
            for part in range(words):
                both = edges[step, position, part] & front[number, part]
                if both:
                    break
            if both:
                new |= bit
                level[layer, position] = distance + 1
                # The excess of layer 1 has arrived at the sink (see `pour`).
                hopeful |= layer > 1 and excess[layer, position] > NEGLIGIBLE
        if new:
            missing[layer, word] ^= new
            if fronts[layer, distance + 1] == 0:
                used += 1
                fronts[layer, distance + 1] = used
                for part in range(words):
                    front[used, part] = 0
            front[fronts[layer, distance + 1], word] |= new
    return used, hopeful


@njit(**KERNEL)
def send_along(network: Network, top: int, low: int, high: int) -> float:
    """Send excess on along shortest residual paths until they are blocked; returns what arrived."""
    excess, level = network.excess, network.level
    arrived = 0.0
    for layer in range(2, top + 1):
        for position in range(low, high):
            if excess[layer, position] > NEGLIGIBLE and level[layer, position] > 0:
                amount = _send_from(network, top, layer, position)
                excess[layer, position] -= amount
                arrived += amount
    return arrived


@njit(**KERNEL)
def _send_from(network: Network, top: int, start_layer: int, start: int) -> float:
    """Depth first, each step one closer to the sink, down or back up; returns what arrived."""
    # An explicit stack, as a path may be as long as there are nodes. `offered` is what a node may
    # pass on, `sent` what arrived through it so far. Residuals change on the way back, by what
    # really arrived: nothing is ever undone.
    #
    # Every edge that a set of bits offers leads on: edges leave their set when they are full, nodes
    # leave their front when they are used up. So none is tried in vain twice in a phase.
    stack, offered, sent = network.stack, network.offered, network.sent
    capacity, residuals, demand = network.capacity, network.residuals, network.demand
    free, carrying, front, fronts = network.free, network.carrying, network.front, network.fronts
    log, logged = network.log, network.logged
    depth, closer = 0, network.level[start_layer, start] - 1
    stack[0, 0], stack[0, 1] = start_layer, start
    offered[0], sent[0] = network.excess[start_layer, start], 0.0
    while depth >= 0:
        layer, position = stack[depth, 0], stack[depth, 1]
        remaining = offered[depth] - sent[depth]
        other = -1
        if closer == 1:
            # The last step of all paths, from layer 2 to positions with demand, needs no stack.
            while remaining > NEGLIGIBLE and not is_full(residuals):
                other = common(free, 1, position, front, 1)
                if other < 0:
                    break
                room = left_of(residuals, capacity, 1, position, other)
                amount = min(remaining, min(room, demand[other]))
                sent[depth] += amount
                remaining = offered[depth] - sent[depth]
                demand[other] -= amount
                if demand[other] <= NEGLIGIBLE:
                    _use_up(front, 1, other)
                if change(residuals, capacity, 1, position, other, -amount) <= NEGLIGIBLE:
                    drop(free, 1, position, other)
                if not holds(carrying, 1, other, position):
                    put(carrying, 1, other, position)
                    log_edge(log, logged, 1, position, other)
        elif remaining > NEGLIGIBLE and not is_full(residuals):
            next_layer, room = layer - 1, 0.0
            number = fronts[layer - 1, closer] if layer > 1 else 0
            if number:
                other = common(free, layer - 1, position, front, number)
                if other >= 0:
                    room = left_of(residuals, capacity, layer - 1, position, other)
            number = fronts[layer + 1, closer] if other < 0 and layer < top else 0
            if number:
                other = common(carrying, layer, position, front, number)
                if other >= 0:
                    next_layer = layer + 1
                    room = capacity[layer, other, position]
                    room -= left_of(residuals, capacity, layer, other, position)
                    if room <= NEGLIGIBLE:  # next to nothing was poured
                        drop(carrying, layer, position, other)
                        continue
            if other >= 0:
                depth += 1
                closer -= 1
                stack[depth, 0], stack[depth, 1] = next_layer, other
                offered[depth], sent[depth] = min(remaining, room), 0.0
                continue
        if remaining > NEGLIGIBLE:
            # Its edges are exhausted: no later path of this phase needs to try it again.
            _use_up(front, fronts[layer, closer + 1], position)
        amount = sent[depth]
        depth -= 1
        closer += 1
        above, parent = stack[depth, 0], stack[depth, 1]
        if depth >= 0 and amount > 0.0:
            sent[depth] += amount
            if layer < above:
                left = change(residuals, capacity, layer, parent, position, -amount)
                if left <= NEGLIGIBLE:
                    drop(free, layer, parent, position)
                if not holds(carrying, layer, position, parent):
                    put(carrying, layer, position, parent)
                    log_edge(log, logged, layer, parent, position)
            else:
                left = change(residuals, capacity, above, position, parent, amount)
                if left > NEGLIGIBLE:
                    put(free, above, position, parent)
                if capacity[above, position, parent] - left <= NEGLIGIBLE:
                    drop(carrying, above, parent, position)
    return float(sent[0])


@njit(**KERNEL, inline="always")
def _use_up(front: Bits, number: int, position: int) -> None:
    """Take a node out of its front: it can pass on nothing more in this phase."""
    at = np.uint64(position)
    front[number, at >> SIX] &= ~(ONE << (at & SIXTY_THREE))
