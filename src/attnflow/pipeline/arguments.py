"""Arguments as they are given, made plain: numbers of NumPy and torch, generators, fractions.

What can't be made plain is refused here, or left as it is for the check that names what is allowed.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Rational, Real
from os import PathLike
from typing import Any, get_args

from attnflow.edges.options import HeadRule
from attnflow.errors import InputError, shown, unknown
from attnflow.io.files import as_path
from attnflow.records.learned import LearnedHeads
from attnflow.records.selection import is_integer, listed_numbers

HUGE = 1 << 63
MOST_STEPS = 4096  # that can be asked for: finding so many points takes seconds


def plain_query(given: Any) -> int | str | None:
    """A position as an integer, a token as text."""
    if is_integer(given):
        return operator.index(given)
    if given is None or isinstance(given, str):
        return given
    msg = f"query={shown(given)} must be a position, a token's text, 'all' or None"
    raise InputError(msg)


def plain_layer(given: Any) -> Any:
    """A layer as an integer."""
    return operator.index(given) if is_integer(given) else given


def plain_layers(given: Any) -> Any:
    """Layers as a tuple of integers; ``"all"`` and ``None`` as they are."""
    if given is None or (isinstance(given, str) and given == "all"):
        return given
    if isinstance(given, str):
        raise InputError(unknown("layers", given, ["all"], "numbers 1 … L", "None"))
    return _layers("layers", listed_numbers(given))


def _layers(name: str, given: Sequence[Any]) -> tuple[int, ...]:
    for each in given:
        if not is_integer(each):
            msg = f"{name}={shown(each)} must be an integer: 1 … L, or negative from the top"
            raise InputError(msg)
    return tuple(operator.index(each) for each in given)


def plain_share(name: str, given: Any) -> Any:
    """A share of any number type as a float."""
    if isinstance(given, Real) and not isinstance(given, bool):
        _check_size(name, given, given)
        return float(given)
    if given is None:
        return None
    msg = f"{name}={shown(given)} must be a number from 0 (off) to below 1"
    raise InputError(msg)


def plain_heads(given: Any) -> Any:
    """Head numbers as a tuple of integers, weights as a tuple of floats, a file as its content."""
    if isinstance(given, LearnedHeads):
        return given
    if isinstance(given, PathLike) or (isinstance(given, str) and given.endswith(".json")):
        return LearnedHeads.load(as_path(given))
    if isinstance(given, Real):
        _check_size("heads", given, given)
    if isinstance(given, str | Real):
        return given
    listed = isinstance(given, Sequence) and not isinstance(given, bytes | bytearray | memoryview)
    heads = tuple(given) if listed else ()
    if not listed or not all(isinstance(h, Real) and not isinstance(h, bool) for h in heads):
        lists = "a list of integers or of weights"
        learned = "learned heads or their .json file"
        raise InputError(unknown("heads", given, get_args(HeadRule), lists, learned))
    for head in heads:
        _check_size("heads", head, given)
    whole = all(isinstance(head, Integral) for head in heads)
    return tuple(int(head) if whole else float(head) for head in heads)


def check_steps(given: Any) -> None:
    """Refuse what is no number of points on a line."""
    if given is not None and not (is_integer(given) and 1 <= given <= MOST_STEPS):
        msg = f"steps={shown(given)} must be an integer from 1 to {MOST_STEPS}, or None"
        raise InputError(msg)


def check_batch_size(given: Any) -> None:
    """Refuse what is no number of inputs."""
    if not (is_integer(given) and given >= 1):
        msg = f"batch_size={shown(given)} must be an integer of at least 1"
        raise InputError(msg)


def _check_size(name: str, number: Any, given: Any) -> None:
    """Refuse numbers too large to be written in an error, or to be floats."""
    if isinstance(number, Rational) and not -HUGE < Fraction(number) < HUGE:
        msg = f"{name}={shown(given)} is far too large"
        raise InputError(msg)
