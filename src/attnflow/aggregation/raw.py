"""Raw attention: the edges of each layer as they are, whatever the layers below did."""

from __future__ import annotations

from attnflow.aggregation.maps import select
from attnflow.aggregation.scores import Execution, Scores
from attnflow.records import LayeredGraph
from attnflow.records.selection import Selection


def raw(graph: LayeredGraph, question: Selection, _: Execution) -> Scores:
    """The attention of every position to the positions of the layer directly below."""
    edges = graph.weights if graph.heads is None else graph.heads
    return Scores(select(edges, [layer - 1 for layer in question.layers], question))
