"""Attention flow: the maximum flow from a position to each input token, capacities = weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnflow.arrays import to_numpy
from attnflow.methods.answer import Answer, Effort, merge_statistics
from attnflow.question import Question
from attnflow.records import LayeredGraph


def flow(graph: LayeredGraph, question: Question, effort: Effort) -> Answer:
    """One maximum flow for every asked (layer, query, key)."""
    from attnflow.kernels.dinic import one

    if graph.weights.ndim == 4:
        answers = [flow(item, question, effort) for item in _items(graph)]
        scores = np.stack([answer.scores for answer in answers], axis=1)
        return Answer(scores, merge_statistics([answer.statistics for answer in answers]))
    weights = to_numpy(graph.weights)[question.to_layer :]
    tops = weights[:, None] if graph.heads is None else to_numpy(graph.heads)[question.to_layer :]
    heads, size = tops.shape[1], tops.shape[-1]
    scores = np.empty((len(question.layers), heads, len(question.queries), len(question.keys)))
    for at, layer in enumerate(question.layers):
        depth = layer - question.to_layer
        for head in range(heads):
            top = tops[depth - 1, head]
            stack = np.concatenate([weights[: depth - 1], top[None]])
            values = np.zeros((len(question.queries), size))
            if depth == 1:
                values = top[list(question.queries)]
            else:
                for key in question.keys:
                    one(stack, depth, np.array(question.queries), key, values, 1e-15)
            scores[at, head] = values[:, list(question.keys)]
    return Answer(scores if graph.heads is not None else scores[:, 0], {"largest_gap": 0.0})


def _items(graph: LayeredGraph) -> Iterator[LayeredGraph]:
    """The graphs of a batch, one by one."""
    for item in range(graph.weights.shape[1]):
        heads = None if graph.heads is None else graph.heads[:, item]
        yield LayeredGraph(graph.weights[:, item], heads)
