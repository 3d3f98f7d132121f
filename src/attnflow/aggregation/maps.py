"""Cutting the selected layers and positions out of whole maps."""

from __future__ import annotations

from collections.abc import Sequence

from attnflow.records import Array, Selection
from attnflow.records.arrays import namespace


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
    if selection.groups is not None:
        groups = [selection.groups[key] for key in selection.keys]
        return namespace(maps).stack([maps[..., list(group)].sum(-1) for group in groups], -1)
    if selection.keys != tuple(range(size)):
        maps = maps[..., list(selection.keys)]
    return maps
