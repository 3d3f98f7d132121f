"""Inputs as they are given: one or many, and what goes with each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from os import PathLike
from typing import Any

from attnflow.errors import InputError

NO_TEXT = 'no text; give one in quotes, such as "the keys to the cabinet"'


def listed(given: Any) -> tuple[list[Any], bool]:
    """The inputs as a list, and whether one was given: a text, a path, an image.

    Many are whatever can be gone through and has one axis: a list, a pandas Series, a NumPy array
    of strings, a generator. Arrays of more axes are images.
    """
    whole = isinstance(given, str | bytes | PathLike | Mapping) or not isinstance(given, Iterable)
    if whole or getattr(given, "ndim", 1) != 1:
        return [given], True
    return list(given), False


def one_each(name: str, value: Any, count: int) -> Sequence[Any]:
    """One value per input: the same for all, or a list; ``name`` is that of the argument."""
    if value is None or isinstance(value, str | Integral):
        return [value] * count
    values, _ = listed(value)
    if len(values) != count:
        msg = f"there are {len(values)} {name}s and {count} texts; give one, or one per text"
        raise InputError(msg)
    return values
