"""Scores on sparse layers: what is asked for, row by row, and never a map of all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.methods.maps import select_keys
from attnflow.methods.method import Scores
from attnflow.records import FloatArray, LayeredGraph, Selection
from attnflow.records.sparse import SparseLayer, SparseLayers
from attnflow.solvers.execution import Execution


def rows_of(layers: SparseLayers, selection: Selection) -> Scores:
    """The selected rows of each layer as they are."""
    rows = [layers[layer - 1].rows(selection.queries) for layer in selection.layers]
    return Scores(select_keys(np.stack(rows), selection))


def rolled_rows(layers: SparseLayers, selection: Selection) -> Scores:
    """The selected rows of the product of all layers down to ``to_layer``."""
    found = []
    for layer in selection.layers:
        rows = layers[layer - 1].rows(selection.queries)
        for step in reversed(range(selection.to_layer, layer - 1)):
            rows = _times(rows, layers[step])
        found.append(rows)
    return Scores(select_keys(np.stack(found), selection))


def added_rows(layers: SparseLayers, selection: Selection) -> Scores:
    """The selected rows of Π (I + layer) − I."""
    found = []
    for layer in selection.layers:
        start = np.eye(layers.shape[-1])[list(selection.queries)]
        rows = start
        for step in reversed(range(selection.to_layer, layer)):
            rows = rows + _times(rows, layers[step])
        found.append(rows - start)
    return Scores(select_keys(np.stack(found), selection))


def summed_rows(layers: SparseLayers, selection: Selection, *, everywhere: bool) -> Scores:
    """The selected rows, or with ``everywhere`` those of all positions, summed over layers."""
    queries, size = selection.queries, layers.shape[-1]
    total, sums = np.zeros((len(queries), size)), []
    for layer in layers[selection.to_layer : max(selection.layers)]:
        total = total + (
            np.bincount(layer.keys, layer.values, size) if everywhere else layer.rows(queries)
        )
        sums.append(total)
    found = np.stack([sums[layer - selection.to_layer - 1] for layer in selection.layers])
    return Scores(select_keys(found, selection))


def flows(graph: LayeredGraph, selection: Selection, execution: Execution) -> Scores:
    """One maximum flow for every selected (layer, query, key), each with its proof."""
    from attnflow.solvers.cpu.sparse import solve

    layers = graph.weights[selection.to_layer : max(selection.layers)]
    groups = selection.groups or tuple((at,) for at in range(graph.size))
    pairs = [(layer, query) for layer in selection.layers for query in selection.queries]
    sources = [(layer - selection.to_layer, query) for layer, query in pairs]
    values, statistics = solve(layers, sources, [groups[key] for key in selection.keys], execution)
    shape = len(selection.layers), len(selection.queries), len(selection.keys)
    return Scores(values.reshape(shape), statistics)


def _times(rows: FloatArray, layer: SparseLayer) -> FloatArray:
    """Rows times a layer."""
    from attnflow.solvers.cpu.sparse import times_layer

    made = np.zeros_like(rows)
    values: Any = layer.values  # of float64, as all edges are
    times_layer(rows, layer.starts, layer.keys, values, made)
    return made
