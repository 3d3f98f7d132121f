"""One pair in full: the flow on every edge, its routes, and a minimum cut that proves it."""

from __future__ import annotations

import numpy as np
from numba import njit

from attnflow.records import FloatArray
from attnflow.solvers.cpu.network import NEGLIGIBLE, IntArray, LongArray, Network, make_network
from attnflow.solvers.cpu.pairs import bound_reach, load, maximize, read_column
from attnflow.solvers.cpu.search import measure, send_along
from attnflow.solvers.interface import PairFlow, check_gaps


def solve_pair(weights: FloatArray, edges: FloatArray, source: int, sink: int) -> PairFlow:
    """The flow on every edge, its routes, and a minimum cut.

    ``weights`` are the capacities of the layers below the source's, ``edges`` those of the source.
    """
    depth, size = len(weights) + 1, len(edges)
    capacity = np.concatenate([weights, np.zeros((1, size, size))])
    capacity[-1, source] = edges
    flow = np.zeros_like(capacity)
    reaches = np.zeros((depth + 1, size), bool)  # the nodes on the sink's side of the cut
    reaches[0, sink] = True
    if depth == 1:
        flow[0, source, sink] = edges[sink]
    elif depth == 2:
        # One path per position, and each takes what its narrower edge allows; the cut takes that
        # edge, which is the upper one where the position is on the sink's side.
        flow[1, source] = flow[0, :, sink] = np.minimum(edges, weights[0, :, sink])
        reaches[1] = edges < weights[0, :, sink]
    else:
        network, top = make_network(capacity), depth - 1
        _maximize(network, edges, top, sink)
        # The network holds the top and the bottom layer of edges as excess and demand.
        flow[1:top] = (capacity - network.residuals.left.reshape(capacity.shape))[1:top]
        flow[0, :, sink] = capacity[0, :, sink] - network.demand
        flow[top, source] = edges - _take_back(flow, network.excess, top)
        reaches[1:depth] = network.level[1:depth] != 0
    cut = (capacity > 0) & ~reaches[1:, :, None] & reaches[:-1, None, :]
    # Rounding may leave differences slightly below zero.
    flow = np.maximum(flow, 0.0)
    value = float(flow[0, :, sink].sum())
    check_flow(flow, capacity, float(capacity[cut].sum()) - value)
    routes = tuple(zip(*decompose(flow, source, sink), strict=True))
    return PairFlow(value, flow, capacity, cut, routes)


def check_flow(flow: FloatArray, capacity: FloatArray, gap: float) -> None:
    """Refuse an invalid flow, or one that is not the maximum: ``gap`` is between it and its cut."""
    overfull = (flow - capacity).max(initial=0.0)
    # What arrives at the nodes between source and sink, and what leaves them.
    uneven = np.abs(flow[1:].sum(1) - flow[:-1].sum(2)).max(initial=0.0)
    check_gaps(np.array([gap, overfull, uneven]), capacity[-1].sum())


def _maximize(network: Network, edges: FloatArray, top: int, sink: int) -> None:
    """Leave a maximum flow in the network's residuals, and the cut in its levels."""
    size = len(edges)
    order: IntArray = np.argsort(-edges, kind="stable").astype(np.int32)
    read_column(network, sink, 0)
    bound_reach(network, 1, top, sink, 0)
    load(network, edges, top, 0, size)
    maximize(network, top, sink, order, 0, size)
    # A flow that met its bound was never measured: the cut needs levels, and a remainder within the
    # bound's tolerance is sent, so that cut and flow agree to the last digits.
    while measure(network, top, 0, size):
        send_along(network, top, 0, size)


def _take_back(flow: FloatArray, excess: FloatArray, top: int) -> FloatArray:
    """Send stuck excess back to where it came from; returns what the source does not send."""
    # From below: what one layer gives back gets stuck in the layer above. The excess of layer 1 has
    # arrived at the sink.
    stuck = excess.copy()
    for layer in range(2, top):
        for position in np.flatnonzero(stuck[layer] > 0):
            # Which of the incoming edges give back is free, as none of it arrived: the first ones.
            inflow = flow[layer, :, position]
            back = np.diff(np.minimum(np.cumsum(inflow), stuck[layer, position]), prepend=0.0)
            flow[layer, :, position] -= back
            stuck[layer + 1] += back
    unsent: FloatArray = stuck[top]
    return unsent


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
