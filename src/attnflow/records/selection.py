"""Which scores are computed: layers, queries and keys, resolved from a caller's arguments."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from attnflow.errors import InputError, shown

Indices = int | Iterable[int] | None
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Selection:
    """Scores of the positions ``layers`` × ``queries`` for the ``keys`` of ``to_layer``.

    Layers are numbered 1 … depth, 0 is the input; all numbers here are resolved: none is negative.
    With ``groups`` each group of positions is one key (a word that was split into tokens), and
    ``keys`` are indices of groups.
    """

    layers: tuple[int, ...]
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    to_layer: int = 0
    groups: Groups | None = None


@dataclass(frozen=True)
class Pair:
    """One score: from position ``query`` of ``layer`` to position ``key`` of ``to_layer``.

    With ``head``, the edges of ``query`` are those of this head alone (Appendix A.1).
    """

    layer: int
    query: int
    key: int
    to_layer: int = 0
    head: int | None = None


def make_selection(
    depth: int,
    size: int,
    *,
    to_layer: int = 0,
    layers: Indices = None,
    queries: Indices = None,
    keys: Indices = None,
) -> Selection:
    """Resolve indices (``None`` is all, negatives count from the end) into a `Selection`."""
    target = resolve("to_layer", to_layer, 0, depth - 1, depth + 1)
    return Selection(
        resolve_all("layers", layers, target + 1, depth, depth + 1),
        resolve_all("queries", queries, 0, size - 1, size),
        resolve_all("keys", keys, 0, size - 1, size),
        target,
    )


def resolve_all(name: str, indices: Indices, low: int, high: int, count: int) -> tuple[int, ...]:
    """Every index of one or several, checked; ``None`` is all from ``low`` to ``high``."""
    if indices is None:
        return tuple(range(low, high + 1))
    values = listed_numbers(indices)
    if not values:
        msg = f"{name} is empty; give at least one number from {low} to {high}, or None for all"
        raise InputError(msg)
    return tuple(resolve(name, value, low, high, count) for value in values)


def resolve(name: str, value: object, low: int, high: int, count: int) -> int:
    """One index, negative ones counted from ``count``, checked against the allowed range."""
    if not is_integer(value):
        msg = f"{name} must be an integer from {low} to {high}, got {shown(value)}"
        raise InputError(msg)
    number = operator.index(value)  # type: ignore[arg-type] # which was just checked
    resolved = number + count if number < 0 else number
    if not low <= resolved <= high:
        msg = (
            f"{name}={shown(number)} does not exist here; allowed: {low} to {high}, negatives from "
            "the end"
        )
        raise InputError(msg)
    return resolved


def listed_numbers(given: object) -> list[object]:
    """One number or several, as a list; what can't be gone through in order is left as it is.

    Neither texts nor bytes are lists of numbers; a set has no order, and a dict is no list.
    """
    if is_integer(given) or isinstance(given, str | bytes | bytearray | memoryview | Mapping | Set):
        return [given]
    try:
        return list(given)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        return [given]


def is_integer(value: object) -> bool:
    """Whether this is an integer of any library; True and False are none, nor is a list of one."""
    kind = str(getattr(value, "dtype", type(value).__name__))
    if kind.removeprefix("torch.") in ("bool", "bool_") or getattr(value, "ndim", 0) != 0:
        return False
    try:
        operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):  # torch's for what is not on this machine
        return False
    return True
