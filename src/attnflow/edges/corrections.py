"""Causal decoders: correcting for the receptive field.

Under a causal mask the first token is seen by every position and the last by one, so the first
tokens collect more than their share whatever the model does. The named corrections:

    uniform   the result divided by what the same method gives where each position reads as much,
              evenly: 1/(i + 1) from position i to itself and each one before, or as evenly from
              those in its window. Where the residual connection is measured, i keeps what it takes
              from itself, and the rest is even. 1 means "as by chance"
    sink      attention to the first token removed (but its own), rows made to sum to what they did
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attnflow.records.activations import Activations, Relevances
from attnflow.records.arrays import on_cpu, to_numpy
from attnflow.records.layers import DeviceLayers, without_first
from attnflow.records.sparse import LongArray, SparseLayer
from attnflow.records.types import Array, FloatArray


def first_seen(layer: Array) -> LongArray:
    """``[query]``: the first position that each position of a causal map ``[…, query, key]`` sees.

    It is the first that it or a later one reads, since windows only move on: an entry that has
    become 0 by rounding changes nothing.
    """
    if isinstance(layer, SparseLayer):
        own = np.diff(layer.starts) > 0
        first = np.arange(layer.size)
        first[own] = layer.keys[layer.starts[:-1][own]]
    else:
        read = (layer.reshape(-1, *layer.shape[-2:]) > 0).any(0)
        read = np.asarray(read.cpu() if hasattr(read, "cpu") else read)
        first = np.where(read.any(-1), read.argmax(-1), np.arange(len(read)))
    first = np.minimum(first, np.arange(len(first)))
    found: LongArray = np.minimum.accumulate(first[::-1])[::-1]
    return found


def even_rows(first: LongArray) -> SparseLayer:
    """Rows that are spread over the positions from ``first`` to the own one."""
    counts = np.arange(len(first)) - first + 1
    starts = np.concatenate([[0], np.cumsum(counts)])
    keys = np.arange(starts[-1]) - np.repeat(starts[:-1] - first, counts)
    return SparseLayer(starts, keys.astype(np.int32), np.repeat(1 / counts, counts))


def uniform_activations(like: Activations) -> Activations:
    """The activations of a model of the same size and windows that attends evenly to all it sees.

    Layers that see the same share their memory.
    """
    made: dict[tuple[Any, ...], FloatArray] = {}
    layers = []
    for each in like.attention:
        first, shape = first_seen(each), tuple(each.shape)
        key = (shape, first.tobytes())
        if key not in made:
            made[key] = np.array(np.broadcast_to(np.asarray(even_rows(first)), shape))
        layers.append(made[key])
    return Activations(tuple(layers), causal=True, ends=like.ends)


def spread_evenly(maps: Array, seen_by: Array, *, keep_own: bool) -> FloatArray:
    """Maps ``[…, query, key]`` of which each row is spread over what its position sees.

    ``seen_by`` is the attention that tells what that is. With ``keep_own`` a position takes as much
    from itself as it does.
    """
    layer: FloatArray = to_numpy(maps)
    size = layer.shape[-1]
    own = np.einsum("...ii->...i", layer) * keep_own
    seen = np.tril(np.arange(size) >= first_seen(seen_by)[:, None], -1 if keep_own else 0)
    counts = seen.sum(-1)
    rest = np.divide(layer.sum(-1) - own, counts, out=np.zeros_like(own), where=counts > 0)
    even: FloatArray = np.maximum(rest, 0.0)[..., None] * seen + own[..., None] * np.eye(size)
    return even


def _without_sink(layer: FloatArray, first: int) -> FloatArray:
    sums = layer.sum(-1)
    layer = layer.copy()
    layer[..., max(0, 1 - first) :, 0] = 0
    alone = layer.sum(-1) == 0  # a position that saw nothing but the sink is left with itself
    return _to_sums(
        layer + alone[..., None] * np.eye(layer.shape[-2], layer.shape[-1], first), sums
    )


def _to_sums(layer: FloatArray, sums: FloatArray) -> FloatArray:
    found = layer.sum(-1)
    scale = np.divide(sums, found, out=np.zeros_like(found), where=found > 0)
    scaled: FloatArray = layer * scale[..., None]
    return scaled


def without_sink(
    weights: Array,
    heads: Array | None,
    relevance: Relevances | None,
    *,
    when_read: bool = False,
) -> tuple[Array, Array | None, Relevances | None]:
    """Amounts ``[…, query, key]`` without those that go to the first token, which are left out.

    Later positions have theirs as before: nothing reaches them through the first token. Where the
    target is read at the first token, it is all that there is, and keeps what arrived. On another
    device they may be left out ``when_read``.
    """
    streams = None if relevance is None else relevance.streams
    alone = streams is not None and not to_numpy(streams[-1])[1:].any()
    if relevance is not None and not alone:
        inputs = to_numpy(relevance.inputs).copy()
        inputs[0] = 0.0
        relevance = replace(relevance, inputs=inputs)
    heads = None if heads is None else without_first(heads)
    if when_read and heads is None and not on_cpu(weights[0]):
        given = weights.given if isinstance(weights, DeviceLayers) else weights
        return DeviceLayers(given, without_first=True), heads, relevance
    return without_first(weights), heads, relevance


SINK = "sink"
ON_MAPS = (SINK,)
CORRECTIONS = ("uniform", *ON_MAPS)
CAUSAL_DEFAULT = "uniform"


def correct_maps(maps: Sequence[Array], correction: str | None, first: int = 0) -> Sequence[Array]:
    """The maps ``[…, query, key]`` of a causal model, corrected by name.

    Their rows are those of positions from ``first`` on.
    """
    if correction is None:
        return maps
    return [_without_sink(to_numpy(each), first) for each in maps]
