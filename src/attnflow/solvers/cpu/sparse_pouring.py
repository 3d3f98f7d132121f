"""The first flow through sparse layers, poured down once, and the bound that it most often meets.

The rules are those of the dense solver (`attnflow.solvers.cpu.pouring` and `bounds`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from attnflow.records.sparse import IntArray, LongArray
from attnflow.records.types import FloatArray

BoolArray = npt.NDArray[np.bool_]
NEGLIGIBLE = 1e-15  # a capacity that rounding leaves behind
UNLISTED, NONE = -2, -1


class Poured(NamedTuple):
    """Edges with the flow on them; nodes are layer · size + position."""

    starts: LongArray  # [node + 1], where the edges of a node begin; those of layer 0 have none
    heads: IntArray  # [edge], the node that it leads to
    tails: IntArray  # [edge], the node that it comes from
    capacity: FloatArray  # [edge]
    flow: FloatArray  # [edge]
    following: IntArray  # [edge], the next that carries flow to the same node
    first: IntArray  # [node], the first edge that carries flow to it
    reach: FloatArray  # [node], a bound on what it can send to the sinks
    share: FloatArray  # [node], what it can send without crossing other columns
    excess: FloatArray  # [node], flow that arrived and was not sent on
    room: FloatArray  # [position], what a position of the layer being filled still takes


@njit(cache=True, nogil=True, inline="always")
def list_edge(edges: Poured, edge: int) -> None:
    """Note that an edge carries flow."""
    if edges.following[edge] == UNLISTED:
        edges.following[edge] = edges.first[edges.heads[edge]]
        edges.first[edges.heads[edge]] = edge


@njit(cache=True, nogil=True)
def bound_reach(edges: Poured, top: int, sinks: BoolArray, column: int) -> None:
    """Fill ``reach`` and ``share`` for layers 1 … top; ``column`` is the first of the sinks."""
    size, whole = len(sinks), 0.0
    reach, share = edges.reach, edges.share
    for node in range(size, 2 * size):
        total = 0.0
        for edge in range(edges.starts[node], edges.starts[node + 1]):
            if sinks[edges.heads[edge]]:
                total += edges.capacity[edge]
        reach[node] = share[node] = total
        whole += total
    for node in range(2 * size, (top + 1) * size):
        total, side = 0.0, 0.0
        above = (node // size - 1) * size + column  # the sinks' column, a layer below
        for edge in range(edges.starts[node], edges.starts[node + 1]):
            to = edges.heads[edge]
            total += min(edges.capacity[edge], reach[to])
            if to == above and node != above + size:
                side = edges.capacity[edge]
        reach[node] = min(whole, total)
        share[node] = min(reach[node], share[node - size] + side)


@njit(cache=True, nogil=True)
def pour(edges: Poured, source: int, sinks: BoolArray, order: IntArray) -> tuple[float, float]:
    """Send what the source has down; returns what arrived at the sinks, and a bound on it."""
    size, excess, reach = len(sinks), edges.excess, edges.reach
    top = source // size - 1
    excess[size : (top + 1) * size] = 0.0
    direct, bound, whole = 0.0, 0.0, 0.0
    for edge in range(edges.starts[source], edges.starts[source + 1]):
        to, amount = edges.heads[edge], edges.capacity[edge]
        if top == 0:
            direct += amount if sinks[to] else 0.0
            continue
        edges.flow[edge] = excess[to] = amount
        list_edge(edges, edge)
        bound += min(amount, reach[to])
    if top == 0:
        return direct, direct
    for node in range(size, 2 * size):
        whole += reach[node]
    for layer in range(top, 1, -1):
        _pour_layer(edges, layer, size, order)
    arrived = 0.0
    for node in range(size, 2 * size):
        for edge in range(edges.starts[node], edges.starts[node + 1]):
            if excess[node] > NEGLIGIBLE and sinks[edges.heads[edge]]:
                amount = min(excess[node], edges.capacity[edge])
                edges.flow[edge] = amount
                list_edge(edges, edge)
                excess[node] -= amount
                arrived += amount
    return arrived, min(bound, whole)


@njit(cache=True, nogil=True)
def _pour_layer(edges: Poured, layer: int, size: int, order: IntArray) -> None:
    """From one layer to the next: first what all columns can pass on at once, then all they can."""
    below = (layer - 1) * size
    for generous in range(2):
        limit = edges.reach if generous else edges.share
        for position in range(size):
            edges.room[position] = limit[below + position] - edges.excess[below + position]
        for place in range(size):
            node = layer * size + order[place]
            left = edges.excess[node]
            if left <= NEGLIGIBLE:
                continue
            begin, end = edges.starts[node], edges.starts[node + 1]
            # The own column is the widest edge; it is tried first, and again with the others.
            own = begin + np.searchsorted(edges.heads[begin:end], node - size)
            for entry in range(begin - 1, end):
                edge = own if entry < begin else entry
                if edge == end or left <= NEGLIGIBLE:
                    continue
                to = edges.heads[edge] - below
                if entry < begin and to != order[place]:
                    continue
                room = min(edges.capacity[edge] - edges.flow[edge], edges.room[to])
                amount = min(left, room)
                if amount > NEGLIGIBLE:
                    edges.flow[edge] += amount
                    edges.excess[below + to] += amount
                    edges.room[to] -= amount
                    list_edge(edges, edge)
                    left -= amount
            edges.excess[node] = left
        if layer == 2:
            break  # the share of layer 1 is its reach


@njit(cache=True, nogil=True)
def take_back(edges: Poured, source: int, size: int) -> None:
    """Send what got stuck back to where it came from, from below, so that a flow is left."""
    for node in range(size, (source // size) * size):
        stuck = edges.excess[node]
        edge = edges.first[node]
        while stuck > 0.0 and edge >= 0:
            amount = min(stuck, edges.flow[edge])
            edges.flow[edge] -= amount
            stuck -= amount
            if edges.tails[edge] != source:
                edges.excess[edges.tails[edge]] += amount
            edge = edges.following[edge]
