"""One maximum flow: a quick start, a search for what it missed, and the proof.

1. `_supply_directly`: what the sources send to a column meets what the column can send to the
   sinks. On real relevance this is most of the flow.
2. `_pull`: what is still wanted is pulled through other columns, along edges that lead down only.
   Where flow may wait without limit, a column is one step whatever number of layers it passes.
3. `_measure` and `_send`: Dinic's algorithm, from the sinks, with edges that hand flow back. On
   real relevance there is mostly nothing left to do, which one search shows that does not get far
   from the sinks: the nodes it reaches are the sinks' side of a minimum cut.
4. `_prove`: the flow is added up node by node, and the cut from capacities alone.

Amounts are subtracted from what they are the minimum of, so that edges become exactly full or
exactly empty, and nothing has to be smaller than some threshold to count as zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from attnflow.records.sparse import IntArray, LongArray
from attnflow.records.types import FloatArray
from attnflow.solvers.cpu.network import KERNEL, ByteArray
from attnflow.solvers.cpu.temporal.network import NONE, FlatNetwork

UNREACHED, SINK, DEAD = -1, -2, -3  # levels
LAST = -1  # in a list of edges; 0 is an edge that is in none
WANTING, REACHED, NEAREST = 0, 1, 2  # places in `State.counts`
ROUNDING = 1e-14  # of what waits in a column, beside the most that waits there


class State(NamedTuple):
    """What one solve writes; all of it is 0 between two sinks, but for what it sets first."""

    flow: FloatArray  # [edge]
    following: IntArray  # [edge]: the next edge with flow from the same tail, plus one
    first: IntArray  # [node]: the first of them, plus one
    supplied: FloatArray  # [node]: what the sources send
    demand: FloatArray  # [node]: the capacity of all edges to the sinks together
    delivered: FloatArray  # [node]: what goes over them
    balance: FloatArray  # [node]
    supplier: IntArray  # [node]: where in its column, from here up, supply is left
    open: IntArray  # [node]: where in its column, from here up, edges are left to try
    cursor: LongArray  # [node]: the next edge to try
    back: IntArray  # [node]: the next edge to hand flow back over, plus one
    level: IntArray  # [node]: distance to the sinks
    queue: IntArray  # [node]: in the order in which they were reached
    path: LongArray  # [step]: an edge, or ~edge where flow is handed back
    counts: LongArray  # of the last search: nodes that want more, all it reached, the distance


class ProvenFlow(NamedTuple):
    """One maximum flow and its proof."""

    value: float
    cut: float  # the capacity of a cut
    unbalanced: float  # what does not add up at nodes, and what exceeds capacities


def make_state(network: FlatNetwork) -> State:
    """Buffers for one thread. Pages that are never written take no memory."""
    nodes, edges = len(network.supply), len(network.tails)
    return State(
        flow=np.zeros(edges),
        following=np.zeros(edges, np.int32),
        first=np.zeros(nodes, np.int32),
        supplied=np.zeros(nodes),
        demand=np.zeros(nodes),
        delivered=np.zeros(nodes),
        balance=np.zeros(nodes),
        supplier=np.zeros(nodes, np.int32),
        open=np.zeros(nodes, np.int32),
        cursor=np.zeros(nodes, np.int64),
        back=np.zeros(nodes, np.int32),
        level=np.zeros(nodes, np.int32),
        queue=np.zeros(nodes, np.int32),
        path=np.zeros(nodes + 1, np.int64),
        counts=np.zeros(3, np.int64),
    )


@njit(**KERNEL)
def maximize(network: FlatNetwork, state: State, sinks: IntArray, stop: ByteArray) -> ProvenFlow:
    """Leave a maximum flow to the nodes ``sinks`` in the state, and a minimum cut in its levels.

    Returns early where ``stop`` is set; the flow is then not the maximum.
    """
    direct = _open_sinks(network, state, sinks)
    if direct < np.inf:
        _supply_directly(network, state)
        _pull(network, state)
        _let_wait(network, state)
        distance = -1
        # The distance grows with every search; if it did not, the proof would fail.
        while not stop[0] and _measure(network, state) and state.counts[NEAREST] > distance:
            distance = state.counts[NEAREST]
            _send(network, state)
    found: ProvenFlow = _prove(network, state, direct)
    return found


@njit(**KERNEL)
def _open_sinks(network: FlatNetwork, state: State, sinks: IntArray) -> float:
    """Set the demand of every node, and what is searched; returns what goes from end to end."""
    level, demand, starts, above = state.level, state.demand, network.starts, network.above
    for node in range(len(level)):
        level[node] = UNREACHED
        supplied = network.supply[node] > 0
        state.supplier[node] = node if supplied else above[node]
        # The first edge leads up the column, which needs no step where flow may wait.
        state.cursor[node] = starts[node] + (above[node] != NONE)
        state.open[node] = node if state.cursor[node] < starts[node + 1] else above[node]
    for node in sinks:
        level[node] = SINK
        state.supplier[node] = state.open[node] = NONE
    direct = 0.0
    for node in sinks:
        direct += network.supply[node]
        for edge in range(starts[node], starts[node + 1]):
            if level[network.tails[edge]] != SINK:
                demand[network.tails[edge]] += network.capacity[edge]
    return direct


@njit(**KERNEL, inline="always")
def _find(towards: IntArray, node: int) -> int:
    """Follow a column up to the first node that leads to itself; −1 where there is none."""
    while node != NONE and towards[node] != node:
        # Halving the way makes later walks short.
        if towards[node] != NONE:
            towards[node] = towards[towards[node]]
        node = towards[node]
    return node


@njit(**KERNEL, inline="always")
def _add(amounts: FloatArray, limits: FloatArray, at: int, amount: float) -> bool:
    """Add to an amount; returns whether it reached its limit, and then exactly so."""
    if amount >= limits[at] - amounts[at]:
        amounts[at] = limits[at]
        return True
    amounts[at] += amount
    return False


@njit(**KERNEL, inline="always")
def _list(network: FlatNetwork, state: State, edge: int) -> None:
    """List an edge with flow at its tail, where a search may hand flow back."""
    if state.following[edge] == 0:
        first = state.first[network.tails[edge]]
        state.following[edge] = first if first else LAST
        state.first[network.tails[edge]] = edge + 1


@njit(**KERNEL)
def _supply_directly(network: FlatNetwork, state: State) -> None:
    """Let what the sources send to a column go on from there to the sinks."""
    # From the top, each demand from the nearest supply above it: what is left over are the
    # supplies that can wait longest and the demands that can be met latest.
    demand, delivered, balance = state.demand, state.delivered, state.balance
    for node in range(len(demand) - 1, -1, -1):
        while delivered[node] < demand[node]:
            supplier = _find(state.supplier, node)
            if supplier == NONE:
                break
            left = network.supply[supplier] - state.supplied[supplier]
            amount = min(left, demand[node] - delivered[node])
            if _add(state.supplied, network.supply, supplier, amount):
                state.supplier[supplier] = network.above[supplier]
            _add(delivered, demand, node, amount)
            if supplier != node:
                balance[supplier] += amount
                balance[node] -= amount


@njit(**KERNEL)
def _pull(network: FlatNetwork, state: State) -> None:
    """Pull what is still wanted down through other columns, depth first."""
    # No edge hands flow back here, so that what was tried in vain once need not be tried again.
    starts, tails, heads = network.starts, network.tails, network.heads
    capacity, flow, cursor, path = network.capacity, state.flow, state.cursor, state.path
    supply, supplied, balance = network.supply, state.supplied, state.balance
    demand, delivered = state.demand, state.delivered
    for root in range(len(demand) - 1, -1, -1):
        depth, entry = 0, root
        while delivered[root] < demand[root]:
            node = _find(state.open, entry)
            if node == NONE:
                if depth == 0:
                    break
                depth -= 1
                cursor[heads[path[depth]]] += 1
                entry = tails[path[depth - 1]] if depth else root
                continue
            edge = cursor[node]
            while edge < starts[node + 1]:
                if flow[edge] < capacity[edge]:
                    tail = tails[edge]
                    supplier = _find(state.supplier, tail)
                    if supplier != NONE or _find(state.open, tail) != NONE:
                        break
                edge += 1
            cursor[node] = edge
            if edge == starts[node + 1]:
                state.open[node] = network.above[node]
                continue
            path[depth] = edge
            depth, entry = depth + 1, tail
            if supplier == NONE:
                continue
            amount = min(demand[root] - delivered[root], supply[supplier] - supplied[supplier])
            for step in range(depth):
                amount = min(amount, capacity[path[step]] - flow[path[step]])
            if _add(supplied, supply, supplier, amount):
                state.supplier[supplier] = network.above[supplier]
            _add(delivered, demand, root, amount)
            upper, full = supplier, depth
            for step in range(depth - 1, -1, -1):
                if tails[path[step]] != upper:  # it waits between the two
                    balance[upper] += amount
                    balance[tails[path[step]]] -= amount
                if _add(flow, capacity, path[step], amount):
                    full = step
                _list(network, state, path[step])
                upper = heads[path[step]]
            if root != upper:
                balance[upper] += amount
                balance[root] -= amount
            if full < depth:  # go on below the lowest edge that is full now
                depth = full
                entry = tails[path[depth - 1]] if depth else root


@njit(**KERNEL)
def _let_wait(network: FlatNetwork, state: State) -> None:
    """Write what waits in columns onto their edges; until here it is noted at both ends only."""
    balance, starts = state.balance, network.starts
    for node in range(len(balance) - 1, -1, -1):
        upper = network.above[node]
        if upper != NONE and balance[upper] > 0.0:
            state.flow[starts[node]] = balance[upper]
            _list(network, state, starts[node])
            balance[node] += balance[upper]
            if balance[node] < ROUNDING * balance[upper]:  # all of it left the column here
                balance[node] = 0.0
    balance[:] = 0.0


@njit(**KERNEL)
def _measure(network: FlatNetwork, state: State) -> bool:
    """Set levels, breadth first from the sinks; returns whether a source is reached.

    If none is, the nodes with a level are the sinks' side of a minimum cut, the one nearest them.
    """
    tails, heads, capacity, flow = network.tails, network.heads, network.capacity, state.flow
    level, queue = state.level, state.queue
    begin, end, nearest = 0, 0, len(level)
    for node in range(len(level)):
        if level[node] != SINK:
            level[node] = UNREACHED
            if state.delivered[node] < state.demand[node]:
                level[node] = 0
                queue[end] = node
                end += 1
    state.counts[WANTING] = end
    while begin < end:
        node = queue[begin]
        begin += 1
        if level[node] >= nearest:  # nothing behind the nearest supply is on a shortest path
            continue
        if state.supplied[node] < network.supply[node]:
            nearest = level[node]
            continue
        for edge in range(network.starts[node], network.starts[node + 1]):
            if level[tails[edge]] == UNREACHED and flow[edge] < capacity[edge]:
                level[tails[edge]] = level[node] + 1
                queue[end] = tails[edge]
                end += 1
        edge = state.first[node] - 1
        while edge >= 0:
            if level[heads[edge]] == UNREACHED and flow[edge] > 0.0:
                level[heads[edge]] = level[node] + 1
                queue[end] = heads[edge]
                end += 1
            edge = state.following[edge] - 1
    state.counts[REACHED] = end
    state.counts[NEAREST] = nearest
    return nearest < len(level)


@njit(**KERNEL)
def _send(network: FlatNetwork, state: State) -> None:
    """Send along shortest paths until each is blocked."""
    starts, tails, heads = network.starts, network.tails, network.heads
    capacity, flow, path = network.capacity, state.flow, state.path
    supply, supplied = network.supply, state.supplied
    demand, delivered = state.demand, state.delivered
    level, cursor, back, nearest = state.level, state.cursor, state.back, state.counts[NEAREST]
    for node in range(len(level)):
        cursor[node], back[node] = starts[node], state.first[node]
    for number in range(state.counts[WANTING]):
        root = state.queue[number]
        node, depth = root, 0
        while delivered[root] < demand[root]:
            if level[node] == nearest and supplied[node] < supply[node]:
                amount = min(demand[root] - delivered[root], supply[node] - supplied[node])
                for step in range(depth):
                    edge = path[step]
                    amount = min(amount, capacity[edge] - flow[edge] if edge >= 0 else flow[~edge])
                _add(supplied, supply, node, amount)
                _add(delivered, demand, root, amount)
                blocked = depth
                for step in range(depth - 1, -1, -1):
                    edge = path[step]
                    if edge >= 0:
                        full = _add(flow, capacity, edge, amount)
                        _list(network, state, edge)
                    else:
                        full = amount >= flow[~edge]
                        flow[~edge] = 0.0 if full else flow[~edge] - amount
                    if full:
                        blocked = step
                if blocked < depth:
                    depth = blocked
                    node = heads[path[depth]] if path[depth] >= 0 else tails[~path[depth]]
                continue
            further, moved = level[node] + 1, False
            if further <= nearest:
                while cursor[node] < starts[node + 1]:
                    edge = cursor[node]
                    if level[tails[edge]] == further and flow[edge] < capacity[edge]:
                        path[depth] = edge
                        node, moved = tails[edge], True
                        break
                    cursor[node] += 1
                while not moved and back[node] > 0:
                    edge = back[node] - 1
                    if level[heads[edge]] == further and flow[edge] > 0.0:
                        path[depth] = ~edge
                        node, moved = heads[edge], True
                        break
                    back[node] = state.following[edge]
            if moved:
                depth += 1
                continue
            level[node] = DEAD
            if depth == 0:
                break
            depth -= 1
            node = heads[path[depth]] if path[depth] >= 0 else tails[~path[depth]]


@njit(**KERNEL)
def _prove(network: FlatNetwork, state: State, direct: float) -> ProvenFlow:
    """Add up the flow at every node, and the cut from capacities alone."""
    tails, heads, capacity, flow = network.tails, network.heads, network.capacity, state.flow
    level, balance = state.level, state.balance
    value, cut, unbalanced = direct, direct, 0.0
    for node in range(len(level)):
        value += state.delivered[node]
        balance[node] += state.supplied[node] - state.delivered[node]
        unbalanced += max(0.0, state.supplied[node] - network.supply[node])
        unbalanced += max(0.0, state.delivered[node] - state.demand[node])
        edge = state.first[node] - 1
        while edge >= 0:
            balance[node] -= flow[edge]
            balance[heads[edge]] += flow[edge]
            unbalanced += max(0.0, -flow[edge]) + max(0.0, flow[edge] - capacity[edge])
            edge = state.following[edge] - 1
        if level[node] == UNREACHED:
            cut += state.demand[node]
        elif level[node] != SINK:
            cut += network.supply[node]
            for edge in range(network.starts[node], network.starts[node + 1]):
                if level[tails[edge]] == UNREACHED:
                    cut += capacity[edge]
    for node in range(len(level)):
        unbalanced += abs(balance[node])
        balance[node] = 0.0
    return ProvenFlow(value, cut, unbalanced)


@njit(**KERNEL)
def clear(state: State) -> None:
    """Take all flow and all demands off."""
    for node in range(len(state.first)):
        edge = state.first[node] - 1
        while edge >= 0:
            after = state.following[edge] - 1
            state.flow[edge], state.following[edge] = 0.0, 0
            edge = after
        state.first[node] = 0
    state.supplied[:] = 0.0
    state.demand[:] = 0.0
    state.delivered[:] = 0.0
