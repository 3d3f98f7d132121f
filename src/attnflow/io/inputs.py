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
    of strings, a generator. Arrays of more axes are images. A tuple of two texts is how libraries
    write a pair that a model reads as one (a premise and a hypothesis), so it is refused.
    """
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(g, str) for g in given):
        msg = (
            "a tuple of two texts is a pair, and pairs that are read as one can't be explained; "
            "for two texts, give a list of them"
        )
        raise InputError(msg)
    whole = isinstance(given, str | bytes | PathLike | Mapping) or not isinstance(given, Iterable)
    if whole or getattr(given, "ndim", 1) != 1:
        return [given], True
    return list(given), False


def each_target(target: Any, count: int) -> Sequence[Any]:
    """One target an input: the same for all, or a list."""
    if target is None or isinstance(target, str | Integral):
        return [target] * count
    targets = list(target) if isinstance(target, tuple) else listed(target)[0]
    if len(targets) != count:
        msg = f"there are {len(targets)} targets and {count} texts; give one, or one a text"
        raise InputError(msg)
    return targets
