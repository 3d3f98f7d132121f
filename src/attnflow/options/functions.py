"""Public functions whose keywords, signature and documentation come from a table of options."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import Field
from functools import wraps
from inspect import Parameter, cleandoc, signature
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from attnflow.io.keywords import check_keywords
from attnflow.io.surroundings import plain_torch
from attnflow.options.option import Option, has_default, options_of, refuse_all, type_name

if TYPE_CHECKING:
    from attnflow.models.loading import Source

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
        having = [one for one in declared.values() if function.__name__ not in one[1].not_for]
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
            from attnflow.records.checks import check_flag  # numpy takes its time

            for name in flags:
                check_flag(name, getattr(options, name))
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
