"""Doing many steps that need one another, in several processes."""

from __future__ import annotations

import logging
import multiprocessing
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from attnflow.io.progress import progress_bar


@dataclass(frozen=True)
class Step:
    """A piece of work: what it is called, the steps it needs, and what to call."""

    name: str
    needs: frozenset[str]
    work: Callable[..., None]
    arguments: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()


def quiet() -> None:
    """One thread a process, and no notes on every text."""
    import torch

    torch.set_num_threads(1)
    logging.getLogger("attnflow").setLevel(logging.ERROR)


def do_all(steps: Sequence[Step], jobs: int, minutes: float) -> list[str]:
    """Do the steps in the order given, each after those it needs; what failed or was left out.

    A step that fails is reported, and those that need it are left out. After some minutes no new
    step is begun.
    """
    end = time.monotonic() + 60 * minutes
    waiting, done, failed = list(steps), set[str](), list[str]()
    running: dict[Future[None], Step] = {}
    context = multiprocessing.get_context("spawn")  # CUDA can't be used in forked processes
    with (
        ProcessPoolExecutor(jobs, mp_context=context, initializer=quiet) as pool,
        progress_bar("steps", len(steps), shown=True) as advance,
    ):
        while waiting or running:
            for step in [step for step in waiting if step.needs <= done]:
                waiting.remove(step)
                future = pool.submit(step.work, *step.arguments, **dict(step.options))
                running[future] = step
            if not running:
                break
            finished, _ = wait(running, max(0, end - time.monotonic()), FIRST_COMPLETED)
            if not finished:
                pool.shutdown(cancel_futures=True)
                finished = {future for future in running if not future.cancelled()}
                waiting += [step for future, step in running.items() if future.cancelled()]
                running = {future: running[future] for future in finished}
            for future in finished:
                step = running.pop(future)
                error = future.exception()
                if error is None:
                    done.add(step.name)
                else:
                    failed.append(step.name)
                    print(f"{step.name} failed:", file=sys.stderr)
                    traceback.print_exception(error)
            advance(len(done))
            if time.monotonic() >= end:
                break
    return [*failed, *(step.name for step in waiting)]
