"""How work is done: options that never change a result."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from attnflow.errors import InputError, shown, unknown
from attnflow.records.checks import check_flag
from attnflow.records.selection import is_integer

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Execution:
    """How to work: threads (``None`` is one per core), a progress bar, and the device of solvers.

    ``device`` is ``"auto"`` or the name of a solver. One that can't work here is refused at once.
    """

    threads: int | None = None
    progress: bool = False
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise InputError(unknown("device", self.device, DEVICES))
        if self.threads is not None and not (is_integer(self.threads) and self.threads >= 1):
            msg = (
                f"threads={shown(self.threads)} must be an integer from 1, or None for one per core"
            )
            raise InputError(msg)
        check_flag("progress", self.progress)
        if self.device == "cuda":
            from attnflow.solvers.cuda.device import require_cuda

            require_cuda()


Part = TypeVar("Part")
POLL_SECONDS = 0.05  # how soon the bar moves and an interrupt is noticed


class SharedParts(Iterator[Part]):
    """Parts that several threads take, each part by one of them."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = iter(parts)
        self._lock = threading.Lock()

    def __next__(self) -> Part:
        with self._lock:
            return next(self._parts)


def work_together(
    tasks: Sequence[Callable[[], None]], stop: npt.NDArray[np.uint8], poll: Callable[[], None]
) -> None:
    """Run each task in a thread, polling meanwhile; an interrupt sets ``stop``, and waits."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        try:
            running = [pool.submit(task) for task in tasks]
            # Waiting in short turns lets this thread receive Ctrl-C and move the bar.
            while wait(running, timeout=POLL_SECONDS).not_done:
                poll()
        finally:
            # After an interrupt the pool waits for its threads, which this ends soon.
            stop[0] = 1
        # Raises what went wrong in a thread, if anything did.
        for future in running:
            future.result()


_most: list[int] = []  # the share of each process that works beside others, innermost last


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Let this process use so many cores, where others have the rest."""
    _most.append(count)
    try:
        yield
    finally:
        _most.pop()


def cores() -> int:
    """The cores that this process may use."""
    there = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        there = len(os.sched_getaffinity(0))
    return min([there, *_most])
