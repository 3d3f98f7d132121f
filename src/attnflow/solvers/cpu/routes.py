"""A flow decomposed into routes, the widest first."""

from __future__ import annotations

import numpy as np
from numba import njit

from attnflow.records import FloatArray
from attnflow.solvers.cpu.network import NEGLIGIBLE, IntArray


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
    return _peel(edges, amounts, flow.shape[0], flow.shape[1], source, sink)


@njit(cache=True, nogil=True)
def _peel(
    edges: IntArray, amounts: FloatArray, depth: int, size: int, source: int, sink: int
) -> tuple[IntArray, FloatArray]:
    """Remove the widest route again and again; each empties an edge, so there are few."""
    routes = np.zeros((edges.shape[0], depth + 1), np.int32)
    widths = np.zeros(edges.shape[0])
    count = 0
    width = np.zeros((depth + 1, size))
    best = np.zeros((depth + 1, size), np.int32)
    while count < edges.shape[0]:
        # The width of the widest path from the source to every node, and the edge it comes by.
        width[:] = 0.0
        width[depth, source] = np.inf
        for edge in range(edges.shape[0]):
            layer, query, key = edges[edge]
            through = min(width[layer + 1, query], amounts[edge])
            if through > width[layer, key]:
                width[layer, key] = through
                best[layer, key] = edge
        # What remains is rounding: nodes are in balance only up to that.
        if width[0, sink] <= NEGLIGIBLE:
            break
        # From the sink back up. The narrowest edge becomes exactly 0, as its amount is the width.
        position = sink
        for layer in range(depth):
            routes[count, depth - layer] = position
            edge = best[layer, position]
            amounts[edge] -= width[0, sink]
            position = edges[edge, 1]
        routes[count, 0] = source
        widths[count] = width[0, sink]
        count += 1
    return routes[:count], widths[:count]
