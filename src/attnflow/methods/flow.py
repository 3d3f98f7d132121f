"""Attention flow: the maximum flow from a position to each input token, capacities = weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attnflow.methods import relevance_flow
from attnflow.methods.maps import flows
from attnflow.methods.method import Method, Scores, merge_statistics
from attnflow.records import Edge, FlowTrace, LayeredGraph, Pair, Route, Selection
from attnflow.records.arrays import to_numpy
from attnflow.records.selection import Groups
from attnflow.records.sparse import SparseLayers
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import FlowSolver, PreparedGraph, Sources, find_solver

KEPT_BYTES = 512 << 20
"""What is derived from larger weights (a copy, buffers) is made anew instead of being held."""

FEW_PAIRS = 100
MOST_DENSE = 2 << 30
DENSE_BYTES = 29  # what the dense solver holds of every pair of positions in a layer


def score(graph: LayeredGraph, selection: Selection, execution: Execution) -> Scores:
    """One maximum flow for every selected (layer, query, key), in float64."""
    if graph.relevance is not None:
        return relevance_flow.score(graph, graph.relevance, selection, execution)
    if isinstance(graph.weights, SparseLayers) and _stays_sparse(graph, selection, execution):
        return flows(graph, selection, execution)
    graph = _dense(graph)
    solver = _solver(graph, selection, execution)
    if graph.weights.ndim == 4 and not solver.batches:
        execution = replace(execution, device=solver.name)
        scores = [score(item, selection, execution) for item in _items(graph)]
        values = np.stack([each.values for each in scores], axis=1)
        return Scores(values, merge_statistics([each.statistics for each in scores]))
    graph = _accepted(graph, solver)
    sinks = np.array(selection.keys, np.int64)
    if selection.groups is not None:
        graph = _merged(graph, selection.groups, selection.to_layer)
        sinks = np.array([selection.groups[key][0] for key in selection.keys], np.int64)
    edges = graph.weights[..., None, :, :] if graph.heads is None else graph.heads
    edges = edges[[layer - 1 for layer in selection.layers]][..., list(selection.queries), :]
    batch = edges.shape[1:-3]  # [layer, …, head, query, key]
    if batch:
        edges = edges.swapaxes(0, 1)
    ends = edges.shape[len(batch) : -1]
    above = np.array(selection.layers) - selection.to_layer
    layers = np.broadcast_to(above[:, None, None], ends).ravel()
    sources = Sources(edges.reshape(*batch, -1, graph.size), layers.astype(np.int64))
    prepared = _prepared(graph, selection.to_layer, solver)
    values, statistics = prepared.solve(sources, sinks, execution)
    values = values.reshape(*batch, *ends, len(sinks))
    if batch:
        values = values.swapaxes(0, 1)
    return Scores(values[..., 0, :, :] if graph.heads is None else values, statistics)


def trace(graph: LayeredGraph, pair: Pair) -> FlowTrace:
    """One maximum flow in full: through which tokens it came, and where attention is narrow."""
    if graph.relevance is not None:
        return relevance_flow.trace(graph, graph.relevance, pair)
    edges = graph.edges_of(pair)
    solver = find_solver("cpu")  # one pair is too little for another device
    found = _prepared(_accepted(_dense(graph), solver), pair.to_layer, solver).solve_pair(
        edges, pair.layer - pair.to_layer, pair.query, pair.key
    )
    return FlowTrace.of(
        pair,
        found.value,
        found.flow,
        cut=tuple(
            Edge(int(at) + pair.to_layer + 1, int(i), int(j), float(found.capacity[at, i, j]))
            for at, i, j in np.argwhere(found.cut)
        ),
        gap=float(found.capacity[found.cut].sum()) - found.value,
        routes=tuple(
            Route(tuple(int(p) for p in path), float(amount)) for path, amount in found.routes
        ),
        method=MEMBER.name,
    )


def _stays_sparse(graph: LayeredGraph, selection: Selection, execution: Execution) -> bool:
    """Whether flow goes through sparse layers as they are.

    The dense solver is quicker for many pairs, and has room where texts are short.
    """
    pairs = len(selection.layers) * len(selection.queries) * len(selection.keys)
    dense = DENSE_BYTES * graph.depth * graph.size**2
    return execution.device != "cuda" and (pairs <= FEW_PAIRS or dense > MOST_DENSE)


def _dense(graph: LayeredGraph) -> LayeredGraph:
    """The graph with dense layers, made once."""
    if not isinstance(graph.weights, SparseLayers):
        return graph
    key = (MEMBER.name, "dense")
    if key not in graph.cache:
        graph.cache[key] = LayeredGraph(to_numpy(graph.weights))
    dense: LayeredGraph = graph.cache[key]
    return dense


def _solver(graph: LayeredGraph, selection: Selection, execution: Execution) -> FlowSolver:
    """The solver for this work: a batch is one piece of work."""
    items = int(np.prod(graph.weights.shape[1:-2]))
    heads = 1 if graph.heads is None else graph.heads.shape[-3]
    sources = items * heads * len(selection.layers) * len(selection.queries)
    work = float(sources) * len(selection.keys) * graph.depth * graph.size
    return find_solver(execution.device, graph.weights, work)


def _accepted(graph: LayeredGraph, solver: FlowSolver) -> LayeredGraph:
    """The graph in float64 where the solver works: the graph itself, if it is so already."""
    key = (MEMBER.name, solver.name)
    if key not in graph.cache:
        weights = solver.accept(graph.weights)
        heads = None if graph.heads is None else solver.accept(graph.heads)
        if weights is graph.weights and heads is graph.heads:
            return graph
        graph.cache[key] = LayeredGraph(weights, heads)
    accepted: LayeredGraph = graph.cache[key]
    return accepted


def _prepared(graph: LayeredGraph, to_layer: int, solver: FlowSolver) -> PreparedGraph:
    """The graph as the solver wants it, made once: bounds and buffers serve the next pieces."""
    key = (MEMBER.name, to_layer)
    if key not in graph.cache:
        found = solver.prepare(graph.weights[to_layer:])
        if graph.weights.nbytes > KEPT_BYTES:
            return found
        graph.cache[key] = found
    prepared: PreparedGraph = graph.cache[key]
    return prepared


def _merged(graph: LayeredGraph, groups: Groups, to_layer: int) -> LayeredGraph:
    """The graph in which all edges that lead to a group of ``to_layer`` lead to its first key."""
    key = (MEMBER.name, groups, to_layer)
    if key not in graph.cache:
        weights = graph.weights.copy()
        heads = None if graph.heads is None else graph.heads.copy()
        for edges in (weights,) if heads is None else (weights, heads):
            for group in groups:
                # Groups share no key: what one has taken in, no other reads.
                edges[to_layer][..., group[0]] = edges[to_layer][..., list(group)].sum(-1)
        found = LayeredGraph(weights, heads)
        if weights.nbytes > KEPT_BYTES:
            return found
        graph.cache[key] = found
    merged: LayeredGraph = graph.cache[key]
    return merged


def _items(graph: LayeredGraph) -> Iterator[LayeredGraph]:
    """The graphs of a batch, one by one."""
    for item in range(graph.weights.shape[1]):
        heads = None if graph.heads is None else graph.heads[:, item]
        yield LayeredGraph(graph.weights[:, item], heads)


MEMBER = Method(
    name="flow",
    title="Attention flow",
    summary="Edges as pipes: the most that could pass from a token to the position.",
    score=score,
    trace=trace,
    single_heads=True,
    from_logit="capacities",
    amounts="conserved",
    cost="pair",
    slot=2,
    full=1.0,
    tie_breaker="rollout",
    alternative="barrier",
)
