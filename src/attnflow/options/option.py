"""What is declared of an option, and the keywords and refusals that follow from a table of them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, cleandoc, signature
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, TypeVar

from attnflow.errors import InputError, shown
from attnflow.io.keywords import check_keywords, plain_torch

if TYPE_CHECKING:
    from attnflow.models.loading import Source

T = TypeVar("T")
KEY = "option"
# The groups in which help pages list options.
INPUT, LOADING, SELECTION, WORK = "Input", "Loading", "Selection", "Work"


class Unless(NamedTuple):
    """Why an option does not apply, and which of its values do all the same."""

    why: str
    applies: Callable[[Any], bool]


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
        not_for: The functions and the situations that it does not apply to, each with the reason.
        recorded: Whether results depend on it, so that a run is continued with the same value only.
        described: Whether a result's ``options`` have it where it was given.
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
    not_for: Mapping[str, str | Unless] = field(default_factory=dict)
    recorded: bool = True
    described: bool = False


def option(default: T, help: str, flags: str = "", **about: Any) -> T:
    """The default of a table's field, declared with what `Option` has."""
    return field(default=default, metadata=required(help, flags, **about))


def required(help: str, flags: str = "", **about: Any) -> dict[str, Option]:
    """What is declared of a field without a default: ``field(metadata=required(…))``."""
    names, metavar = split_flags(flags)
    return {KEY: Option(help, flags=names, metavar=metavar, **about)}


def split_flags(flags: str) -> tuple[tuple[str, ...], str | None]:
    """Flags as a help page has them, and what stands for their value.

    >>> split_flags("--query -q TOKEN"), split_flags("--words")
    ((('--query', '-q'), 'TOKEN'), (('--words',), None))
    """
    names = tuple(each for each in flags.split() if each.startswith("-"))
    value = flags.split()[len(names) :]
    return names, value[0] if value else None


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


def has_use(known: Option, function: str) -> bool:
    """Whether an option applies to a function, whatever its value or with some values."""
    return not isinstance(known.not_for.get(function), str)


def is_given(table: Any, name: str) -> bool:
    """Whether an option has another value than its default."""
    value = getattr(table, name)
    (default,) = (each.default for each in fields(table) if each.name == name)
    return value is not default and not (type(value) is type(default) and value == default)


def refuse_all(table: Any, situation: str, what: str = "") -> None:
    """Refuse the options of a table that were given and do not apply to a function or situation.

    ``what`` is what the situation is called in errors; a function has its own name.
    """
    for name, (_, declared) in options_of(table).items():
        if situation in declared.not_for and is_given(table, name):
            refuse(table, name, getattr(table, name), situation, what)


def refuse(table: Any, name: str, value: object, situation: str, what: str = "") -> None:
    """Refuse a value of one option of a table, unless it applies in the situation all the same."""
    reason = options_of(table)[name][1].not_for[situation]
    why, applies = reason if isinstance(reason, Unless) else (reason, None)
    if applies is None or not applies(value):
        msg = f"{name}={shown(value)} does not apply to {what or situation}: {why}"
        raise InputError(msg)


def values_of(table: Any, names: Any = None) -> dict[str, Any]:
    """The values of a table's options by their names."""
    names = options_of(table) if names is None else names
    return {name: getattr(table, name) for name in names}


def described(table: Any) -> dict[str, Any]:
    """The options that were given and that a result's ``options`` have then."""
    declared = options_of(table).items()
    found = [name for name, (_, about) in declared if about.described and is_given(table, name)]
    return values_of(table, found)


P = ParamSpec("P")
Returned_co = TypeVar("Returned_co", covariant=True)
WIDTH = 96
FAMILIES = {"{methods}": "METHODS", "{edges}": "EDGE_RULES"}


def takes(table: Any, **others: Any) -> Callable[[Callable[..., Any]], Any]:
    """Give a function the options of a table as keywords.

    The function is called with the filled-in table as ``options``. Its signature shows every
    keyword with type and default, and its documentation says what each means. For type checkers, a
    protocol copies the keywords of the table's constructor (`FromText`). ``others`` are functions
    with their tables, which an error names that is about one of their keywords.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        declared = options_of(table)
        found = signature(function)
        own = [each for each in found.parameters.values() if each.name != "options"]
        having = [one for one in declared.values() if has_use(one[1], function.__name__)]
        shown = found.replace(parameters=[*own, *(_parameter(each) for each, _ in having)])
        known = tuple(shown.parameters)
        flags = [name for name, (each, _) in declared.items() if type_name(each) == "bool"]
        needed = [name for name, (each, _) in declared.items() if not has_default(each)]
        elsewhere = {key: name for name, other in others.items() for key in options_of(other)}

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            rest = {name: value for name, value in keywords.items() if name not in declared}
            check_keywords(function.__name__, rest, known, elsewhere)
            if missing := [name for name in needed if name not in keywords]:
                msg = f"{function.__name__}() needs the argument {missing[0]}="
                raise TypeError(msg)
            options = table(**{name: keywords[name] for name in declared if name in keywords})
            from attnflow.records.checks import check_flags  # numpy takes its time

            check_flags({name: getattr(options, name) for name in flags})
            refuse_all(options, function.__name__)
            with plain_torch():
                return function(*args, options=options, **rest)

        call.__dict__["__signature__"] = shown
        call.__doc__ = document(function.__doc__ or "", having)
        return call

    return decorate


class FromText(Protocol[P, Returned_co]):
    """A function of an input, a model and the keywords ``P``."""

    def __call__(
        self, text: Any, model: Source = None, *args: P.args, **options: P.kwargs
    ) -> Returned_co:
        """Call it."""


def takes_text(
    table: Callable[P, Any],
) -> Callable[[Callable[..., Returned_co]], FromText[P, Returned_co]]:
    """`takes`, with static types, for functions that make one result of an input and a model."""
    return takes(table)


def _parameter(each: Field[Any]) -> Parameter:
    default = each.default if has_default(each) else Parameter.empty
    return Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=each.type)


def document(text: str, declared: Iterable[tuple[Field[Any], Option]]) -> str:
    """A docstring with the options at the end of its arguments."""
    about = "\n".join(_describe(each.name, known) for each, known in declared)
    before, args, after = cleandoc(text).partition("\nArgs:\n")
    end = re.search(r"\n\n(?=\S)|\Z", after)
    at = end.start() if end else len(after)
    return f"{before}{args}{after[:at]}\n{about}{after[at:]}"


def _describe(name: str, known: Option) -> str:
    words = f"{name}: {known.help} {known.more}".strip()
    for placeholder, family in FAMILIES.items():
        words = words.replace(placeholder, f"a name in ``attnflow.{family}``")
    return textwrap.fill(
        words, WIDTH, initial_indent="    ", subsequent_indent="        ", break_on_hyphens=False
    )
