"""Cutting the asked positions out of whole maps."""

from __future__ import annotations

from collections.abc import Sequence

from attnflow.arrays import namespace
from attnflow.question import Question
from attnflow.records import Array


def select(maps: Sequence[Array], question: Question) -> Array:
    """Stack one ``[…, query, key]`` map a layer, keeping only the asked queries and keys."""
    stacked = namespace(maps[0]).stack(list(maps))
    size = stacked.shape[-1]
    everything = tuple(range(size))
    if question.queries != everything:
        stacked = stacked[..., list(question.queries), :]
    if question.keys != everything:
        stacked = stacked[..., list(question.keys)]
    return stacked
