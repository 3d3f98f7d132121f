"""Additive relevance: R ← R + Ā·R from R = I, rows not made to sum to 1 (Chefer et al. 2021).

Encoder–decoders have a relevance of source to source, target to target and target to source. What
the target takes by cross-attention C is R_ts ← R_ts + R̂_ttᵀ·C·R̂_ss, with R̂ the relevance beside the
identity, rows made to sum to 1, and the identity: the paper's rule for attention between two sides.
"""

from __future__ import annotations

import numpy as np

from attnflow.methods.maps import added_rows, asks_few_rows, require_maps, select, select_keys
from attnflow.methods.method import Method, Scores
from attnflow.records import FloatArray, FlowTrace, LayeredGraph, Pair, Selection
from attnflow.records.arrays import to_numpy
from attnflow.records.sparse import SparseLayers
from attnflow.solvers.execution import Execution


def score(graph: LayeredGraph, selection: Selection, _: Execution) -> Scores:
    """The relevance of each position of ``to_layer`` to every position, without R's identity."""
    held = require_maps(graph, MEMBER.name)
    if isinstance(held, SparseLayers):
        return added_rows(held, selection)
    maps = to_numpy(held)
    if graph.source is None and asks_few_rows(selection, graph.size):
        return Scores(_few_rows(maps, selection))
    identity = np.eye(graph.size)
    relevance = np.broadcast_to(identity, maps.shape[1:])
    found = []
    for layer in maps[selection.to_layer : max(selection.layers)]:
        if graph.source is None:
            relevance = relevance + layer @ relevance
        else:
            relevance = _between_sides(relevance, layer, graph.source)
        found.append(relevance - identity)
    steps = [layer - selection.to_layer - 1 for layer in selection.layers]
    return Scores(select(np.stack(found), steps, selection))


def _few_rows(maps: FloatArray, selection: Selection) -> FloatArray:
    """The selected rows of Π (I + map) − I, multiplied from above."""
    found = []
    for layer in selection.layers:
        # What was added, apart from the identity that it was added to.
        rows = np.zeros((*maps.shape[1:-2], len(selection.queries), maps.shape[-1]))
        for step in reversed(range(selection.to_layer, layer)):
            rows = rows + maps[step][..., list(selection.queries), :] + rows @ maps[step]
        found.append(rows)
    chosen: FloatArray = select_keys(np.stack(found), selection)
    return chosen


def _between_sides(relevance: FloatArray, layer: FloatArray, source: int) -> FloatArray:
    """One step of an encoder–decoder: within the sides, then from the target to the source."""
    within = layer.copy()
    within[source:, :source] = 0.0
    after = relevance + within @ relevance
    own, of_source = (_to_one(after[at, at]) for at in (slice(source, None), slice(source)))
    after[source:, :source] += own.T @ layer[source:, :source] @ of_source
    return after


def _to_one(relevance: FloatArray) -> FloatArray:
    """What was added to the identity with rows that sum to 1, and the identity."""
    identity = np.eye(len(relevance))
    added = relevance - identity
    sums = added.sum(-1, keepdims=True)
    scaled: FloatArray = np.divide(added, sums, out=np.zeros_like(added), where=sums > 0)
    return scaled + identity


def trace(graph: LayeredGraph, pair: Pair) -> FlowTrace:
    """What passes over every edge: a step of attention, or staying in place, at every layer."""
    if graph.source is not None:
        MEMBER.check_pairs(routes=True)
    maps = to_numpy(require_maps(graph, MEMBER.name))[pair.to_layer : pair.layer]
    depth, size = maps.shape[:2]
    reach = np.zeros((depth + 1, size))
    reach[0, pair.key] = 1.0
    for step in range(depth):
        reach[step + 1] = reach[step] + maps[step] @ reach[step]
    arrived = np.zeros(size)
    arrived[pair.query] = 1.0
    edges = np.zeros_like(maps)
    for step in reversed(range(depth)):
        passing = maps[step] + np.eye(size)
        edges[step] = arrived[:, None] * passing * reach[step]
        arrived = arrived @ passing
    value = float(reach[depth, pair.query]) - float(pair.query == pair.key)
    if pair.query == pair.key:  # the walk that only stays is the identity, which is left out
        edges[:, pair.query, pair.query] -= 1.0
    return FlowTrace.of(pair, value, edges, method=MEMBER.name)


MEMBER = Method(
    name="additive",
    title="Additive relevance",
    summary="Adds up what each layer brings to what the layers below have brought.",
    score=score,
    trace=trace,
    uses_maps=True,
    edges="gradient",
    shown_by_default=False,
    no_pair_routes="its rule for attention between two sides is not a sum over paths",
)
