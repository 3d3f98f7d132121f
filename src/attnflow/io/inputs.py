"""Inputs in the forms that callers give: one or many, and their targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from os import PathLike
from typing import Any

from attnflow.errors import InputError

NO_TEXT = 'no text; give one in quotes, such as "the keys to the cabinet"'


def as_list(given: Any) -> tuple[list[Any], bool]:
    """The inputs as a list, and whether a single one was given: a text, a path, an image.

    Many are any iterable with one axis: a list, a pandas Series, a NumPy array of strings, a
    generator. Arrays with more axes are images.
    """
    single = isinstance(given, str | bytes | PathLike | Mapping) or not isinstance(given, Iterable)
    if single or getattr(given, "ndim", 1) != 1:
        return [given], True
    return list(given), False


def each_target(target: Any, count: int) -> Sequence[Any]:
    """One target per input: the same for all, or a list."""
    if target is None or isinstance(target, str | Integral):
        return [target] * count
    targets, _ = as_list(target)
    if len(targets) != count:
        msg = f"there are {len(targets)} targets and {count} texts; give one, or one per text"
        raise InputError(msg)
    return targets
