"""Work off the event loop: bounded, fair, and stopped when its client leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from attnflow.page.limits import Job, Limits, Refusal, Stopped

T = TypeVar("T")
POLL_SECONDS = 0.05  # how soon a client that left is noticed


class Workers:
    """A few threads that requests take turns on."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pending = 0  # waiting or being worked on; touched by the event loop alone
        self._pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="attnflow")

    async def run(self, work: Callable[[Job], T], left: Callable[[], Awaitable[bool]]) -> T:
        """The result of ``work(job)``; ``left`` says whether the client has gone."""
        limits = self.limits
        if self.pending >= limits.workers + limits.waiting:
            msg = f"the server is busy with {self.pending} requests; try again in a second"
            raise Refusal(503, "busy", msg)
        job = Job(time.monotonic() + limits.seconds)
        self.pending += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, _unless_stopped(work, job))
        future.add_done_callback(self._done)
        try:
            while not (await asyncio.wait({future}, timeout=POLL_SECONDS))[0]:
                if time.monotonic() > job.deadline:
                    raise _too_slow(limits)
                if await left():
                    raise Stopped
            return future.result()
        except Stopped:
            if time.monotonic() > job.deadline:
                raise _too_slow(limits) from None
            raise
        finally:
            job.stopped.set()

    def _done(self, future: asyncio.Future[T]) -> None:
        self.pending -= 1
        if not future.cancelled():
            future.exception()  # its client may have gone: nobody else looks

    def close(self) -> None:
        """Take no more work; what runs is stopped by its clients' leaving."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _unless_stopped(work: Callable[[Job], T], job: Job) -> Callable[[], T]:
    def start() -> T:
        job.check()  # it may have waited too long
        return work(job)

    return start


def _too_slow(limits: Limits) -> Refusal:
    msg = f"this took longer than {limits.seconds:g} seconds; try a shorter text"
    return Refusal(504, "timeout", msg)
