"""A status line while something takes long: on standard error, and only in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def show_status(what: str) -> Iterator[None]:
    """Show what is being done until it is done."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} …"):
        yield


@contextmanager
def show_work(what: str) -> Iterator[Callable[[float], None]]:
    """A status line that turns into a bar as soon as the work tells what share of it is done."""
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    from attnflow.io.progress import progress_bar

    with ExitStack() as line, ExitStack() as bar:
        line.enter_context(show_status(what))
        shown: list[Callable[[float], None]] = []

        def advance(share: float) -> None:
            if not shown:
                line.close()  # one of them at a time
                shown.append(bar.enter_context(progress_bar(what, 1, shown=True, share=True)))
            shown[0](share)

        yield advance
