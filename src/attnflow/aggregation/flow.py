"""Attention flow: the maximum flow from a position to each input token, capacities = weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnflow.aggregation.aggregator import Aggregator, Scores, merge_statistics
from attnflow.records import Edge, FlowTrace, LayeredGraph, Pair, Route, Selection
from attnflow.records.arrays import to_numpy
from attnflow.records.selection import Groups
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import PreparedGraph, Sources, find_solver


def score(graph: LayeredGraph, selection: Selection, execution: Execution) -> Scores:
    """One maximum flow for every selected (layer, query, key), in float64."""
    if graph.weights.ndim == 4:
        scores = [score(item, selection, execution) for item in _items(graph)]
        values = np.stack([each.values for each in scores], axis=1)
        return Scores(values, merge_statistics([each.statistics for each in scores]))
    sinks = np.array(selection.keys, np.int64)
    if selection.groups is not None:
        graph = _merged(graph, selection.groups, selection.to_layer)
        sinks = np.array([selection.groups[key][0] for key in selection.keys], np.int64)
    edges = to_numpy(graph.weights)[:, None] if graph.heads is None else to_numpy(graph.heads)
    layers = np.array(selection.layers) - 1
    edges = edges[layers][:, :, list(selection.queries)]  # [layer, head, query, key]
    above = np.broadcast_to((layers + 1 - selection.to_layer)[:, None, None], edges.shape[:3])
    sources = Sources(edges.reshape(-1, graph.size), above.astype(np.int64).ravel())
    prepared = _prepared(graph, selection.to_layer, execution)
    values, statistics = prepared.solve(sources, sinks, execution)
    values = values.reshape(*edges.shape[:3], len(sinks))
    return Scores(values[:, 0] if graph.heads is None else values, statistics)


def trace(graph: LayeredGraph, pair: Pair) -> FlowTrace:
    """One maximum flow in full: through which tokens it came, and where attention is narrow."""
    edges = graph.edges_of(pair)
    found = _prepared(graph, pair.to_layer, Execution()).solve_pair(
        edges, pair.layer - pair.to_layer, pair.query, pair.key
    )
    return FlowTrace(
        layer=pair.layer,
        query=pair.query,
        key=pair.key,
        to_layer=pair.to_layer,
        value=found.value,
        edges=found.flow,
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


def _prepared(graph: LayeredGraph, to_layer: int, execution: Execution) -> PreparedGraph:
    """The graph as the solver wants it, made once: bounds and buffers serve the next pieces."""
    solver = find_solver(execution.device)
    key = (MEMBER.name, solver.name, to_layer)
    if key not in graph.cache:
        graph.cache[key] = solver.prepare(to_numpy(graph.weights)[to_layer:])
    prepared: PreparedGraph = graph.cache[key]
    return prepared


def _merged(graph: LayeredGraph, groups: Groups, to_layer: int) -> LayeredGraph:
    """The graph in which all edges that lead to a group of ``to_layer`` lead to its first key."""
    key = (MEMBER.name, groups, to_layer)
    if key not in graph.cache:
        weights = to_numpy(graph.weights).copy()
        heads = None if graph.heads is None else to_numpy(graph.heads).copy()
        firsts = [group[0] for group in groups]
        for edges in (weights, heads):
            if edges is not None:
                led = [edges[to_layer][..., list(group)].sum(-1) for group in groups]
                edges[to_layer][..., firsts] = np.stack(led, -1)
        graph.cache[key] = LayeredGraph(weights, heads)
    merged: LayeredGraph = graph.cache[key]
    return merged


def _items(graph: LayeredGraph) -> Iterator[LayeredGraph]:
    """The graphs of a batch, one by one."""
    for item in range(graph.weights.shape[1]):
        heads = None if graph.heads is None else graph.heads[:, item]
        yield LayeredGraph(graph.weights[:, item], heads)


MEMBER = Aggregator(
    name="flow",
    title="Attention flow",
    score=score,
    trace=trace,
    single_heads=True,
    cost="pair",
    slot=2,
    full=1.0,
    tie_breaker="rollout",
    alternative="barrier",
)
