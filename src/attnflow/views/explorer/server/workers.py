"""Work off the event loop: bounded, in turn, and stopped when its client disconnects."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from attnflow.views.explorer.server.limits import ApiError, Cancelled, Job, Limits

T = TypeVar("T")
POLL_SECONDS = 0.05  # how soon a disconnected client is noticed


class Workers:
    """A few threads that process requests in turn."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pending = 0  # waiting or being processed
        self._counting = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._stop_at = math.inf

    async def run(self, work: Callable[[Job], T], disconnected: Callable[[], Awaitable[bool]]) -> T:
        """The result of ``work(job)``, unless the client is ``disconnected`` before."""
        limits = self.limits
        job = Job(time.monotonic() + limits.seconds)
        started = self._enter().submit(_check_first(work, job))
        started.add_done_callback(self._leave)
        future = asyncio.wrap_future(started)
        future.add_done_callback(_retrieve_exception)
        try:
            while not (await asyncio.wait({future}, timeout=POLL_SECONDS))[0]:
                if time.monotonic() > job.deadline:
                    raise _timeout_error(limits)
                if time.monotonic() > self._stop_at:
                    raise _stopping_error()
                if await disconnected():
                    raise Cancelled
            return future.result()
        except Cancelled:
            if time.monotonic() > job.deadline:
                raise _timeout_error(limits) from None
            raise
        finally:
            job.stopped.set()

    def stop(self) -> None:
        """The server stops: what still runs after some seconds is answered with an error."""
        self._stop_at = time.monotonic() + self.limits.closing_seconds

    def _enter(self) -> ThreadPoolExecutor:
        with self._counting:
            if self.pending >= self.limits.workers + self.limits.waiting:
                msg = f"the server is busy with {self.pending} requests; try again in a second"
                raise ApiError(503, "busy", msg)
            self.pending += 1
            if self._pool is None:  # an application may be started again after it was closed
                self._stop_at = math.inf
                self._pool = ThreadPoolExecutor(self.limits.workers, "attnflow")
            return self._pool

    def _leave(self, _: Future[T]) -> None:
        # Only now: abandoned work still occupies a worker until it notices.
        with self._counting:
            self.pending -= 1

    def close(self) -> None:
        """Release the threads; running work stops when its clients disconnect."""
        with self._counting:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def _retrieve_exception(future: asyncio.Future[T]) -> None:
    if not future.cancelled():
        future.exception()  # asyncio warns of exceptions that nobody retrieves


def _check_first(work: Callable[[Job], T], job: Job) -> Callable[[], T]:
    def start() -> T:
        job.check()  # it may have waited too long
        return work(job)

    return start


def _stopping_error() -> ApiError:
    return ApiError(503, "stopping", "the server is stopping; this request was not finished")


def _timeout_error(limits: Limits) -> ApiError:
    msg = f"this took longer than {limits.seconds:g} seconds; try a shorter text"
    return ApiError(504, "timeout", msg)
