"""Commands whose flags come from a table of options."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import Field, dataclass, fields
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnflow.errors import InputError
from attnflow.options.option import (
    INPUT,
    LOADING,
    Option,
    has_default,
    option,
    options_of,
    type_name,
)
from attnflow.shipped import DEFAULT

if TYPE_CHECKING:
    from attnflow.models.loading import Source
    from attnflow.pipeline.request import Request

Given = dict[str, Any]  # the options that were given, by their names in Python
PLAIN = {"int": int, "float": float, "bool": bool}


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which model is loaded, and how."""

    model: str | None = option(
        None,
        "A shipped model ({shipped}), a Hugging Face name, a folder or a GGUF file.",
        "--model -m NAME",
        panel=INPUT,
        shows=DEFAULT,
    )
    dtype: str | None = option(
        None,
        "Precision of the weights: float32, float16, bfloat16, or auto for the checkpoint's.",
        "--dtype NAME",
        panel=LOADING,
        shows="what transformers chooses",
    )
    revision: str | None = option(
        None,
        "A branch, tag or commit of a model on the hub; the same as --model NAME@REVISION.",
        "--revision NAME",
        panel=LOADING,
        shows=False,
    )
    trust_remote_code: bool = option(
        False,
        "Let code that comes with the model run; read it first.",
        "--trust-remote-code",
        panel=LOADING,
    )


def command(
    table: Any, *, several: Collection[str] = (), without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function, with a flag for each option of a table that has one.

    The function is called with its own arguments and with ``options``, those that were given. One
    with an argument ``model`` also has the flags of `ModelOptions`, and gets the model.

    Args:
        table: The table.
        several: The options that may be repeated.
        without: The options that this command does not have.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = signature(function, eval_str=True).parameters
        taken = {
            name: (each, known)
            for name, (each, known) in options_of(table).items()
            if known.flags and name not in (*own, *without)
        }
        loading = options_of(ModelOptions) if "model" in own else {}
        # Where the model is an argument and not an option, the function says so itself.
        parameters = [
            each for name, each in own.items() if name != "options" and each.annotation is not Any
        ]

        def run(**keywords: Any) -> None:
            given = {name: keywords.pop(name) for name in taken}
            options = {
                name: _parsed(taken[name][1], value)
                for name, value in given.items()
                if not _left_out(value, taken[name][0])
            }
            if loading:
                how = {name: keywords.pop(name) for name in loading}
                keywords["model"] = choose(**how, device=options.get("device"))
            function(**keywords, options=options)

        named = [each.name for each in parameters]
        parameters += [
            _parameter(each, known, repeated=name in several)
            for name, (each, known) in (loading | taken).items()
            if name not in named
        ]
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__dict__["__signature__"] = Signature(
            [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
        )
        return run

    return decorate


def _left_out(value: Any, each: Field[Any]) -> bool:
    # Identity, not equality: 0 equals False, and was given. So was --no-NAME of a flag that may
    # also be left open.
    flag_not_set = value is False and type_name(each) == "bool"
    return value is None or flag_not_set or value == []


def _parsed(known: Option, value: Any) -> Any:
    return known.parse(value) if known.parse and isinstance(value, str) else value


def _parameter(each: Field[Any], known: Option, *, repeated: bool) -> Parameter:
    """An option as typer takes it; what is left out is ``None``, so that the table decides."""
    kind = type_name(each)
    required, flag = not has_default(each), kind == "bool"
    typed: Any = PLAIN.get(kind.removesuffix(" | None"), str)
    if repeated:
        typed = list[str]
    shows = known.shows
    if shows is None and not flag and each.default is not None and not required:
        shows = str(each.default)
    about = typer.Option(
        *known.flags,
        metavar=known.metavar,
        help=known.help.replace("``", ""),
        min=known.least,
        autocompletion=_completion(known.help),
        rich_help_panel=known.panel,
        show_default=True if shows is None else shows,
    )
    return Parameter(
        each.name,
        Parameter.KEYWORD_ONLY,
        default=Parameter.empty if required else (False if flag else None),
        annotation=Annotated[typed if required or flag else typed | None, about],
    )


def _completion(help: str) -> Callable[[], list[str]] | None:
    """The names that a shell completes, where an option chooses one."""

    def methods() -> list[str]:
        from attnflow.methods import METHODS

        return list(METHODS)

    def rules() -> list[str]:
        from attnflow.edges import EDGE_RULES

        return list(EDGE_RULES)

    return methods if "{methods}" in help else rules if "{edges}" in help else None


Model = _parameter(*options_of(ModelOptions)["model"], repeated=False).annotation


def make_request(options: Given, **changes: Any) -> Request:
    """The request that a command's options make, with what the command itself decides."""
    from attnflow.pipeline.request import AUTO, Request

    known = {each.name for each in fields(Request)}
    given = {name: value for name, value in options.items() if name in known}
    if isinstance(given.get("method"), list):
        methods = parse_methods(given.pop("method"))
        given |= {"method": methods[0] if methods else AUTO, "methods": tuple(methods)}
    return Request(**(given | changes))


def parse_methods(given: list[str] | None) -> list[str]:
    """The methods that were named; none leaves the choice to the model."""
    from attnflow.methods import METHODS

    if given and "auto" in given and len(given) > 1:
        msg = "--method auto can't be combined with other methods; leave them out"
        raise InputError(msg)
    return [METHODS[name].name for name in given or () if name != "auto"]


def choose(
    model: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Source:
    """The model that was named, with how it is loaded where that was said."""
    named = _at(model, revision)
    given: dict[str, Any] = {"device": None if device == "auto" else device, "dtype": dtype}
    if trust_remote_code:
        given["trust_remote_code"] = True
    if not any(given.values()):
        return named
    from attnflow.models.loading import LoadOptions, ModelReference

    return ModelReference(named, LoadOptions(**given))


def _at(model: str | None, revision: str | None) -> str | None:
    """The name with its revision."""
    if revision is None:
        return model
    if model is None:
        msg = f"--revision {revision} is for a model of the hub; name it by --model"
        raise InputError(msg)
    from attnflow.models.locating import exists

    if exists(Path(model).expanduser()):
        msg = f"--revision {revision} is for models of the hub, and {model} is on this machine"
        raise InputError(msg)
    name, _, written = model.partition("@")
    if written not in ("", revision):
        msg = f"--model {model} names a revision, and --revision {revision} another"
        raise InputError(msg)
    return f"{name}@{revision}"
