"""Selected layers and positions of maps: cut out of whole maps, or row by row of sparse ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnflow.errors import InputError
from attnflow.methods.method import Scores
from attnflow.records import Array, FloatArray, LayeredGraph, Selection
from attnflow.records.arrays import namespace
from attnflow.records.sparse import SparseLayer, SparseLayers
from attnflow.solvers.execution import Execution

LONG = 512  # positions; in longer texts, a few rows are computed on their own


def asks_few_rows(selection: Selection, size: int) -> bool:
    """Whether so few positions of a long text are selected that whole maps would be wasteful."""
    return size >= LONG and 2 * len(selection.layers) * len(selection.queries) <= size


def select(maps: Array, layers: Sequence[int], selection: Selection) -> Array:
    """These entries along ``layer``, and the selected queries and keys, of whole maps.

    ``maps`` are ``[layer, …, query, key]``. What is kept whole is not copied. A group of keys has
    the sum of its keys.
    """
    size = maps.shape[-1]
    if list(layers) != list(range(len(maps))):
        maps = maps[list(layers)]
    if selection.queries != tuple(range(size)):
        maps = maps[..., list(selection.queries), :]
    return select_keys(maps, selection)


def select_keys(maps: Array, selection: Selection) -> Array:
    """The selected keys of ``[…, key]``."""
    if selection.groups is not None:
        groups = [selection.groups[key] for key in selection.keys]
        return namespace(maps).stack([maps[..., list(group)].sum(-1) for group in groups], -1)
    if selection.keys != tuple(range(maps.shape[-1])):
        maps = maps[..., list(selection.keys)]
    return maps


def require_maps(graph: LayeredGraph, method: str) -> Array:
    """The maps of a graph that was built with them."""
    if graph.heads is not None:
        msg = (
            f"method={method!r} needs merged heads; leave out heads='each', or pick some by number"
        )
        raise InputError(msg)
    if graph.maps is None:
        msg = f"method={method!r} needs a graph with its maps: build_graph(…, keep_maps=True)"
        raise InputError(msg)
    return graph.maps


# Sparse layers: only the rows that are needed, and never a map of all pairs.


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
