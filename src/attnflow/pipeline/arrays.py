"""Scores of attention that a caller passes in: one input, or a batch with padding.

Every item of a batch gets the scores it would get alone: items with the same padding are cut to
their tokens and solved together, so that padding never enters a computation; results are put in
their places among zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from attnflow.aggregation import Scores
from attnflow.aggregation.aggregator import merge_statistics
from attnflow.edges.checks import Attention, check_probabilities, split_layers
from attnflow.edges.graph import build_graph
from attnflow.errors import InputError
from attnflow.pipeline.config import ExplainConfig
from attnflow.records import Activations, Array, Selection
from attnflow.records.arrays import empty, to_numpy
from attnflow.records.selection import make_selection

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]


def score_arrays(
    attention: Attention, config: ExplainConfig, valid: BoolArray | None = None, **indices: Any
) -> Scores:
    """Scores of attention, checked first; ``valid`` (of `real_tokens`) says that it is a batch.

    ``indices`` are those of `make_selection`.
    """
    check_arrays_suffice(config)
    layers = split_layers(attention, batched=valid is not None)
    if layers[0].ndim == (2 if valid is None else 3):
        if config.heads == "each":
            msg = "heads='each' needs attention with a head axis; here the heads are fused"
            raise InputError(msg)
        layers = tuple(layer[..., None, :, :] for layer in layers)
    selection = make_selection(len(layers), layers[0].shape[-1], **indices)
    if valid is None:
        return _score(layers, config, selection)
    return _score_batch(layers, config, selection, valid)


def check_arrays_suffice(config: ExplainConfig) -> None:
    """Refuse an edge rule that needs more than attention."""
    if not config.rule.needs.attention_alone:
        msg = f"edges={config.edges!r} needs a model, not attention alone; use attnflow.explain"
        raise InputError(msg)


def _score(layers: tuple[Array, ...], config: ExplainConfig, selection: Selection) -> Scores:
    check_probabilities(layers)
    graph = build_graph(
        Activations(layers),
        config.edge_options(config.method),
        keep_maps=config.aggregator.uses_maps,
    )
    return config.aggregator.score(graph, selection, config.execution)


def real_tokens(mask: Array | None, lengths: Sequence[int] | None) -> BoolArray | None:
    """``[batch, position]``, true for tokens; None when there is no batch.

    The width of ``lengths`` is their maximum until the attention's own width is known.
    """
    if mask is not None and lengths is not None:
        msg = "mask and lengths say the same thing; give one of them"
        raise InputError(msg)
    if mask is not None:
        valid: BoolArray = to_numpy(mask) != 0
        if valid.ndim != 2:
            msg = f"mask has {valid.ndim} axes; it must be [batch, position]"
            raise InputError(msg)
    elif lengths is not None:
        counts = np.asarray(lengths)
        if counts.ndim != 1 or counts.dtype.kind not in "iu":
            msg = f"lengths={lengths!r} must be a list of integers, one per item"
            raise InputError(msg)
        valid = np.arange(counts.max(initial=0)) < counts[:, None]
    else:
        return None
    if not valid.any(1).all():
        msg = f"item {int(np.argmin(valid.any(1)))} of the batch has no token"
        raise InputError(msg)
    return valid


def _score_batch(
    layers: tuple[Array, ...], config: ExplainConfig, selection: Selection, valid: BoolArray
) -> Scores:
    """Scores of layers ``[batch, head, query, key]``, with the batch after ``layer``."""
    batch, size = layers[0].shape[0], layers[0].shape[-1]
    missing = size - valid.shape[1]
    if len(valid) != batch or missing < 0:
        msg = (
            f"mask or lengths describe {len(valid)} items of up to {valid.shape[1]} positions; "
            f"attention has {batch} items of {size}"
        )
        raise InputError(msg)
    valid = np.pad(valid, ((0, 0), (0, missing)))
    queries, keys = np.array(selection.queries), np.array(selection.keys)
    result = None
    statistics = []
    for items, tokens in _same_padding(valid):
        rows, columns = np.isin(queries, tokens), np.isin(keys, tokens)
        if not (rows.any() and columns.any()):
            continue
        real = replace(
            selection,
            queries=tuple(np.searchsorted(tokens, queries[rows]).tolist()),
            keys=tuple(np.searchsorted(tokens, keys[columns]).tolist()),
        )
        scores = _score(tuple(_cut(layer, items, tokens) for layer in layers), config, real)
        values = scores.values
        if len(items) == batch and len(tokens) == size:
            return scores
        if result is None:
            shape = (len(values), batch, *values.shape[2:-2], len(queries), len(keys))
            result = empty(shape, values)
            result[:] = 0
        into = np.ix_(np.flatnonzero(rows), np.flatnonzero(columns))
        for at, item in enumerate(items):
            result[:, item][(..., *into)] = values[:, at]
        statistics.append(scores.statistics)
    if result is None:
        msg = f"queries={selection.queries} and keys={selection.keys} are padding in every item"
        raise InputError(msg)
    return Scores(result, merge_statistics(statistics))


def _same_padding(valid: BoolArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Items with the same padding, and the positions of their tokens."""
    patterns, members = np.unique(valid, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield np.flatnonzero(members.ravel() == number), np.flatnonzero(pattern)


def _cut(layer: Array, items: IntArray, tokens: IntArray) -> Array:
    """The tokens of these items; nothing is copied where that is everything."""
    if len(items) < layer.shape[0]:
        layer = layer[items]
    if len(tokens) < layer.shape[-1]:
        layer = layer[..., tokens, :][..., tokens]
    return layer
