"""Fusing heads: a mean, a maximum, a minimum, chosen heads, weighted or learned ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral

from attnflow.edges.options import Heads
from attnflow.errors import InputError
from attnflow.records.arrays import double, namespace
from attnflow.records.learned import LearnedHeads
from attnflow.records.types import Array


def fuse_heads(layer: Array, heads: Heads) -> Array:
    """``[…, head, query, key]`` → ``[…, query, key]`` in float64."""
    if layer.shape[-3] == 1 and heads != "each":
        head_weights(1, heads)
        return double(layer[..., 0, :, :])
    if heads in ("mean", "each"):
        return double(layer).mean(-3)
    if heads == "max":
        return namespace(layer).amax(double(layer), -3)
    if heads == "min":
        return namespace(layer).amin(double(layer), -3)
    weights = head_weights(int(layer.shape[-3]), heads)
    return sum(weight * double(layer[..., head, :, :]) for head, weight in weights.items())


def add_heads(layers: Array, heads: Heads) -> Array:
    """``[…, head, query, key]`` → ``[…, query, key]``: the sum of all heads, or of those picked."""
    if heads in ("mean", "each"):
        return layers.sum(-3)
    picked = list(head_weights(int(layers.shape[-3]), heads))
    return layers[..., picked, :, :].sum(-3)


def fuse_layers(layers: Sequence[Array], heads: Heads) -> list[Array]:
    """Every layer's heads fused; learned heads have weights of their own in each."""
    if not isinstance(heads, LearnedHeads):
        return [fuse_heads(each, heads) for each in layers]
    heads.check_heads([int(each.shape[-3]) for each in layers])
    return [
        sum(weight * double(layer[..., head, :, :]) for head, weight in enumerate(weights))
        for layer, weights in zip(layers, heads.scaled, strict=True)
    ]


def strengths(heads: Heads, count: int) -> list[float]:
    """How much each of ``count`` layers carries, beside the strongest one."""
    if isinstance(heads, LearnedHeads):
        return [math.fsum(layer) for layer in heads.scaled]
    return [1.0] * count


def head_weights(count: int, heads: Heads) -> dict[int, float]:
    """The weight of every head that takes part: picked heads weigh the same, weights sum to 1."""
    if isinstance(heads, str):
        return dict.fromkeys(range(count), 1 / count)
    if isinstance(heads, LearnedHeads):
        msg = "learned heads have weights for every layer; fuse all layers together"
        raise InputError(msg)
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
