"""Attention rollout: Ã(l) = A(l)·Ã(l−1), proportions multiplied along paths, summed over paths."""

from __future__ import annotations

from attnflow.aggregation.maps import select
from attnflow.aggregation.scores import Execution, Scores
from attnflow.records import LayeredGraph
from attnflow.records.arrays import namespace
from attnflow.records.selection import Selection


def rollout(graph: LayeredGraph, question: Selection, _: Execution) -> Scores:
    """How much of every position is made of each position of ``question.to_layer``."""
    xp = namespace(graph.weights)
    weights = graph.weights[question.to_layer : max(question.layers)]
    rolled = xp.empty_like(weights)
    rolled[0] = weights[0]
    for step in range(1, len(weights)):
        xp.matmul(weights[step], rolled[step - 1], out=rolled[step])
    steps = [layer - question.to_layer - 1 for layer in question.layers]
    if graph.heads is None:
        return Scores(select(rolled, steps, question))
    heads = graph.heads[question.to_layer :]
    each = [heads[step] @ rolled[step - 1][..., None, :, :] if step else heads[0] for step in steps]
    return Scores(select(xp.stack(each), range(len(steps)), question))
