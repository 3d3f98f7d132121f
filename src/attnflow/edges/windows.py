"""Edges of attention in windows, made of what is not 0 alone.

The steps are those of `attnflow.edges.graph`, on sparse maps: correct, add the residual, rows to 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attnflow.edges.options import EdgeOptions
from attnflow.edges.sight import even_rows, first_seen
from attnflow.records import Activations, FloatArray, LayeredGraph
from attnflow.records.arrays import to_numpy
from attnflow.records.sparse import SparseLayer, SparseLayers


def is_sparse(activations: Activations) -> bool:
    """Whether the attention is held by its entries that are not 0."""
    return isinstance(activations.attention[0], SparseLayer)


def make_dense(activations: Activations) -> Activations:
    """The same with dense maps."""
    return replace(activations, attention=tuple(to_numpy(each) for each in activations.attention))


def sparse_graph(
    activations: Activations, options: EdgeOptions, *, keep_maps: bool
) -> LayeredGraph:
    """The graph of sparse attention, whose heads are fused."""
    layers = [each.double() for each in activations.attention]
    if options.correction is not None:
        layers = [CORRECTED[options.correction](each) for each in layers]
    maps = SparseLayers(tuple(layers)) if keep_maps else None
    if options.correction is not None:
        layers = [each.times(_inverse(each.sums)) for each in layers]
    edges = tuple(_edges(each, options.residual) for each in layers)
    return LayeredGraph(SparseLayers(edges), maps=maps, source=activations.source)


def even_attention(activations: Activations) -> Activations:
    """As sparse, of a causal model that reads evenly from all that each position sees."""
    even = [even_rows(first_seen(each)) for each in activations.attention]
    return replace(activations, attention=tuple(even))


def _edges(layer: SparseLayer, residual: float) -> SparseLayer:
    totals = (1 - residual) * layer.sums + residual
    totals = totals + (totals == 0)  # a row of zeros reads nothing, and stays so
    edges = layer.times((1 - residual) / totals)
    return edges.plus_diagonal(residual / totals) if residual else edges


def _visible(layer: SparseLayer) -> SparseLayer:
    seen = replace(layer, values=layer.values / (layer.size - layer.keys))
    return seen.times(layer.sums * _inverse(seen.sums))


def _without_sink(layer: SparseLayer) -> SparseLayer:
    sums, sink = layer.sums, (layer.keys == 0) & (layer.queries > 0)
    left = replace(layer, values=np.where(sink, 0.0, layer.values))
    left = left.plus_diagonal((left.sums == 0).astype(np.float64))
    return left.times(sums * _inverse(left.sums))


def _inverse(sums: FloatArray) -> FloatArray:
    found: FloatArray = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return found


CORRECTED: dict[str, Callable[[SparseLayer], SparseLayer]] = {
    "visible": _visible,
    "sink": _without_sink,
}
