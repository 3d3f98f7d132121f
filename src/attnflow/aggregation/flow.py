"""Attention flow: the maximum flow from a position to each input token, capacities = weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnflow.aggregation.scores import Execution, Scores, merge_statistics
from attnflow.records import LayeredGraph
from attnflow.records.arrays import to_numpy
from attnflow.records.selection import Selection


def flow(graph: LayeredGraph, question: Selection, effort: Execution) -> Scores:
    """One maximum flow for every asked (layer, query, key), on the CPU in float64."""
    if graph.weights.ndim == 4:
        answers = [flow(item, question, effort) for item in _items(graph)]
        scores = np.stack([answer.scores for answer in answers], axis=1)
        return Scores(scores, merge_statistics([answer.statistics for answer in answers]))
    if question.groups is not None:
        return _to_groups(graph, question, question.groups, effort)
    from attnflow.solvers.cpu.solver import Sources, max_flows

    weights = np.ascontiguousarray(to_numpy(graph.weights)[question.to_layer :])
    edges = to_numpy(graph.weights)[:, None] if graph.heads is None else to_numpy(graph.heads)
    asked = np.array(question.layers) - 1
    edges = edges[asked][:, :, list(question.queries)]  # [layer, head, query, key]
    layers = np.broadcast_to((asked + 1 - question.to_layer)[:, None, None], edges.shape[:3])
    values, statistics = max_flows(
        weights,
        Sources(edges.reshape(-1, graph.size), layers.astype(np.int64).ravel()),
        np.array(question.keys, np.int64),
        threads=effort.threads,
        progress=effort.progress,
    )
    scores = values.reshape(*edges.shape[:3], len(question.keys))
    return Scores(scores[:, 0] if graph.heads is None else scores, statistics)


def _to_groups(
    graph: LayeredGraph, question: Selection, groups: Sequence[Sequence[int]], effort: Execution
) -> Scores:
    """The maximum flow to each group of keys: all edges to the group are led to its first key."""
    bottom, firsts = question.to_layer, [group[0] for group in groups]
    weights = to_numpy(graph.weights).copy()
    heads = None if graph.heads is None else to_numpy(graph.heads).copy()
    for edges in (weights, heads):
        if edges is not None:
            led = [edges[bottom][..., list(group)].sum(-1) for group in groups]
            edges[bottom][..., firsts] = np.stack(led, -1)
    asked = replace(question, keys=tuple(firsts), groups=None)
    return flow(LayeredGraph(weights, heads), asked, effort)


def _items(graph: LayeredGraph) -> Iterator[LayeredGraph]:
    """The graphs of a batch, one by one."""
    for item in range(graph.weights.shape[1]):
        heads = None if graph.heads is None else graph.heads[:, item]
        yield LayeredGraph(graph.weights[:, item], heads)
