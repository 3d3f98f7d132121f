"""Cutting the asked layers and positions out of whole maps."""

from __future__ import annotations

from collections.abc import Sequence

from attnflow.records import Array
from attnflow.records.arrays import namespace
from attnflow.records.selection import Selection


def select(maps: Array, layers: Sequence[int], question: Selection) -> Array:
    """These entries along ``layer``, and the asked queries and keys, of ``[layer, …, query, key]``.

    What is kept whole is not copied. A group of keys has the sum of its keys.
    """
    size = maps.shape[-1]
    if list(layers) != list(range(len(maps))):
        maps = maps[list(layers)]
    if question.queries != tuple(range(size)):
        maps = maps[..., list(question.queries), :]
    if question.groups is not None:
        return namespace(maps).stack([maps[..., list(g)].sum(-1) for g in question.groups], -1)
    if question.keys != tuple(range(size)):
        maps = maps[..., list(question.keys)]
    return maps
