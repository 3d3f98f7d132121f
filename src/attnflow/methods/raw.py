"""Raw attention: the edges of each layer as they are, whatever the layers below did."""

from __future__ import annotations

import numpy as np

from attnflow.methods.maps import rows_of, select
from attnflow.methods.method import Method, Scores
from attnflow.records import FlowTrace, LayeredGraph, Pair, Selection
from attnflow.records.sparse import SparseLayers
from attnflow.solvers.execution import Execution


def score(graph: LayeredGraph, selection: Selection, _: Execution) -> Scores:
    """The attention of every position to the positions of the layer directly below."""
    if isinstance(graph.weights, SparseLayers):
        return rows_of(graph.weights, selection)
    edges = graph.weights if graph.heads is None else graph.heads
    return Scores(select(edges, [layer - 1 for layer in selection.layers], selection))


def trace(graph: LayeredGraph, pair: Pair) -> FlowTrace:
    """One edge, of the layer itself."""
    value = float(graph.edges_of(pair)[pair.key])
    edges = np.zeros((pair.layer - pair.to_layer, graph.size, graph.size))
    edges[-1, pair.query, pair.key] = value
    return FlowTrace.of(pair, value, edges, method=MEMBER.name)


MEMBER = Method(
    name="raw",
    title="Raw attention",
    summary="What the position takes from each token of the layer below, whatever came before.",
    score=score,
    trace=trace,
    single_heads=True,
    residual=0.0,  # the paper's raw attention has none
    reaches_input=False,
    amounts="any",
    slot=0,
)
