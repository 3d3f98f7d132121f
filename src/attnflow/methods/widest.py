"""The widest path, what one path can carry: W(l)[i, j] = max_k min(A(l)[i, k], W(l−1)[k, j])."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from attnflow.methods.method import Method, Scores
from attnflow.records import FloatArray, FlowTrace, LayeredGraph, Pair, Route, Selection
from attnflow.records.arrays import to_numpy
from attnflow.records.selection import Groups
from attnflow.solvers.execution import Execution


def score(graph: LayeredGraph, selection: Selection, _: Execution) -> Scores:
    """The width of the widest path from every position to each position of ``to_layer``.

    The edges to a group of keys are those to all of them together.
    """
    weights = to_numpy(graph.weights)[selection.to_layer : max(selection.layers)]
    groups = selection.groups
    widths = [_merged(weights[0], groups)]
    for layer in weights[1:]:
        widths.append(_join(layer, widths[-1]))
    steps = [layer - selection.to_layer - 1 for layer in selection.layers]
    found = np.stack(widths)[steps]
    if graph.heads is not None:
        heads = to_numpy(graph.heads)[selection.to_layer :]
        each = [
            _join(heads[step], widths[step - 1]) if step else _merged(heads[0], groups)
            for step in steps
        ]
        found = np.stack(each)
    return Scores(found[..., list(selection.queries), :][..., list(selection.keys)])


def _merged(edges: FloatArray, groups: Groups | None) -> FloatArray:
    """Edges ``[…, query, key]`` to groups of keys."""
    if groups is None:
        return edges
    return np.stack([edges[..., list(group)].sum(-1) for group in groups], -1)


def _join(above: FloatArray, below: FloatArray) -> FloatArray:
    """Max over k of min(above[…, i, k], below[…, k, j]), a row of ``above`` at a time."""
    if above.ndim > below.ndim:
        below = below[..., None, :, :]
    batch = np.broadcast_shapes(above.shape[:-2], below.shape[:-2])
    joined = np.empty((*batch, above.shape[-2], below.shape[-1]))
    for query in range(above.shape[-2]):
        joined[..., query, :] = np.minimum(above[..., query, :, None], below).max(-2)
    return joined


def trace(graph: LayeredGraph, pair: Pair) -> FlowTrace:
    """The path itself, one of the widest."""
    weights = to_numpy(graph.weights)[pair.to_layer : pair.layer - 1]
    width = np.zeros(graph.size)
    width[pair.key] = np.inf
    chosen = []
    for layer in weights:
        through = np.minimum(layer, width)
        chosen.append(through.argmax(-1))
        width = through.max(-1)
    last = np.minimum(graph.edges_of(pair), width)
    positions = [pair.query, int(last.argmax())]
    for best in reversed(chosen):
        positions.append(int(best[positions[-1]]))
    value = float(last.max())
    edges = np.zeros((pair.layer - pair.to_layer, graph.size, graph.size))
    for step, (query, key) in enumerate(pairwise(positions), start=1):
        edges[-step, query, key] = value
    routes = (Route(tuple(positions), value),) if value > 0 else ()
    return FlowTrace.of(pair, value, edges, routes=routes, method=MEMBER.name)


MEMBER = Method(
    name="widest",
    title="Widest path",
    summary="The one best path from a token: as wide as its narrowest edge.",
    score=score,
    trace=trace,
    single_heads=True,
    shown_by_default=False,
)
