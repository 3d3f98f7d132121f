"""One pair in full: the flow on every edge and a minimum cut that proves it."""

from __future__ import annotations

import numpy as np

from attnflow.records import FloatArray
from attnflow.solvers.certificate import check_gaps
from attnflow.solvers.cpu.bounds import bound_reach, read_column
from attnflow.solvers.cpu.network import IntArray, Network, make_network
from attnflow.solvers.cpu.pairs import load, maximize
from attnflow.solvers.cpu.routes import decompose
from attnflow.solvers.cpu.search import measure, send_along
from attnflow.solvers.interface import PairFlow


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
    """Refuse what is no flow, or is not the maximum: ``gap`` is between it and its cut."""
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
