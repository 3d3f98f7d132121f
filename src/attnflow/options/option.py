"""What is declared of an option, and how it is read from a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from attnflow.errors import InputError, shown

T = TypeVar("T")
KEY = "option"
# The groups in which help pages list options.
INPUT, LOADING, SELECTION, WORK = "Input", "Loading", "Selection", "Work"


@dataclass(frozen=True)
class Option:
    """What is known of an option beside its name, type and default.

    Attributes:
        help: What it does, in a sentence or two; ``{methods}`` and ``{edges}`` are names.
        more: What only the documentation of Python functions adds.
        flags: What it is called on the command line; empty where it has no flag.
        metavar: What stands for its value in a help page.
        panel: The group of a help page that lists it.
        shows: The default in words, where its value says little.
        parse: Makes a value of the text that a flag is given; numbers need none.
        least: The smallest number that the command line takes.
        served: Whether requests to the server may have it.
        not_for: The functions that it does not apply to, each with the reason.
        recorded: Whether results depend on it, so that a run is continued with the same value only.
    """

    help: str
    more: str = ""
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    panel: str = SELECTION
    shows: str | bool | None = None
    parse: Callable[[str], Any] | None = None
    least: float | None = None
    served: bool = False
    not_for: Mapping[str, str] = field(default_factory=dict)
    recorded: bool = True


def option(default: T, help: str, *flags: str, **about: Any) -> T:
    """The default of a table's field, declared with what `Option` has."""
    return field(default=default, metadata=required(help, *flags, **about))


def required(help: str, *flags: str, **about: Any) -> dict[str, Option]:
    """What is declared of a field without a default: ``field(metadata=required(…))``."""
    return {KEY: Option(help, flags=flags, **about)}


def options_of(table: Any) -> dict[str, tuple[Field[Any], Option]]:
    """The options of a table by their names: those that it adds to others come first."""
    table = table if isinstance(table, type) else type(table)
    shared = {each.name for base in table.__bases__ if is_dataclass(base) for each in fields(base)}
    declared = [each for each in fields(table) if KEY in each.metadata]
    return {
        each.name: (each, each.metadata[KEY])
        for each in sorted(declared, key=lambda each: each.name in shared)
    }


def has_default(declared: Field[Any]) -> bool:
    """Whether an option may be left out."""
    return declared.default is not MISSING


def type_name(declared: Field[Any]) -> str:
    """An option's type as it is written: ``"int | None"``."""
    kind = declared.type
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def is_given(table: Any, name: str) -> bool:
    """Whether an option has another value than its default."""
    value = getattr(table, name)
    (default,) = (each.default for each in fields(table) if each.name == name)
    return value is not default and not (type(value) is type(default) and value == default)


def refuse(table: Any, names: Any, what: str, why: str) -> None:
    """Refuse those of these options that were given, since they do not apply to something."""
    for name in names:
        if is_given(table, name):
            msg = f"{name}={shown(getattr(table, name))} does not apply to {what}: {why}"
            raise InputError(msg)


def refuse_all(table: Any, function: str) -> None:
    """Refuse the options of a table that do not apply to a function."""
    for name, (_, declared) in options_of(table).items():
        if function in declared.not_for:
            refuse(table, [name], function, declared.not_for[function])


def values_of(table: Any, names: Any = None) -> dict[str, Any]:
    """The values of a table's options by their names."""
    return {name: getattr(table, name) for name in names or options_of(table)}
