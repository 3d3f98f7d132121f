"""Maximum flows in a graph of any shape, by Dinic's algorithm: exact, with a cut as the proof.

The layered solver is far faster on layered graphs; this one is for graphs with edges that lead back
up, such as those from a token of an answer to the position that predicted it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from attnflow.records.types import FloatArray

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
NOTHING = 1e-14  # a capacity that rounding leaves behind
ENDLESS = 4.0  # more than any source of capacity 1 can send
ARC_BYTES = 2 * (8 + 8 + 4 + 4)  # of an edge and its way back: capacities, head, twin


class Arcs(NamedTuple):
    """A graph by the arcs of each node: ``start[v]`` to ``start[v + 1]``.

    Attributes:
        start: Where the arcs of each node begin.
        head: Where each arc leads.
        twin: The arc of the opposite direction.
        capacity: 0 for the way back.
    """

    start: LongArray
    head: IntArray
    twin: IntArray
    capacity: FloatArray


@njit(cache=True, nogil=True)
def make_arcs(tails: IntArray, heads: IntArray, capacities: FloatArray, nodes: int) -> Arcs:
    """The graph of some edges."""
    count = len(tails)
    start = np.zeros(nodes + 1, np.int64)
    for edge in range(count):
        start[tails[edge] + 1] += 1
        start[heads[edge] + 1] += 1
    for node in range(nodes):
        start[node + 1] += start[node]
    free = start[:-1].copy()
    head = np.empty(2 * count, np.int32)
    twin = np.empty(2 * count, np.int32)
    capacity = np.zeros(2 * count)
    for edge in range(count):
        there, back = free[tails[edge]], free[heads[edge]]
        if tails[edge] == heads[edge]:
            back += 1
        free[tails[edge]] += 1
        free[heads[edge]] += 1
        head[there], head[back] = heads[edge], tails[edge]
        twin[there], twin[back] = back, there
        capacity[there] = capacities[edge]
    return Arcs(start, head, twin, capacity)


@njit(cache=True, nogil=True)
def _levels(arcs: Arcs, left: FloatArray, source: int, level: IntArray, queue: IntArray) -> None:
    """The distance of every node from the source in the residual graph; −1 if unreachable."""
    level[:] = -1
    level[source] = 0
    queue[0] = source
    first, last = 0, 1
    while first < last:
        node = queue[first]
        first += 1
        for arc in range(arcs.start[node], arcs.start[node + 1]):
            to = arcs.head[arc]
            if left[arc] > NOTHING and level[to] < 0:
                level[to] = level[node] + 1
                queue[last] = to
                last += 1


@njit(cache=True, nogil=True)
def max_flow(arcs: Arcs, left: FloatArray, source: int, sink: int) -> tuple[float, float]:
    """The maximum flow and the capacity of a minimum cut; ``left`` becomes what is left."""
    nodes = len(arcs.start) - 1
    level = np.empty(nodes, np.int32)
    queue = np.empty(nodes, np.int32)
    path = np.empty(nodes, np.int64)
    before = left.copy()
    value = 0.0
    while True:
        _levels(arcs, left, source, level, queue)
        if level[sink] < 0:
            break
        arc_of = arcs.start[:-1].copy()  # the next arc to try; none is tried twice in a phase
        node, depth = source, 0
        while True:
            if node == sink:
                amount = np.inf
                for step in range(depth):
                    amount = min(amount, left[path[step]])
                narrow = depth
                for step in range(depth - 1, -1, -1):
                    arc = path[step]
                    left[arc] -= amount
                    left[arcs.twin[arc]] += amount
                    if left[arc] <= NOTHING:
                        narrow = step
                value += amount
                depth = narrow
                node = arcs.head[arcs.twin[path[narrow]]]
                continue
            moved = False
            while arc_of[node] < arcs.start[node + 1]:
                arc = arc_of[node]
                to = arcs.head[arc]
                if left[arc] > NOTHING and level[to] == level[node] + 1:
                    path[depth] = arc
                    depth += 1
                    node = to
                    moved = True
                    break
                arc_of[node] += 1
            if moved:
                continue
            if depth == 0:
                break
            depth -= 1
            node = arcs.head[arcs.twin[path[depth]]]
            arc_of[node] += 1
    cut = 0.0
    for node in range(nodes):
        if level[node] >= 0:
            for arc in range(arcs.start[node], arcs.start[node + 1]):
                if level[arcs.head[arc]] < 0:
                    cut += before[arc]
    return value, cut
