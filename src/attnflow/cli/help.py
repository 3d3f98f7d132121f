"""Help pages as plain text, grouped.

Typer's own pages, drawn with rich, take longer than the rest of the program's start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

HELP = ("-h", "--help")
ARGUMENTS = "Arguments"
OPTIONS = "Options"
ORDER = (ARGUMENTS, "Edges", "Input", "Loading", "Selection", "Look", "Work", "Output")


def find_page(app: Any, arguments: Sequence[str]) -> str | None:
    """The help page, where these arguments ask for one and for nothing else.

    It is written without parsing them, for which typer loads pydantic: half of the program's start.
    """
    if not arguments or arguments[-1] not in HELP or len(arguments) > 2:
        return None
    program: Any = get_command(app)
    context = program.context_class(program, info_name="attnflow", **program.context_settings)
    if len(arguments) == 1:
        return str(context.get_help())
    command = program.commands.get(arguments[0])
    if command is None:
        return None
    inner = command.context_class(
        command, info_name=command.name, parent=context, **command.context_settings
    )
    return str(inner.get_help())


def write_options(command: Any, context: Any, formatter: Any) -> None:
    """Arguments, then the groups of options, those without a group last."""
    groups: dict[str, list[tuple[str, str]]] = {name: [] for name in ORDER}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            usual = ARGUMENTS if parameter.param_type_name == "argument" else OPTIONS
            panel = getattr(parameter, "rich_help_panel", None) or usual
            name, about = _tidy(*record)
            groups.setdefault(panel, []).append((name, _with_names(about)))
    groups[OPTIONS] = groups.pop(OPTIONS, [])
    for name, records in groups.items():
        if records:
            with formatter.section(name):
                formatter.write_dl(records)


def _with_names(about: str) -> str:
    """The help of an option with the names that it chooses from."""
    if "{methods}" in about:
        from attnflow.methods import METHODS

        about = about.replace("{methods}", _join_names(list(METHODS)))
    if "{kinds}" in about:
        from attnflow.views.kinds import KINDS

        about = about.replace("{kinds}", _join_names(list(KINDS)))
    if "{shipped}" in about:
        from attnflow.shipped import NAMES

        about = about.replace("{shipped}", _join_names(list(NAMES)))
    if "{edges}" in about:
        from attnflow.edges import EDGE_RULES

        about = about.replace("{edges}", _join_names(list(EDGE_RULES)))
    return about


def _join_names(names: list[str]) -> str:
    """Names as in a sentence: one, two or three."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _tidy(name: str, about: str) -> tuple[str, str]:
    """Without the type of an argument, which its help tells; defaults and ranges in words."""
    about = re.sub(r"\[default: \((.*?)\)([;\]])", r"[default: \1\2", about)
    about = re.sub(r"\b(\d+)<=x<=(\d+)", r"\1 to \2", about)
    return re.sub(r" <.*>", "", name), re.sub(r"\bx>=(\d+)", r"\1 or more", about)


class Command(TyperCommand):
    """A command with grouped options."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What follows the command's name, without braces around a choice's name."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write them."""
        write_options(self, ctx, formatter)


class Program(TyperGroup):
    """Commands in groups, in the order they were added."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order they were added."""
        return list(self.commands)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write commands, then options."""
        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each group with the first sentences of its commands."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.commands[name]
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            groups.setdefault(str(panel), []).append((name, command.get_short_help_str(200)))
        for panel, records in groups.items():
            with formatter.section(panel):
                formatter.write_dl(records)
