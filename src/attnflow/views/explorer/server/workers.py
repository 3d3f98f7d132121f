"""Work off the event loop: bounded, each client in turn, and stopped when its client leaves."""

from __future__ import annotations

import asyncio
import math
import threading
import time
import traceback
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from attnflow.views.explorer.server.limits import ApiError, Cancelled, Job, Limits

T = TypeVar("T")
POLL_SECONDS = 0.25  # how soon it is noticed that time is up, or that the server stops
FORGETTING = 0.9  # of the mean time of a request, at every new one


class Client(NamedTuple):
    """Who asks: turns go from address to address, and at one of them from visitor to visitor."""

    address: str
    visitor: str = ""


@dataclass(eq=False)
class Task:
    """A request that waits for a worker."""

    client: Client
    work: Callable[[Job], Any]
    job: Job
    result: Future[Any] = field(default_factory=Future)
    started: bool = False


class Turns:
    """Tasks that wait: those of a client in order, those of different clients by turns."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, OrderedDict[str, deque[Task]]] = OrderedDict()

    def add(self, task: Task) -> None:
        """At the end of its client's tasks."""
        visitors = self._waiting.setdefault(task.client.address, OrderedDict())
        visitors.setdefault(task.client.visitor, deque()).append(task)

    def take(self, allowed: Callable[[str], bool]) -> Task | None:
        """The next task, of an address that is allowed one; ``None`` where there is none."""
        address = next(filter(allowed, self._waiting), None)
        if address is None:
            return None
        visitors = self._waiting[address]
        task = next(iter(visitors.values()))[0]
        self.remove(task)
        # Whoever had a turn has the next one last.
        if address in self._waiting:
            self._waiting.move_to_end(address)
        if task.client.visitor in visitors:
            visitors.move_to_end(task.client.visitor)
        return task

    def remove(self, task: Task) -> bool:
        """Whether the task was waiting; it does no longer."""
        visitors = self._waiting.get(task.client.address, OrderedDict())
        tasks = visitors.get(task.client.visitor, deque())
        if task not in tasks:
            return False
        tasks.remove(task)
        if not tasks:
            del visitors[task.client.visitor]
        if not visitors:
            del self._waiting[task.client.address]
        return True


class Workers:
    """A few threads that process requests, each client in turn."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._lock = threading.Lock()
        self._turns = Turns()
        self._pending: Counter[str] = Counter()  # requests of each address that wait or run
        self._running: Counter[str] = Counter()
        self._mean = 1.0  # seconds that a request takes
        self._pool: ThreadPoolExecutor | None = None
        self._stop_at = math.inf

    @property
    def pending(self) -> int:
        """Requests that wait or are processed; abandoned ones, too, until they notice it."""
        return self._pending.total()

    async def run(
        self, work: Callable[[Job], T], client: Client, leaves: Callable[[], Awaitable[None]]
    ) -> T:
        """The result of ``work(job)``, unless the client ``leaves`` before."""
        task = Task(client, work, Job(time.monotonic() + self.limits.seconds))
        self._enter(task)
        result = asyncio.wrap_future(task.result)
        result.add_done_callback(_retrieve_exception)
        leaving = asyncio.ensure_future(leaves())
        try:
            while not result.done():
                both = {result, leaving}
                await asyncio.wait(both, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
                if not result.done():
                    self._check(task, left=leaving.done())
            found: T = result.result()
            return found
        except Cancelled:
            if time.monotonic() > task.job.deadline:
                raise self._late(task) from None
            raise ApiError(499, "failed", "the client left") from None  # for the log
        finally:
            leaving.cancel()
            task.job.stopped.set()
            self._abandon(task)
            # An error knows this function's variables: two of these know the error.
            del result, task

    def stop(self) -> None:
        """The server stops: what still runs after some seconds is answered with an error."""
        self._stop_at = time.monotonic() + self.limits.closing_seconds

    def close(self) -> None:
        """Release the threads; running work stops when its clients leave."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _enter(self, task: Task) -> None:
        limits, address = self.limits, task.client.address
        with self._lock:
            if self._pending[address] >= limits.workers + limits.waiting_each:
                wait = self._expected_wait(self._pending[address])
                msg = f"{self._pending[address]} requests of yours are pending"
                raise ApiError(429, "busy", f"{msg}; try again in {wait} s", retry_after=wait)
            if self.pending >= limits.workers + limits.waiting:
                wait = self._expected_wait(self.pending)
                msg = f"the server is busy with {self.pending} requests"
                raise ApiError(503, "busy", f"{msg}; try again in {wait} s", retry_after=wait)
            if self._pool is None:  # an application may be started again after it was closed
                self._stop_at = math.inf
                self._pool = ThreadPoolExecutor(limits.workers + 1, "attnflow")
            self._pending[address] += 1
            self._turns.add(task)
            self._pool.submit(self._work)

    def _work(self) -> None:
        """Process tasks until none may start: when a task ends, another one may."""
        while (task := self._start()) is not None:
            self._process(task)
            del task  # or this thread would hold it while it waits for the next one

    def _process(self, task: Task) -> None:
        """Do a task's work, give its place back, and then tell the result.

        In this order, since whoever has an answer may ask again at once.
        """
        started = time.monotonic()
        found, failure = None, None
        try:
            if not task.result.set_running_or_notify_cancel():
                return
            task.job.check()  # it may have waited too long
            found = task.work(task.job)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            _let_go(error)
            failure = error
        finally:
            self._end(task.client.address, time.monotonic() - started)
        if failure is None:
            task.result.set_result(found)
        else:
            task.result.set_exception(failure)
            del failure  # which knows this function's variables

    def _start(self) -> Task | None:
        with self._lock:
            task = self._turns.take(self._may_start)
            if task is not None:
                task.started = True
                self._running[task.client.address] += 1
            return task

    def _may_start(self, address: str) -> bool:
        """One worker more than usual is there for a client that has none while others have all."""
        free = self.limits.workers - self._running.total()
        return free > 0 or (free == 0 and not self._running[address])

    def _end(self, address: str, seconds: float) -> None:
        with self._lock:
            self._running -= Counter([address])
            self._pending -= Counter([address])
            self._mean = FORGETTING * self._mean + (1 - FORGETTING) * seconds

    def _abandon(self, task: Task) -> None:
        """Nobody waits for its result: it need not start."""
        with self._lock:
            if self._turns.remove(task):
                self._pending -= Counter([task.client.address])

    def _check(self, task: Task, *, left: bool) -> None:
        """Give up where there is a reason to."""
        if left:
            raise Cancelled
        if time.monotonic() > task.job.deadline:
            raise self._late(task)
        if time.monotonic() > self._stop_at:
            msg = "the server is stopping; this request was not finished"
            raise ApiError(503, "stopping", msg, retry_after=1)

    def _late(self, task: Task) -> ApiError:
        seconds = f"{self.limits.seconds:g} seconds"
        if task.started:
            return ApiError(504, "timeout", f"this took longer than {seconds}; try a shorter text")
        wait = self._expected_wait(self.pending)
        msg = f"the server is busy: this request waited {seconds} for its turn"
        return ApiError(503, "busy", f"{msg}; try again in {wait} s", retry_after=wait)

    def _expected_wait(self, before: int) -> int:
        """Seconds until so many requests are done, as far as those before tell."""
        return max(1, min(math.ceil(before * self._mean / self.limits.workers), 60))


def _retrieve_exception(future: asyncio.Future[T]) -> None:
    if not future.cancelled():
        future.exception()  # asyncio warns of exceptions that nobody retrieves


def _let_go(error: BaseException | None) -> None:
    """Free what the functions held that an error went through: sessions, and all their arrays."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
