"""Progress of long work: on standard error, or below a notebook's cell."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from time import monotonic
from typing import Any

PAUSE = 0.1  # seconds between two drawings: each is a message to the browser


def in_notebook() -> bool:
    """Whether this is a kernel of Jupyter, which shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def import_tqdm() -> None:
    """Import tqdm, which the hub's library does, without its complaint that widgets are missing."""
    if in_notebook() and "tqdm.auto" not in sys.modules:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="IProgress not found")
            importlib.import_module("tqdm.auto")


@dataclass(frozen=True)
class BarState:
    """A bar at one moment: what is done, and how much of it."""

    label: str
    done: float
    total: float | None
    words: str

    def __repr__(self) -> str:
        return f"{self.label} {self.words}"

    def _repr_html_(self) -> str:
        share = "" if self.total is None else f' value="{self.done:g}" max="{self.total:g}"'
        bar = f'<progress{share} aria-label="{escape(self.label)}"></progress>'
        return f"<div>{escape(self.label)} {bar} {escape(self.words)}</div>"


class NotebookBar:
    """A bar of plain HTML below the cell, drawn once the work has taken some time.

    It needs no widgets and leaves nothing behind.
    """

    def __init__(self, label: str, total: float | None, unit: str | None, *, share: bool) -> None:
        self.label, self.total, self.unit, self.share = label, total, unit, share
        self.start = self.drawn = monotonic()
        self.handle: Any = None

    def show(self, done: float, delay: float) -> None:
        """Draw how much is done."""
        now = monotonic()
        if now - self.start < delay or now - self.drawn < PAUSE:
            return
        self.drawn = now
        self._draw(BarState(self.label, done, self.total, self._words(done, now - self.start)))

    def close(self) -> None:
        """Leave nothing behind: what stays in a notebook are results."""
        if self.handle is not None:
            self._draw(Nothing())

    def _draw(self, what: Any) -> None:
        display: Any = importlib.import_module("IPython.display")
        if self.handle is None:
            self.handle = display.display(what, display_id=True)
        else:
            self.handle.update(what)

    def _words(self, done: float, seconds: float) -> str:
        left = "" if not done or self.total is None else _time(seconds / done * (self.total - done))
        rate = f"{done / seconds:,.1f} {self.unit}/s" if self.unit and done else ""
        if self.share and self.total:
            amount = f"{done / self.total:.0%}"
        else:
            amount = f"{done:.0f}" + ("" if self.total is None else f"/{self.total:.0f}")
        return ", ".join(part for part in (amount, rate, left) if part)


class Nothing:
    """What a bar becomes when its work is done."""

    def __repr__(self) -> str:
        return ""

    def _repr_html_(self) -> str:
        return ""


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} left"


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
