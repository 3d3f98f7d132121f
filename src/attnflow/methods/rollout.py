"""Attention rollout: Ã(l) = A(l)·Ã(l−1), proportions multiplied along paths, summed over paths.

Over edges that conserve the target's relevance the sum over all paths is known: it is what arrives
at each token, its layer-wise relevance.
"""

from __future__ import annotations

import numpy as np

from attnflow.errors import InputError
from attnflow.methods.maps import asks_few_rows, rolled_rows, select, select_keys
from attnflow.methods.method import Method, Scores
from attnflow.methods.relevance_flow import arrived, check_start
from attnflow.records import (
    Array,
    FloatArray,
    FlowTrace,
    LayeredGraph,
    Pair,
    Relevances,
    Selection,
)
from attnflow.records.arrays import empty, namespace, to_numpy
from attnflow.records.sparse import SparseLayers
from attnflow.solvers.execution import Execution


def score(graph: LayeredGraph, selection: Selection, _: Execution) -> Scores:
    """How much of every position is made of each position of ``selection.to_layer``."""
    if graph.relevance is not None:
        return Scores(_arrived(graph, graph.relevance, selection))
    if isinstance(graph.weights, SparseLayers):
        return rolled_rows(graph.weights, selection)
    if graph.heads is None and asks_few_rows(selection, graph.size):
        return Scores(_few_rows(graph.weights, selection))
    xp, weights, below = namespace(graph.weights), graph.weights, selection.to_layer
    rolled = empty((max(selection.layers) - below, *weights.shape[1:]), weights)
    rolled[0] = weights[below]
    for step in range(1, len(rolled)):
        xp.matmul(weights[below + step], rolled[step - 1], out=rolled[step])
    steps = [layer - below - 1 for layer in selection.layers]
    if graph.heads is None:
        return Scores(select(rolled, steps, selection))
    heads = graph.heads[below:]
    each = [heads[step] @ rolled[step - 1][..., None, :, :] if step else heads[0] for step in steps]
    return Scores(select(xp.stack(each), range(len(steps)), selection))


def _arrived(graph: LayeredGraph, relevance: Relevances, selection: Selection) -> FloatArray:
    """What arrives from the target at each position of ``selection.to_layer``, over all paths.

    The target is above the last layer, wherever the model reads it: all positions have its row.
    """
    check_start(graph, relevance, selection.layers, selection.queries)
    row = to_numpy(arrived(relevance, selection.to_layer))
    shape = (1, len(selection.queries), graph.size)
    return np.array(select_keys(np.broadcast_to(row, shape), selection))


def _few_rows(weights: Array, selection: Selection) -> Array:
    """The selected rows, multiplied from above: ``[layer, …, query, key]``."""
    found = []
    for layer in selection.layers:
        rows = weights[layer - 1][..., list(selection.queries), :]
        for step in reversed(range(selection.to_layer, layer - 1)):
            rows = rows @ weights[step]
        found.append(rows)
    return select_keys(namespace(weights).stack(found), selection)


def trace(graph: LayeredGraph, pair: Pair) -> FlowTrace:
    """The share of walks from the query to the key that pass over every edge."""
    if graph.relevance is not None:
        msg = (
            "method='rollout' on edges='relevance' knows what arrives, over all paths at once, and "
            "no single path; use method='raw' for the edges of a layer"
        )
        raise InputError(msg)
    weights = np.array(to_numpy(graph.weights[pair.to_layer : pair.layer]))
    weights[-1, pair.query] = graph.edges_of(pair)
    edges = carried(weights, pair.query, pair.key)
    return FlowTrace.of(pair, float(edges[0].sum()), edges, method=MEMBER.name)


def carried(weights: FloatArray, query: int, key: int) -> FloatArray:
    """The share of walks from ``query`` to ``key`` over every edge, ``[step, query, key]``.

    The edges of each step sum to the rollout from ``query`` to ``key``.
    """
    depth, size = weights.shape[:2]
    reach = np.zeros((depth + 1, size))  # of each node, the share of its walks that end at the key
    reach[0, key] = 1.0
    for step in range(depth):
        reach[step + 1] = weights[step] @ reach[step]
    carried = np.zeros_like(weights)
    arrived = np.zeros(size)
    arrived[query] = 1.0
    for step in reversed(range(depth)):
        carried[step] = arrived[:, None] * weights[step] * reach[step]
        arrived = arrived @ weights[step]
    return carried


MEMBER = Method(
    name="rollout",
    title="Attention rollout",
    summary="Multiplies edges along each path from a token to the position, and adds the paths up.",
    score=score,
    trace=trace,
    reads_once=True,
    amounts="conserved",
    single_heads=True,
    from_logit="ratios",
    slot=1,
)
