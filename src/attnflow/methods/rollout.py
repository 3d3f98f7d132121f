"""Attention rollout: Ã(l) = A(l)·Ã(l−1), proportions multiplied along paths, summed over paths."""

from __future__ import annotations

from attnflow.methods.answer import Answer, Effort
from attnflow.methods.selection import select
from attnflow.question import Question
from attnflow.records import LayeredGraph


def rollout(graph: LayeredGraph, question: Question, _: Effort) -> Answer:
    """How much of every position is made of each position of ``question.to_layer``."""
    below = None
    rolled = {}
    for layer in range(question.to_layer + 1, max(question.layers) + 1):
        merged = graph.weights[layer - 1]
        if layer in question.layers and graph.heads is not None:
            heads = graph.heads[layer - 1]
            rolled[layer] = heads if below is None else heads @ below[..., None, :, :]
        below = merged if below is None else merged @ below
        rolled.setdefault(layer, below)
    return Answer(select([rolled[layer] for layer in question.layers], question))
