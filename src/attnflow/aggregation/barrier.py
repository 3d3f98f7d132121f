"""Barrier flow: one flow of all that a position has to all tokens at once, far from every limit.

A maximum flow goes to one token; flows to all tokens at once share the network, and there are many.
The barrier flow is the unique one that maximises Σ over edges of log f + log (c − f), the choice of
Generalized Attention Flow (Azarkhalili & Libbrecht 2025): it sums to 1 and has no ties. Newton's
method starts at the rollout flow, which is strictly inside all limits; each step solves a
block-tridiagonal system, one block per layer.
"""

from __future__ import annotations

import numpy as np

from attnflow.aggregation.aggregator import Aggregator, Scores
from attnflow.aggregation.rollout import carried
from attnflow.errors import InputError
from attnflow.records import FloatArray, FlowTrace, LayeredGraph, Pair, Selection
from attnflow.records.arrays import to_numpy
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import BoolArray

MOST_STEPS = 200
DECREMENT = 1e-10  # Newton's decrement at which a flow is taken for the optimum
TINY = 1e-150  # capacities and flows below this carry nothing
EPSILON = float(np.finfo(np.float64).eps)
NOISE = 1e-6  # a decrement below this that does not halve any more is rounding
NEARLY = 0.1
INSIDE = 0.99  # of the way to the nearest limit


def score(graph: LayeredGraph, selection: Selection, _: Execution) -> Scores:
    """The flow from every selected position to all tokens of ``to_layer``."""
    _check_sides(graph)
    if graph.weights.ndim == 4:
        heads = graph.heads
        items = [
            score(
                LayeredGraph(graph.weights[:, item], None if heads is None else heads[:, item]),
                selection,
                _,
            )
            for item in range(graph.weights.shape[1])
        ]
        worst = max(float(item.statistics["largest_decrement"]) for item in items)
        values = np.stack([item.values for item in items], 1)
        return Scores(values, {"largest_decrement": worst})
    weights = to_numpy(graph.weights)[selection.to_layer :]
    edges = to_numpy(graph.weights)[:, None] if graph.heads is None else to_numpy(graph.heads)
    values = np.zeros((len(selection.layers), edges.shape[1], len(selection.queries), graph.size))
    worst = 0.0
    for at, layer in enumerate(selection.layers):
        for head in range(edges.shape[1]):
            for place, query in enumerate(selection.queries):
                supply = edges[layer - 1, head, query]
                flows, decrement = solve(weights[: layer - selection.to_layer - 1], supply)
                values[at, head, place] = flows[0].sum(0) if len(flows) else supply
                worst = max(worst, decrement)
    if selection.groups is not None:
        groups = [selection.groups[key] for key in selection.keys]
        values = np.stack([values[..., list(group)].sum(-1) for group in groups], -1)
    else:
        values = values[..., list(selection.keys)]
    return Scores(values[:, 0] if graph.heads is None else values, {"largest_decrement": worst})


def _check_sides(graph: LayeredGraph) -> None:
    """Refuse graphs in which positions are carried along, by edges that would count as limits."""
    if graph.source is not None:
        msg = (
            "method='barrier' is not defined for encoder–decoders: the barrier would count the "
            "edges that carry the other side along. Use method='rollout' or 'flow'"
        )
        raise InputError(msg)


def solve(capacity: FloatArray, supply: FloatArray) -> tuple[FloatArray, float]:
    """The barrier flow on every edge, ``[layer, query, key]``, and Newton's last decrement.

    ``supply`` is what the source sends to each position of the layer above the capacities' last.
    """
    flow, left = _rolled_out(capacity, supply)
    free = (flow > TINY) & (left > TINY)  # others are fixed: nothing flows, or all does
    decrement = 0.0
    for _ in range(MOST_STEPS):
        if not free.any():
            break
        before = decrement
        step, decrement = _newton_step(flow, left, free)
        if decrement <= DECREMENT or NOISE > decrement > before / 2 > 0:
            break
        # Near the optimum Newton's own step is inside, and best.
        length = 1.0 if decrement < 0.25 else _length(flow[free], left[free], step[free])
        flow, left = flow + length * step, left - length * step
    return _balanced(flow, supply), decrement


def _balanced(flow: FloatArray, supply: FloatArray) -> FloatArray:
    """The flow with what rounding left at nodes divided as the rest is."""
    flow = flow.copy()
    arrived = supply
    for layer in flow[::-1]:
        sent = layer.sum(1)
        layer *= np.divide(arrived, sent, out=np.zeros_like(sent), where=sent > 0)[:, None]
        arrived = layer.sum(0)
    return flow


def _rolled_out(capacity: FloatArray, supply: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The flow that every node divides as its edges' weights are, and what it leaves of capacities.

    What is left is no difference of the two: where nearly all passes one node, it would be noise.
    """
    flow, left = np.zeros_like(capacity), np.zeros_like(capacity)
    arrived, ended = supply, 0.0
    for layer in reversed(range(len(capacity))):
        flow[layer] = arrived[:, None] * capacity[layer]
        left[layer] = (_elsewhere(arrived) + ended)[:, None] * capacity[layer]
        ended += float(arrived[~capacity[layer].any(1)].sum())  # at nodes that read nothing
        arrived = flow[layer].sum(0)
    return flow, left


def _elsewhere(arrived: FloatArray) -> FloatArray:
    """What arrived at all other nodes, for each."""
    before = np.concatenate([[0.0], np.cumsum(arrived[:-1])])
    after = np.concatenate([np.cumsum(arrived[:0:-1])[::-1], [0.0]])
    elsewhere: FloatArray = before + after
    return elsewhere


def _newton_step(flow: FloatArray, left: FloatArray, free: BoolArray) -> tuple[FloatArray, float]:
    """The direction in which the barrier rises fastest while every node stays in balance."""
    safe = np.where(free, flow, 1.0)
    left = np.where(free, left, 1.0)
    slope = np.where(free, 1 / safe - 1 / left, 0.0)
    # The inverse of the second derivative, written so that tiny flows do not overflow.
    weight = np.where(free, (safe * left) ** 2 / (safe**2 + left**2), 0.0)
    potential = _potentials(weight, weight * slope)
    above = potential[1:, :, None]
    below = potential[:-1, None, :]
    step = weight * (slope - above + below)
    curved = np.where(free, step**2 * (1 / safe**2 + 1 / left**2), 0.0)
    return step, float(np.sqrt(curved.sum()))


def _potentials(weight: FloatArray, pushed: FloatArray) -> FloatArray:
    """Potentials of all nodes, ``[layer, position]``, 0 at the input, that balance every step.

    Nodes of a layer are joined to those of the layers above and below only, so that eliminating
    layer after layer leaves one dense system per layer.
    """
    depth, size = weight.shape[:2]
    right = pushed.sum(2)
    right[:-1] -= pushed[1:].sum(1)
    scaled: list[FloatArray] = []
    solved: list[FloatArray] = []
    # Between the nodes of a layer, and from them to the input, by way of the layers below. Sums of
    # these make the diagonal, so that nothing is subtracted.
    across, down, vector = np.zeros((size, size)), weight[0].sum(1), right[0]
    for layer in range(depth):
        above = weight[layer + 1].T if layer + 1 < depth else np.zeros((size, 0))
        # Where all ends, or all edges below are full, balance follows from that of other nodes.
        down = np.where(weight[layer].any(1), down, above.sum(1))
        diagonal = across.sum(1) + down + above.sum(1)
        # A node that nothing passes stays at 0; none is so alone that the system has no solution.
        diagonal = np.where(diagonal > 0, diagonal * (1 + 4 * EPSILON), 1.0)
        both = np.column_stack([vector, down, above])
        both = np.linalg.solve(np.diag(diagonal) - across, both)
        solved.append(both[:, 0])
        scaled.append(both[:, 2:])
        if layer + 1 < depth:
            joined = weight[layer + 1]
            across = joined @ scaled[-1]
            np.fill_diagonal(across, 0.0)
            down = joined @ both[:, 1]
            vector = right[layer + 1] + joined @ solved[-1]
    potential = np.zeros((depth + 1, size))
    potential[depth] = solved[-1]
    for layer in reversed(range(depth - 1)):
        potential[layer + 1] = solved[layer] + scaled[layer] @ potential[layer + 2]
    return potential


def _length(flow: FloatArray, left: FloatArray, step: FloatArray) -> float:
    """How far to go along a step: to where the barrier is largest, or nearly, inside all limits."""
    down, up = step / flow, step / left
    room = INSIDE / max(float(-down.min()), float(up.max()))

    def rises(length: float) -> bool:
        return float((down / (1 + length * down) - up / (1 - length * up)).sum()) >= 0

    least, most = 0.0, room
    if rises(most):
        return most
    while least == 0.0 or most - least > NEARLY * most:
        middle = (least + most) / 2
        least, most = (middle, most) if rises(middle) else (least, middle)
        if most < 1e-9 * room:
            break
    return least


def trace(graph: LayeredGraph, pair: Pair) -> FlowTrace:
    """The part of the joint flow that ends at the key, edge by edge."""
    _check_sides(graph)
    supply = graph.edges_of(pair)
    flow, _ = solve(to_numpy(graph.weights)[pair.to_layer : pair.layer - 1], supply)
    shares = np.zeros((pair.layer - pair.to_layer, graph.size, graph.size))
    totals = flow.sum(-1, keepdims=True)
    shares[:-1] = np.divide(flow, totals, out=np.zeros_like(flow), where=totals > 0)
    shares[-1, pair.query] = supply
    edges = carried(shares, pair.query, pair.key)
    return FlowTrace(
        *(pair.layer, pair.query, pair.key, pair.to_layer),
        float(edges[0].sum()),
        edges,
        method=MEMBER.name,
    )


MEMBER = Aggregator(
    name="barrier",
    title="Barrier flow",
    summary="One flow from all tokens at once, away from all limits: it ranks where flow is full.",
    score=score,
    trace=trace,
    single_heads=True,
    cost="query",
    shown_by_default=False,
)
