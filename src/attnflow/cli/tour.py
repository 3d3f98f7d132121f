"""``attnflow tour``: the first five minutes."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnflow.cli.command import Model
from attnflow.errors import InputError
from attnflow.shipped import DEFAULT, NAMES, OWNER

if TYPE_CHECKING:
    from rich.console import Console

    from attnflow.tour import TourStep

First = Annotated[
    int, typer.Argument(metavar="STEP", help="The step to start with.", show_default="1")
]
NoPause = Annotated[bool, typer.Option("--no-pause", help="Don't wait for Enter after each step.")]
LEAVE = "q"


def tour(first: First = 1, *, model: Model = None, no_pause: NoPause = False) -> None:
    """Take a tour of five minutes, one command at a time.

    It needs no network. Press Enter to go on, and q or Ctrl-C to leave; in a pipe it does not wait.

    Example: attnflow tour
    """
    from rich.console import Console

    from attnflow.tour import NEXT, TEXTS, make_steps

    named = (model or DEFAULT).removeprefix(OWNER)
    if named not in TEXTS or named not in NAMES:
        msg = f"the tour is not made for --model {model}; it is for {' and '.join(NAMES)}"
        raise InputError(msg)
    steps = make_steps(TEXTS[named])
    if not 1 <= first <= len(steps):
        msg = f"the tour has no step {first}; it has 1 to {len(steps)}"
        raise InputError(msg)
    console = Console(highlight=False)
    pauses = not no_pause and sys.stdin.isatty() and sys.stdout.isatty()
    for number, step in enumerate(steps[first - 1 :], start=first):
        _show(step, f"{number} of {len(steps)}", console)
        if pauses and number < len(steps) and _leaves(console):
            return
    console.print("\nWhere to go from here:", style="bold")
    for line in NEXT:
        console.print(f"  {line}", markup=False)


def _show(step: TourStep, number: str, console: Console) -> None:
    """Say what is asked, run the commands, and say what follows."""
    from attnflow.cli.app import run
    from attnflow.tour import PAGE, written

    console.print()
    console.rule(f"[bold]{number} · {step.title}[/]", align="left")
    console.print(step.about)
    for command in step.commands:
        arguments = [_page() if each == PAGE else each for each in command]
        console.print(f"\n$ {written(arguments)}\n", style="bold", markup=False, soft_wrap=True)
        code = run(arguments)
        if code:
            raise typer.Exit(code)
    console.print(f"\n[bold]What to conclude.[/] {step.conclude()}")


def _page() -> str:
    """A file in a folder of its own: nothing is written where the reader works."""
    return str(Path(tempfile.mkdtemp(prefix="attnflow-tour-")) / "tour.html")


def _leaves(console: Console) -> bool:
    """Wait for Enter; whether the reader wants to leave instead."""
    console.print("\nEnter goes on, q leaves: ", style="dim", end="")
    answer = sys.stdin.readline()
    return not answer or answer.strip().lower() == LEAVE
