"""Which part of an answer is wanted: layers, positions, tokens."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass

from attnflow.errors import InputError

Indices = int | Iterable[int] | None


@dataclass(frozen=True)
class Selection:
    """The positions that ask, ``layers`` × ``queries``, and the ``keys`` of ``to_layer`` they mean.

    Layers are numbered 1 … depth, 0 is the input; all numbers here are resolved: none is negative.
    With ``groups`` the keys are those of the groups, one after the other, and each group is one
    key: a word that was cut into tokens.
    """

    layers: tuple[int, ...]
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    to_layer: int = 0
    groups: tuple[tuple[int, ...], ...] | None = None


def ask(
    depth: int,
    size: int,
    *,
    to_layer: int = 0,
    layers: Indices = None,
    queries: Indices = None,
    keys: Indices = None,
) -> Selection:
    """Resolve selections (``None`` is all, negatives count from the end) into a `Selection`."""
    target = resolve("to_layer", to_layer, 0, depth - 1, depth + 1)
    asked = _select("layers", layers, target + 1, depth, depth + 1)
    return Selection(
        asked,
        _select("queries", queries, 0, size - 1, size),
        _select("keys", keys, 0, size - 1, size),
        target,
    )


def _select(name: str, chosen: Indices, low: int, high: int, count: int) -> tuple[int, ...]:
    if chosen is None:
        return tuple(range(low, high + 1))
    try:
        values = [operator.index(chosen)]  # type: ignore[arg-type]  # a TypeError means: not one int
    except TypeError:
        values = list(chosen)  # type: ignore[arg-type]
    if not values:
        msg = f"{name} is empty; give at least one number from {low} to {high}, or None for all"
        raise InputError(msg)
    return tuple(resolve(name, value, low, high, count) for value in values)


def resolve(name: str, value: int, low: int, high: int, count: int) -> int:
    """One number, negative ones counted from ``count``, checked against the allowed range."""
    try:
        number = operator.index(value)
    except TypeError:
        msg = f"{name}={value!r} is no whole number"
        raise InputError(msg) from None
    resolved = number + count if number < 0 else number
    if not low <= resolved <= high:
        msg = (
            f"{name}={number} does not exist here; allowed: {low} to {high}, negatives from the end"
        )
        raise InputError(msg)
    return resolved
