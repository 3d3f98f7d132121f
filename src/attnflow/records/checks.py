"""Checks of the fields of records, whether a model, a plugin or a file provides them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.records.arrays import is_tensor, to_numpy
from attnflow.records.selection import is_integer
from attnflow.records.types import FloatArray

Check = Callable[[str, Any], Any]  # of a field's name and value; returns what is kept
DEEPEST = 32  # levels of lists and dicts within each other


def checked(record: object, fields: Mapping[str, Check]) -> dict[str, Any]:
    """Fields of a record by their names, each as its check returns it."""
    return {name: check(name, getattr(record, name)) for name, check in fields.items()}


def keep_checked(record: object, fields: Mapping[str, Check]) -> None:
    """Check fields of a frozen record, which has them from then on as their checks return them."""
    for name, value in checked(record, fields).items():
        object.__setattr__(record, name, value)


def check_text(name: str, given: object) -> str:
    """A text."""
    if not isinstance(given, str):
        msg = f"{name}={shown(given)} must be a text"
        raise InputError(msg)
    return given


def check_texts(name: str, given: object) -> tuple[str, ...]:
    """Several texts; a single text is not taken for a list of its letters."""
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        msg = f"{name}={shown(given)} must be a list of texts"
        raise InputError(msg)
    return tuple(check_text(f"{name}[{at}]", each) for at, each in enumerate(given))


def check_number(name: str, given: object, low: int, high: int | None = None) -> int:
    """An integer from ``low`` to ``high``."""
    # Most are plain integers, which need no closer look.
    plain = type(given) is int
    number = operator.index(given) if plain or is_integer(given) else None  # type: ignore[arg-type]
    if number is None or number < low or (high is not None and number > high):
        allowed = f"of at least {low}" if high is None else f"from {low} to {high}"
        msg = f"{name}={shown(given)} must be an integer {allowed}"
        raise InputError(msg)
    return number


def check_numbers(name: str, given: object, low: int, high: int | None = None) -> tuple[int, ...]:
    """Integers that rise from ``low`` or more to ``high`` or less."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | np.ndarray):
        msg = f"{name}={shown(given)} must be a list of integers"
        raise InputError(msg)
    numbers = tuple(check_number(f"{name}[{at}]", each, low, high) for at, each in enumerate(given))
    if list(numbers) != sorted(set(numbers)):
        msg = f"{name}={shown(list(numbers))} must rise, each number once"
        raise InputError(msg)
    return numbers


def check_positions(name: str, given: object, last: int) -> tuple[int, ...]:
    """Positions from 0 to ``last``, in any order, some perhaps more than once."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | np.ndarray):
        msg = f"{name}={shown(given)} must be a list of positions"
        raise InputError(msg)
    return tuple(check_number(f"{name}[{at}]", each, 0, last) for at, each in enumerate(given))


def check_places(name: str, given: object, count: int) -> tuple[int | None, ...]:
    """Numbers from 0 to below ``count``, with ``None`` where something has none."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        msg = f"{name}={shown(given)} must be a list with an integer or None for each token"
        raise InputError(msg)
    return tuple(
        None if each is None else check_number(f"{name}[{at}]", each, 0, count - 1)
        for at, each in enumerate(given)
    )


def check_real(name: str, given: object) -> float:
    """A finite number."""
    try:
        value = float(given) if isinstance(given, Real) else math.nan
    except OverflowError:
        value = math.inf
    if isinstance(given, bool) or not math.isfinite(value):
        msg = f"{name}={shown(given)} must be a finite number"
        raise InputError(msg)
    return value


def check_flag(name: str, given: object) -> bool:
    """True or False, of Python or NumPy."""
    if not isinstance(given, bool | np.bool_):
        msg = f"{name}={shown(given)} must be True or False"
        raise InputError(msg)
    return bool(given)


def check_flags(given: Mapping[str, object]) -> dict[str, bool]:
    """Several flags by their names."""
    return {name: check_flag(name, each) for name, each in given.items()}


def check_mapping(name: str, given: object) -> Mapping[str, Any]:
    """A read-only copy of a dict with texts as keys, which is not nested too deeply."""
    if not isinstance(given, Mapping):
        msg = f"{name}={shown(given)} must be a dict"
        raise InputError(msg)
    for key in given:
        check_text(f"a key of {name}", key)
    level: list[Any] = [given]
    for _ in range(DEEPEST):
        parts = [each.values() if isinstance(each, Mapping) else each for each in level]
        level = [each for each in chain(*parts) if isinstance(each, Mapping | list | tuple)]
    if level:
        msg = f"{name} is nested more than {DEEPEST} levels deep"
        raise InputError(msg)
    return MappingProxyType(dict(given))


def check_scores(name: str, given: object) -> FloatArray:
    """A read-only copy in float64; texts, booleans and missing values are refused."""
    try:
        if isinstance(given, list | tuple):
            _check_leaves(given)
        array = np.array(to_numpy(given) if is_tensor(given) else given)
        if array.dtype.kind not in "fiu":
            msg = f"{name} are {array.dtype}; they must be an array of numbers"
            raise InputError(msg)
        scores: FloatArray = array.astype(np.float64)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        msg = f"{name} must be an array of numbers: {error}"
        raise InputError(msg) from error
    if not np.isfinite(scores).all():
        msg = f"{name} must be finite; these hold NaN or infinity"
        raise InputError(msg)
    scores.flags.writeable = False
    return scores


def _check_leaves(given: Sequence[Any]) -> None:
    """Refuse what NumPy would turn into numbers: texts, booleans, ``None``."""
    level: list[Any] = list(given)
    for _ in range(3):
        if not all(isinstance(each, list | tuple) for each in level):
            break
        level = list(chain.from_iterable(level))
    kinds = {kind for kind in map(type, level) if not hasattr(kind, "dtype")}
    wrong = sorted(kind.__name__ for kind in kinds - {int, float})
    if wrong:
        msg = f"scores hold {', '.join(wrong)}; they must be numbers"
        raise InputError(msg)
