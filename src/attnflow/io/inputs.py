"""Inputs in the forms that callers give: one or many, and their targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from os import PathLike
from typing import Any

from attnflow.errors import InputError, shown

NO_TEXT = 'no text; give one in quotes, such as "The food was not good."'


@dataclass(frozen=True)
class TokenIds:
    """A text that was tokenized before: the numbers of its tokens, and what else a model is given.

    Padding is left out.
    """

    ids: tuple[int, ...]
    others: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


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
    """The same of what a model reads: lists of integers and what a tokenizer returned are ids."""
    items, single = ([given], True) if _token_ids(given) else as_list(given)
    return [_token_ids(each) or each for each in items], single


def _token_ids(given: Any) -> TokenIds | None:
    """Token ids, where that is what was given: a list of integers, or what a tokenizer returned."""
    if isinstance(given, list) and given and all(type(each) is int for each in given):
        return TokenIds(tuple(given))
    if not (isinstance(given, Mapping) and "input_ids" in given and hasattr(given, "encodings")):
        return None
    rows = {name: _numbers(name, values) for name, values in given.items()}
    size = len(rows["input_ids"])
    kept = [at for at, real in enumerate(rows.get("attention_mask", [1] * size)) if real]
    chosen = {
        name: tuple(row[at] for at in kept)
        for name, row in rows.items()
        if name != "attention_mask" and len(row) == size
    }
    return TokenIds(chosen.pop("input_ids"), chosen)


def _numbers(name: str, values: Any) -> list[int]:
    """The one row of numbers that a tokenizer returned: a list or a tensor, in a batch or alone."""
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    if listed and isinstance(listed[0], list):
        if len(listed) > 1 and name == "input_ids":
            msg = (
                f"input_ids has {len(listed)} rows, and what a tokenizer returned is one input; "
                "give a list with one for each"
            )
            raise InputError(msg)
        return list(listed[0])
    return listed


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


def one_each(name: str, value: Any, count: int) -> Sequence[Any]:
    """One value per input: the same for all, or a list; ``name`` is that of the argument."""
    value = _scalar(value)
    if value is None or isinstance(value, str | Integral):
        return [check_choice(name, value)] * count
    values = list(value) if isinstance(value, tuple) else as_list(value)[0]
    if len(values) != count:
        msg = f"there are {len(values)} {name}s and {count} texts; give one, or one per text"
        raise InputError(msg)
    return [check_choice(name, each) for each in values]


def several(name: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several, each once."""
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or len(set(names)) < len(names):
        msg = f"{name}={shown(given)} must name at least one, and each once"
        raise InputError(msg)
    return names
