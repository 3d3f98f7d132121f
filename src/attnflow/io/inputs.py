"""Inputs in the forms that callers give: one or many, and their targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from os import PathLike
from typing import Any

from attnflow.errors import InputError, shown

NO_TEXT = 'no text; give one in quotes, such as "The food was not good."'


def as_list(given: Any) -> tuple[list[Any], bool]:
    """The inputs as a list, and whether a single one was given: a text, a path, an image.

    Many are any iterable with one axis: a list, a pandas Series, a NumPy array of strings, a
    generator. An array of numbers is one input: a sound, or an image. So is a tuple of two texts,
    which a model reads as a pair (a premise and a hypothesis).
    """
    if is_pair(given):
        return [given], True
    numbers = hasattr(given, "dtype") and getattr(given.dtype, "kind", "f") in tuple("fiu")
    one = numbers or isinstance(given, str | bytes | bytearray | memoryview | PathLike | Mapping)
    single = one or not isinstance(given, Iterable)
    if single or getattr(given, "ndim", 1) != 1:
        return [given], True
    return list(given), False


def as_inputs(given: Any) -> tuple[list[Any], bool]:
    """The same of what a model reads: a list of integers is one input, the ids of its tokens."""
    ids = isinstance(given, list | tuple) and given and all(type(each) is int for each in given)
    return ([given], True) if ids else as_list(given)


def is_pair(given: Any) -> bool:
    """Whether this is a tuple of two texts, which are read as one input."""
    return (
        isinstance(given, tuple)
        and len(given) == 2
        and all(isinstance(part, str) for part in given)
    )


def check_unicode(name: str, given: Any) -> Any:
    """What was given, unless it is a text that no tokenizer and no file can take."""
    if is_pair(given):
        return tuple(check_unicode(name, part) for part in given)
    if isinstance(given, str):
        try:
            given.encode()
        except UnicodeEncodeError as error:
            msg = (
                f"{name}={shown(given)} is not Unicode text: character {error.start} is a lone "
                "surrogate, which bytes leave behind that are not UTF-8; repair it with "
                "text.encode(errors='replace').decode()"
            )
            raise InputError(msg) from None
    return given


def check_choice(name: str, given: Any) -> str | int | None:
    """A label, token or text by its name or number; ``None`` leaves the choice to the model."""
    given = _scalar(given)
    if isinstance(given, Integral) and not isinstance(given, bool) and abs(int(given)) < 1 << 63:
        return int(given)
    if given is None or isinstance(given, str):
        chosen: str | None = check_unicode(name, given)
        return chosen
    msg = f"{name}={shown(given)} must be a text, a number or None"
    raise InputError(msg)


def _scalar(given: Any) -> Any:
    """An array of no axes as the one value that it holds."""
    alone = getattr(given, "ndim", None) == 0 and hasattr(given, "item")
    return given.item() if alone and str(getattr(given, "device", "cpu")) != "meta" else given


def one_each(
    name: str, value: Any, count: int, check: Callable[[str, Any], Any] = check_choice
) -> Sequence[Any]:
    """One value per input: the same for all, or a list; ``name`` is that of the argument."""
    value = _scalar(value)
    if value is None or isinstance(value, str | Integral):
        return [check(name, value)] * count
    values = list(value) if isinstance(value, tuple) else as_list(value)[0]
    if len(values) != count:
        msg = f"there are {len(values)} {name}s and {count} texts; give one, or one per text"
        raise InputError(msg)
    return [check(name, each) for each in values]


def several(name: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several, each once."""
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or len(set(names)) < len(names):
        msg = f"{name}={shown(given)} must name at least one, and each once"
        raise InputError(msg)
    return names
