"""Direct contributions: the sum over layers of what is carried into a position, not composed.

``direct`` sums what the explained position itself reads, layer by layer; ``direct-all`` what all
positions read. On deep decoders, where every composition of layers leaks to the first token, the
former finds words that are copied; with edges seen by the target the latter is good on encoders.
Where a decoder puts attention that has nowhere to go, on its first token, sums over thirty layers
would find that token alone: their usual correction is ``"sink"``, which leaves it out.
"""

from __future__ import annotations

import numpy as np

from attnflow.methods.maps import require_maps, select, select_keys, summed_rows
from attnflow.methods.method import Method, Scores
from attnflow.records import FlowTrace, LayeredGraph, Pair, Selection
from attnflow.records.arrays import double, to_numpy
from attnflow.records.sparse import SparseLayers
from attnflow.solvers.execution import Execution


def score(graph: LayeredGraph, selection: Selection, _: Execution) -> Scores:
    """Σ over layers of the maps' rows of the selected positions."""
    found = require_maps(graph, MEMBER.name)
    if isinstance(found, SparseLayers):
        return summed_rows(found, selection, everywhere=False)
    maps = found[selection.to_layer : max(selection.layers)]
    steps = [layer - selection.to_layer - 1 for layer in selection.layers]
    rows = np.cumsum(to_numpy(maps[..., list(selection.queries), :]), axis=0)
    return Scores(select_keys(rows[steps], selection))


def score_everywhere(graph: LayeredGraph, selection: Selection, _: Execution) -> Scores:
    """Σ over layers and positions; the same for every selected position."""
    found = require_maps(graph, EVERYWHERE.name)
    if isinstance(found, SparseLayers):
        return summed_rows(found, selection, everywhere=True)
    maps = found[selection.to_layer : max(selection.layers)]
    sums = np.cumsum(to_numpy(double(maps).sum(-2)), axis=0)[..., None, :]
    steps = [layer - selection.to_layer - 1 for layer in selection.layers]
    return Scores(select(np.broadcast_to(sums, maps.shape), steps, selection))


def trace(graph: LayeredGraph, pair: Pair) -> FlowTrace:
    """One edge of every layer."""
    maps = to_numpy(require_maps(graph, MEMBER.name))[pair.to_layer : pair.layer]
    edges = np.zeros_like(maps)
    edges[:, pair.query, pair.key] = maps[:, pair.query, pair.key]
    return FlowTrace.of(pair, float(edges.sum()), edges, method=MEMBER.name)


def trace_everywhere(graph: LayeredGraph, pair: Pair) -> FlowTrace:
    """All edges of every layer that lead to the key."""
    maps = to_numpy(require_maps(graph, EVERYWHERE.name))[pair.to_layer : pair.layer]
    edges = np.zeros_like(maps)
    edges[:, :, pair.key] = maps[:, :, pair.key]
    return FlowTrace.of(pair, float(edges.sum()), edges, method=EVERYWHERE.name)


MEMBER = Method(
    name="direct",
    title="Direct contributions",
    summary="What the position itself takes from a token, summed over layers.",
    score=score,
    trace=trace,
    uses_maps=True,
    own_rows=True,
    sums_maps=True,
    amounts="any",
    edges="gradient",
    correction="sink",
    shown_by_default=False,
)
EVERYWHERE = Method(
    name="direct-all",
    title="Direct contributions, all positions",
    summary="What all positions take from a token, summed over layers.",
    score=score_everywhere,
    trace=trace_everywhere,
    uses_maps=True,
    sums_maps=True,
    amounts="any",
    edges="gradient",
    correction="sink",
    shown_by_default=False,
    everywhere=True,
)
