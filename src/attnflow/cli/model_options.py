"""Options of how a model is loaded, the same in every command that loads one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnflow.errors import InputError

if TYPE_CHECKING:
    from attnflow.models.loading import ModelReference
    from attnflow.solvers.execution import Execution

_LOADING = "Loading"

Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Where the model runs: cpu, cuda, cuda:1, mps.",
        rich_help_panel=_LOADING,
        show_default="cpu",
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="NAME",
        help="Precision of the weights: float32, float16, bfloat16, or auto for the checkpoint's.",
        rich_help_panel=_LOADING,
        show_default="what transformers chooses",
    ),
]
Revision = Annotated[
    str | None,
    typer.Option(
        "--revision",
        metavar="NAME",
        help="A branch, tag or commit of a model on the hub; the same as --model NAME@REVISION.",
        rich_help_panel=_LOADING,
        show_default=False,
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        help="Let code that comes with the model run; read it first.",
        rich_help_panel=_LOADING,
    ),
]


def choose(
    model: str | None,
    device: str | None,
    dtype: str | None,
    revision: str | None,
    trust: bool,
) -> str | ModelReference | None:
    """The model that was named, with how it is loaded where that was said."""
    named = _at(model, revision)
    given: dict[str, Any] = {"device": None if device == "auto" else device, "dtype": dtype}
    if trust:
        given["trust_remote_code"] = True
    if not any(given.values()):
        return named
    from attnflow.models.loading import LoadOptions, ModelReference

    return ModelReference(named, LoadOptions(**given))


def execution(device: str | None) -> Execution:
    """Where flow is solved: on the CPU where that is named, else where it pays."""
    from attnflow.solvers.execution import Execution

    return Execution(device="cpu" if device == "cpu" else "auto")


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
