"""Barrier flow: one flow of all that a position has to all tokens at once, far from every limit.

A maximum flow goes to one token; flows to all tokens at once share the network, and there are many.
The barrier flow is the unique one that maximises Σ over edges of log f + log (c − f), the choice of
Generalized Attention Flow (Azarkhalili & Libbrecht 2025): it sums to 1 and has no ties
(`attnflow.methods.analytic_centre` finds it).
"""

from __future__ import annotations

import numpy as np

from attnflow.methods.analytic_centre import find_analytic_centre
from attnflow.methods.method import Method, Scores
from attnflow.methods.rollout import carried
from attnflow.records import FlowTrace, LayeredGraph, Pair, Selection
from attnflow.records.arrays import to_numpy
from attnflow.solvers.execution import Execution


def score(graph: LayeredGraph, selection: Selection, _: Execution) -> Scores:
    """The flow from every selected position to all tokens of ``to_layer``."""
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
                below = weights[: layer - selection.to_layer - 1]
                flows, decrement = find_analytic_centre(below, supply)
                values[at, head, place] = flows[0].sum(0) if len(flows) else supply
                worst = max(worst, decrement)
    if selection.groups is not None:
        groups = [selection.groups[key] for key in selection.keys]
        values = np.stack([values[..., list(group)].sum(-1) for group in groups], -1)
    else:
        values = values[..., list(selection.keys)]
    return Scores(values[:, 0] if graph.heads is None else values, {"largest_decrement": worst})


def trace(graph: LayeredGraph, pair: Pair) -> FlowTrace:
    """The part of the joint flow that ends at the key, edge by edge."""
    if graph.source is not None:
        MEMBER.check_pairs(routes=True)
    supply = graph.edges_of(pair)
    flow, _ = find_analytic_centre(to_numpy(graph.weights)[pair.to_layer : pair.layer - 1], supply)
    shares = np.zeros((pair.layer - pair.to_layer, graph.size, graph.size))
    totals = flow.sum(-1, keepdims=True)
    shares[:-1] = np.divide(flow, totals, out=np.zeros_like(flow), where=totals > 0)
    shares[-1, pair.query] = supply
    edges = carried(shares, pair.query, pair.key)
    return FlowTrace.of(pair, float(edges[0].sum()), edges, method=MEMBER.name)


MEMBER = Method(
    name="barrier",
    title="Barrier flow",
    summary="One flow from all tokens at once, away from all limits: it ranks where flow is full.",
    score=score,
    trace=trace,
    single_heads=True,
    cost="query",
    shown_by_default=False,
    not_for_pairs="the barrier would count the edges that carry the other side along",
)
