"""Scores of attention that a caller passes in: one input, or a batch with padding.

Every item of a batch gets the scores it would get alone: items with the same padding are cut to
their tokens and solved together, so that padding never enters a computation; results are put in
their places among zeros.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from attnflow.edges.checks import Attention, check_probabilities, split_layers
from attnflow.edges.graph import build_graph
from attnflow.errors import InputError, shown
from attnflow.methods import Scores
from attnflow.methods.method import merge_statistics
from attnflow.pipeline.request import Request
from attnflow.records import Activations, Array, Selection
from attnflow.records.arrays import empty, is_tensor, namespace, on_cpu
from attnflow.records.selection import is_integer, listed_numbers, make_selection

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]
LONGEST = 1 << 24  # positions: attention between so many fits into no memory


def score_arrays(
    attention: Attention, config: Request, valid: BoolArray | None = None, **indices: Any
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


def check_arrays_suffice(config: Request) -> None:
    """Refuse an edge rule that needs more than attention."""
    if not config.rule.needs.attention_alone:
        msg = f"edges={config.edges!r} needs a model, not attention alone; use attnflow.explain"
        raise InputError(msg)


def _score(layers: tuple[Array, ...], config: Request, selection: Selection) -> Scores:
    check_probabilities(layers)
    if layers[0].ndim == 4 and not config.rule.fuses_heads:
        # A rule makes maps of one input: it must not see a batch.
        items = [
            _score(tuple(layer[item] for layer in layers), config, selection)
            for item in range(layers[0].shape[0])
        ]
        values = namespace(items[0].values).stack([item.values for item in items], 1)
        return Scores(values, merge_statistics([item.statistics for item in items]))
    graph = build_graph(
        Activations(layers),
        config.edge_options(config.method),
        keep_maps=config.edge_method.uses_maps,
        read_once=config.edge_method.reads_once,
    )
    return config.edge_method.apply(graph, selection, config.execution)


def opened(attention: Attention) -> Attention:
    """Attention as arrays that can be worked on, whatever their layout; generators gone through."""
    if is_tensor(attention) or isinstance(attention, np.ndarray):
        if np.ndim(attention) == 0:
            msg = "attention is an array of no axes; give [layer, head, query, key]"
            raise InputError(msg)
        return _readable("attention", attention)
    if isinstance(attention, str | bytes | Mapping) or not hasattr(attention, "__iter__"):
        return attention  # which `split_layers` refuses
    return tuple(_readable(f"attention[{at}]", layer) for at, layer in enumerate(attention))


def _readable(name: str, array: Array) -> Array:
    """A dense array in the machine's order of bytes, of which no entry is hidden."""
    if is_tensor(array):
        if array.layout != sys.modules["torch"].strided or array.device.type == "meta":
            kind = "sparse" if array.device.type != "meta" else "without data"
            msg = f"{name} is a tensor {kind}; give a dense one, such as tensor.to_dense()"
            raise InputError(msg)
        return array.resolve_neg() if array.is_neg() else array
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.is_masked(array):
            msg = f"{name} is a masked array with hidden entries; fill them in first"
            raise InputError(msg)
        return np.asarray(array)
    if isinstance(array, np.ndarray) and not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array


def real_tokens(mask: Array | None, lengths: Sequence[int] | None) -> BoolArray | None:
    """``[batch, position]``, true for tokens; None when there is no batch.

    The width of ``lengths`` is their maximum until the attention's own width is known.
    """
    if mask is not None and lengths is not None:
        msg = "mask and lengths say the same thing; give one of them"
        raise InputError(msg)
    if mask is not None:
        valid = _as_mask(mask)
    elif lengths is not None:
        counts = listed_numbers(lengths)
        wrong = is_integer(lengths) or not all(
            is_integer(each) and 0 <= each < LONGEST  # type: ignore[operator]
            for each in counts
        )
        if wrong or not counts:
            msg = f"lengths={shown(lengths)} must be a list of integers, one per item"
            raise InputError(msg)
        numbers = np.array([operator.index(each) for each in counts])  # type: ignore[arg-type]
        valid = np.arange(numbers.max()) < numbers[:, None]
    else:
        return None
    if not valid.any(1).all():
        msg = f"item {int(np.argmin(valid.any(1)))} of the batch has no token"
        raise InputError(msg)
    return valid


def _as_mask(mask: Array) -> BoolArray:
    given = mask.detach().cpu().numpy() if is_tensor(mask) else np.asarray(_rectangular(mask))
    if given.ndim != 2:
        msg = f"mask has {given.ndim} axes; it must be [batch, position]"
        raise InputError(msg)
    if given.dtype.kind not in "biuf" or not np.isin(given, (0, 1)).all():
        msg = f"mask={shown(mask)} must be True (or 1) for tokens and False (or 0) for padding"
        raise InputError(msg)
    valid: BoolArray = given != 0
    return valid


def _rectangular(mask: Any) -> Any:
    """The mask, unless NumPy can't make an array of it."""
    try:
        return np.asarray(mask)
    except (TypeError, ValueError, OverflowError):
        msg = f"mask={shown(mask)} must be an array [batch, position]"
        raise InputError(msg) from None


def _score_batch(
    layers: tuple[Array, ...], config: Request, selection: Selection, valid: BoolArray
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
    together = _on_gpu(layers[0], config)
    for items, tokens in _similar_padding(valid) if together else _same_padding(valid):
        among = np.zeros(size, bool)
        among[tokens] = True
        rows, columns = among[queries], among[keys]
        if not (rows.any() and columns.any()):
            continue
        real = replace(
            selection,
            queries=tuple(np.searchsorted(tokens, queries[rows]).tolist()),
            keys=tuple(np.searchsorted(tokens, keys[columns]).tolist()),
        )
        own = valid[items][:, tokens]
        cut = (_cut(layer, items, tokens) for layer in layers)
        scores = _score(tuple(_set_apart(layer, own) for layer in cut), config, real)
        values = _of_tokens(scores.values, own, real)
        if len(items) == batch and len(tokens) == size:
            return replace(scores, values=values)
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
    if valid.all():
        yield np.arange(valid.shape[0]), np.arange(valid.shape[1])
        return
    patterns, members = np.unique(valid, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield np.flatnonzero(members.ravel() == number), np.flatnonzero(pattern)


def _on_gpu(layer: Array, config: Request) -> bool:
    """Whether items of different lengths are best solved together, in few launches.

    Options that look at a whole map must not see padding.
    """
    options = config.edge_options(config.method)
    plain = config.rule.fuses_heads and not options.discard and options.correction is None
    solved = config.edge_method.cost == "pair" and config.execution.device != "cpu"
    return plain and solved and not on_cpu(layer)


def _similar_padding(valid: BoolArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Items of similar length, less than twice the shortest, and all positions of their tokens."""
    classes = np.frexp(valid.sum(1))[1]
    for number in np.unique(classes):
        items = np.flatnonzero(classes == number)
        yield items, np.flatnonzero(valid[items].any(0))


def _set_apart(layer: Array, own: BoolArray) -> Array:
    """Attention ``[item, head, query, key]`` in which tokens and padding never meet.

    ``own``, ``[item, position]``, is true for tokens; padding attends to itself alone.
    """
    if own.all():
        return layer
    xp, itself = namespace(layer), np.eye(own.shape[1], dtype=bool)
    if is_tensor(layer):
        # Small masks are copied to where the layer is, and large ones made there.
        own, itself = (xp.as_tensor(each, device=layer.device) for each in (own, itself))
    alone = ~own[:, None, :, None] & itself
    among = own[:, None, :, None] & own[:, None, None, :]
    return xp.where(among, layer, xp.ones_like(layer[:1, :1]) * alone)


def _of_tokens(values: Array, own: BoolArray, selection: Selection) -> Array:
    """Scores ``[layer, item, …, query, key]`` that are 0 for padding."""
    if own.all():
        return values
    queries, keys = own[:, list(selection.queries)], own[:, list(selection.keys)]
    real = queries[:, :, None] & keys[:, None, :]
    real = real.reshape(len(own), *(1,) * (values.ndim - 4), *real.shape[1:])
    if is_tensor(values):
        real = namespace(values).as_tensor(real, device=values.device)
    return values * real


def _cut(layer: Array, items: IntArray, tokens: IntArray) -> Array:
    """The tokens of these items; nothing is copied where that is everything."""
    if len(items) < layer.shape[0]:
        layer = layer[items]
    if len(tokens) == tokens[-1] + 1:
        return layer[..., : len(tokens), : len(tokens)]
    if len(tokens) < layer.shape[-1]:
        layer = layer[..., tokens, :][..., tokens]
    return layer
