"""Cutting the selected layers and positions out of whole maps."""

from __future__ import annotations

from collections.abc import Sequence

from attnflow.errors import InputError
from attnflow.records import Array, LayeredGraph, Selection
from attnflow.records.arrays import namespace

LONG = 512  # positions from which on few rows are not cut out of whole maps


def asks_few_rows(selection: Selection, size: int) -> bool:
    """Whether so few positions of a long text are asked that products of whole maps are waste."""
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
