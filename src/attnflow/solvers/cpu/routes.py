"""A flow decomposed into routes, the widest first."""

from __future__ import annotations

import numpy as np
from numba import njit

from attnflow.records import FloatArray
from attnflow.solvers.cpu.network import NEGLIGIBLE, IntArray, LongArray


def decompose(flow: FloatArray, source: int, sink: int) -> tuple[IntArray, FloatArray]:
    """Routes as positions, ``[route, layer]`` from the source down to the sink, and their amounts.

    ``flow`` is the flow on every edge, ``[layer, query, key]``, in balance at every inner node.
    """
    layers, queries, keys = (part.astype(np.int32) for part in np.nonzero(flow > NEGLIGIBLE))
    # From the top layer down, so that one pass over the edges finds the widest path to every node.
    falling = np.argsort(-layers, kind="stable")
    edges = np.stack([layers, queries, keys], axis=1)[falling]
    # Indexing by arrays copies: the amounts may be used up, and the caller's flow stays as it is.
    amounts = flow[edges[:, 0], edges[:, 1], edges[:, 2]]
    ends = np.array([source], np.int64), np.array([sink], np.int64)
    return peel(edges, amounts, flow.shape[:2], ends, len(edges), NEGLIGIBLE)


@njit(cache=True, nogil=True)
def peel(
    edges: IntArray,
    amounts: FloatArray,
    shape: tuple[int, int],
    ends: tuple[LongArray, LongArray],
    most: int,
    negligible: float,
) -> tuple[IntArray, FloatArray]:
    """Remove the widest route again and again; each empties an edge, so there are few.

    Args:
        edges: ``[edge, 3]``: layer (from 0), query and key, from the top layer down.
        amounts: What passes over each, which is used up.
        shape: How many layers and positions there are.
        ends: The positions where routes may start and end.
        most: How many routes to take off at most.
        negligible: The width below which what remains is rounding.
    """
    depth, size = shape
    sources, sinks = ends
    most = min(most, edges.shape[0])
    routes = np.zeros((most, depth + 1), np.int32)
    widths = np.zeros(most)
    count = 0
    width = np.zeros((depth + 1, size))
    best = np.zeros((depth + 1, size), np.int32)
    while count < most:
        # The width of the widest path from a source to every node, and the edge it comes by.
        width[:] = 0.0
        for source in sources:
            width[depth, source] = np.inf
        for edge in range(edges.shape[0]):
            layer, query, key = edges[edge]
            through = min(width[layer + 1, query], amounts[edge])
            if through > width[layer, key]:
                width[layer, key] = through
                best[layer, key] = edge
        position = sinks[0]
        for sink in sinks:
            if width[0, sink] > width[0, position]:
                position = sink
        widest = width[0, position]
        # What remains is rounding: nodes are in balance only up to that.
        if widest <= negligible:
            break
        # From the sink back up. The narrowest edge becomes exactly 0, as its amount is the width.
        for layer in range(depth):
            routes[count, depth - layer] = position
            edge = best[layer, position]
            amounts[edge] -= widest
            position = edges[edge, 1]
        routes[count, 0] = position
        widths[count] = widest
        count += 1
    return routes[:count], widths[:count]
