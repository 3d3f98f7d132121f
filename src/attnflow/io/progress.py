"""One way to show how far long work has come: on standard error, or below a notebook's cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from attnflow.io.notebooks import NotebookBar, in_notebook

DELAY = 0.7  # seconds


@contextmanager
def progress_bar(
    label: str,
    total: int | None,
    *,
    shown: bool,
    unit: str | None = None,
    share: bool = False,
) -> Iterator[Callable[[float], None]]:
    """A bar; yields a function that takes how much is done so far. Not shown, it costs nothing.

    With a ``unit`` the rate is shown, too; without a ``total`` the time left is not. A ``share`` of
    one piece of work is shown in percent.

    In a terminal and in a notebook it disappears when the work is done: what stays on the screen
    are results; work that is done at once shows none.
    """
    if not shown:
        yield lambda done: None
        return
    if in_notebook():
        bar = NotebookBar(label, total, unit, share=share)
        try:
            yield lambda done: bar.show(done, DELAY)
        finally:
            bar.close()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """How many a second."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.1f} {unit}/s" if task.speed else "")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn() if share else MofNCompleteColumn(),
        *((Rate(),) if unit else ()),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    transient = console.is_terminal
    progress = Progress(*columns, console=console, transient=transient)
    task = progress.add_task(label, total=total)
    due = monotonic() + (DELAY if transient else 0)

    def show(done: float) -> None:
        progress.update(task, completed=done)
        if not progress.live.is_started and monotonic() >= due:
            progress.start()

    try:
        show(0)
        yield show
    finally:
        if progress.live.is_started:
            progress.stop()
