"""The commands of ``attnflow[experiments]``, which is a package of its own."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from typer import Context, Typer
from typer.core import TyperCommand

from attnflow.errors import InputError

PACKAGE = "attnflow_experiments"
ABOUT = {
    "bench": "Measure attention flow against maximum-flow libraries.",
    "reproduce": "Reproduce the paper's tables and figures.",
    "train": "Train the shipped models again, or a classifier of your own.",
}
INSTALL = "pip install 'attnflow[experiments]'"


def add_experiments(app: Typer, command_class: type[TyperCommand]) -> None:
    """Add the commands of the installed package, or commands that say how to install it."""
    options: dict[str, Any] = {"cls": command_class, "rich_help_panel": "Experiments"}
    if find_spec(PACKAGE) is not None:
        for command in import_module(f"{PACKAGE}.commands").COMMANDS:
            app.command(**options)(command)
        return
    # Whatever follows the name, the answer is that the package is missing.
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    for name, about in ABOUT.items():
        app.command(name, help=f"{about} Needs {INSTALL}.", context_settings=anything, **options)(
            _refusal(name)
        )


def _refusal(name: str) -> Callable[[Context], None]:
    def refuse(context: Context) -> None:
        msg = f"attnflow {name} belongs to the experiments, which are not installed: {INSTALL}"
        raise InputError(msg)

    return refuse
