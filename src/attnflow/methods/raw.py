"""Raw attention: the edges of each layer as they are, whatever the layers below did."""

from __future__ import annotations

from attnflow.methods.answer import Answer, Effort
from attnflow.methods.selection import select
from attnflow.question import Question
from attnflow.records import LayeredGraph


def raw(graph: LayeredGraph, question: Question, _: Effort) -> Answer:
    """The attention of every position to the positions of the layer directly below."""
    edges = graph.weights if graph.heads is None else graph.heads
    return Answer(select(edges, [layer - 1 for layer in question.layers], question))
