"""Cutting the asked layers and positions out of whole maps."""

from __future__ import annotations

from collections.abc import Sequence

from attnflow.question import Question
from attnflow.records import Array


def select(maps: Array, layers: Sequence[int], question: Question) -> Array:
    """These entries along ``layer``, and the asked queries and keys, of ``[layer, …, query, key]``.

    What is kept whole is not copied.
    """
    size = maps.shape[-1]
    if list(layers) != list(range(len(maps))):
        maps = maps[list(layers)]
    if question.queries != tuple(range(size)):
        maps = maps[..., list(question.queries), :]
    if question.keys != tuple(range(size)):
        maps = maps[..., list(question.keys)]
    return maps
