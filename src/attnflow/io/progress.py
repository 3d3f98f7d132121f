"""One way to show how far long work has come, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(label: str, total: int, *, shown: bool) -> Iterator[Callable[[float], None]]:
    """A bar; yields a function that takes how much is done so far. Not shown, it costs nothing.

    In a terminal it disappears when the work is done: what stays on the screen are results.
    """
    if not shown:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    transient = console.is_terminal
    with Progress(*columns, console=console, transient=transient) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.update(task, completed=done)
