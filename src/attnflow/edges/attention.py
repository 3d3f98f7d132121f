"""The paper's edges: A = (1 − r)·W + r·I, with W the heads' attention fused and r the residual."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral

import numpy as np

from attnflow.edges.options import EdgeOptions, Heads
from attnflow.errors import InputError
from attnflow.records import Activations, Array, FloatArray, LayeredGraph
from attnflow.records.arrays import contiguous, double, empty, is_tensor, namespace, on_cpu


def attention_edges(record: Activations, options: EdgeOptions) -> LayeredGraph:
    """Fuse heads, discard, add the residual, and let every row sum to 1; in float64.

    Axes before ``head`` (a batch) are carried along.
    """
    layers = [layer[None] if layer.ndim == 2 else layer for layer in record.layers]
    if on_cpu(layers[0]) and not options.discard and options.heads not in ("max", "min", "each"):
        return LayeredGraph(_in_one_pass(layers, options))
    weights = _edges([fuse_heads(layer, options.heads) for layer in layers], options)
    if options.heads != "each":
        return LayeredGraph(weights)
    return LayeredGraph(weights, _edges([double(layer) for layer in layers], options))


def _in_one_pass(layers: Sequence[Array], options: EdgeOptions) -> FloatArray:
    """The weighted mean of heads and what follows it, compiled."""
    from attnflow.edges.rows import fuse_rows  # numba takes its time

    *batch, count, size, _ = layers[0].shape
    weights = _head_weights(count, options.heads)
    heads = np.array([weights.get(head, 0.0) for head in range(count)])
    flat = [contiguous(layer).reshape(-1, count, size, size) for layer in layers]
    return fuse_rows(flat, heads, options.residual).reshape(len(layers), *batch, size, size)


def fuse_heads(layer: Array, heads: Heads) -> Array:
    """``[…, head, query, key]`` → ``[…, query, key]`` in float64."""
    if layer.shape[-3] == 1 and heads != "each":
        _head_weights(1, heads)
        return double(layer[..., 0, :, :])
    if heads in ("mean", "each"):
        return double(layer).mean(-3)
    if heads == "max":
        return namespace(layer).amax(double(layer), -3)
    if heads == "min":
        return namespace(layer).amin(double(layer), -3)
    weights = _head_weights(int(layer.shape[-3]), heads)
    return sum(weight * double(layer[..., head, :, :]) for head, weight in weights.items())


def _head_weights(count: int, heads: Heads) -> dict[int, float]:
    """The weight of every head that takes part: picked heads weigh the same, weights sum to 1."""
    if isinstance(heads, str):
        return dict.fromkeys(range(count), 1 / count)
    if all(isinstance(head, Integral) for head in heads):
        return _picked(count, [int(head) for head in heads])
    total = float(sum(heads))
    if len(heads) != count or min(heads) < 0 or not 0 < total < math.inf:  # nor is NaN
        msg = f"heads={list(heads)} must be {count} finite weights, none negative, not all zero"
        raise InputError(msg)
    return {head: float(weight) / total for head, weight in enumerate(heads)}


def _picked(count: int, heads: Sequence[int]) -> dict[int, float]:
    for head in heads:
        if not -count <= head < count:
            msg = f"heads={list(heads)}: head {head} does not exist; there are 0 to {count - 1}"
            raise InputError(msg)
    if len({head % count for head in heads}) != len(heads):
        msg = f"heads={list(heads)} names a head twice; give weights (as floats) to weigh heads"
        raise InputError(msg)
    return {head % count: 1 / len(heads) for head in heads}


def _edges(fused: Sequence[Array], options: EdgeOptions) -> Array:
    """The steps after fusion, from one ``[…, query, key]`` a layer to their stack."""
    xp = namespace(fused[0])
    if options.discard:
        fused = [_discard_smallest(layer, options.discard) for layer in fused]
    edges = empty((len(fused), *fused[0].shape), fused[0])
    for layer, into in zip(fused, edges, strict=True):
        totals = (1 - options.residual) * layer.sum(-1) + options.residual
        totals = totals + (totals == 0)  # a row of zeros reads nothing, and stays so
        xp.multiply(layer, ((1 - options.residual) / totals)[..., None], out=into)
        if options.residual:
            diagonal = xp.einsum("...ii->...i", into)  # a view: the edges themselves change
            diagonal += options.residual / totals
    return edges


def _discard_smallest(fused: Array, ratio: float) -> Array:
    """Zero the smallest entries of each map; the first position's attention to itself stays."""
    xp = namespace(fused)
    flat = fused.reshape(*fused.shape[:-2], -1)
    order = xp.argsort(
        flat, **({"stable": True} if is_tensor(flat) else {"axis": -1, "kind": "stable"})
    )
    ranks = xp.argsort(order, -1)
    keep = ranks >= int(flat.shape[-1] * ratio)
    keep[..., 0] = True
    return (flat * keep).reshape(fused.shape)
