"""The workers that make shards: this process, or several others that load the model once each."""

from __future__ import annotations

import contextlib
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Protocol, Self

from attnflow.errors import AttnflowError, CaptureError, InputError, ModelError
from attnflow.runs.manifest import versions
from attnflow.runs.work import Advance, ShardJob, ShardWorker, Work

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.process import BaseProcess

    from attnflow.io.rows import Row
    from attnflow.models.loading import Source

Answer = tuple[Any, ...]  # "done" or "rows" and what there is, or "error", its kind and message
TRIES = 3  # of a shard whose worker dies
ERRORS = {each.__name__: each for each in (AttnflowError, CaptureError, InputError, ModelError)}


class RemoteWorker:
    """A worker that answers with a result, or with its error.

    The model is loaded when it is first needed, so that a worker that was restarted has it, too.
    """

    def __init__(self, model: Source, work: Work, sample: Sequence[Row]) -> None:
        self._given = (model, work, sample)
        self._worker: ShardWorker | None = None

    def here(self) -> Answer:
        """That the worker is running, whether it has loaded its model or not."""
        return ("done",)

    def about(self) -> Answer:
        """The model, and the versions of what it runs with."""
        return _answer(lambda: (self._loaded().about, versions()))

    def compute(self, job: ShardJob, advance: Advance = lambda _: None) -> Answer:
        """A shard's content."""
        return _answer(lambda: (self._loaded().compute(job, advance),))

    def _loaded(self) -> ShardWorker:
        if self._worker is None:
            self._worker = ShardWorker(*self._given)
        return self._worker


def serve(pipe: Connection, model: Source, work: Work, sample: Sequence[Row]) -> None:
    """The main loop of a worker: load the model, then make shards until the pipe is closed."""
    # Ctrl-C is handled by the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = RemoteWorker(model, work, sample)
    with contextlib.suppress(EOFError, OSError):
        answer = worker.about()
        while True:
            pipe.send(answer)
            answer = worker.compute(pipe.recv(), lambda rows: pipe.send(("rows", rows)))


def _answer(work: Callable[[], tuple[Any, ...]]) -> Answer:
    try:
        return ("done", *work())
    except AttnflowError as error:
        return ("error", type(error).__name__, str(error))
    except Exception as error:  # noqa: BLE001 - reported to the calling process
        return ("error", type(error).__name__, f"{error}\n{traceback.format_exc()}")


def answered(answer: Answer) -> Sequence[Any]:
    """What a worker answered; its error is raised here."""
    kind, *content = answer
    if kind != "error":
        return content
    name, message = content
    if name in ERRORS:
        raise ERRORS[name](message)
    msg = f"a worker failed with {name}: {message}"
    raise RuntimeError(msg)


class WorkerPool(Protocol):
    """One worker or several that make shards, ready while the pool is open."""

    about: dict[str, Any]

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def compute(self, jobs: Iterator[ShardJob], advance: Advance) -> Iterator[tuple[int, bytes]]:
        """The contents of shards with their numbers, as they are made; jobs are taken as needed."""


class OneProcess:
    """The calling process is the only worker."""

    def __init__(self, model: Source, work: Work, sample: Sequence[Row]) -> None:
        self._worker = ShardWorker(model, work, sample)
        self.about = self._worker.about

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def compute(self, jobs: Iterator[ShardJob], advance: Advance) -> Iterator[tuple[int, bytes]]:
        """One shard after the other."""
        for job in jobs:
            yield job.index, self._worker.compute(job, advance)


@dataclass
class _Worker:
    """A process, this end of its pipe, and the job it has; ``tries`` of that job so far."""

    process: BaseProcess
    pipe: Connection
    job: ShardJob | None = None
    tries: int = 0
    done: float = 0.0


@dataclass
class Processes:
    """Several processes do the work; one that dies is replaced, and its shard is made again."""

    model: Source
    work: Work
    sample: Sequence[Row]
    count: int
    about: dict[str, Any] = field(default_factory=dict)
    _workers: list[_Worker] = field(default_factory=list)

    def __enter__(self) -> Self:
        try:
            self._workers = [self._start() for _ in range(self.count)]
            for worker in self._workers:
                if not self._is_ready(worker):
                    msg = (
                        "a worker ended while it loaded the model (exit code "
                        f"{worker.process.exitcode}); perhaps there is too little memory for so "
                        "many: use fewer workers"
                    )
                    raise ModelError(msg)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self) -> _Worker:
        context = get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(
            target=serve, args=(there, self.model, self.work, tuple(self.sample)), daemon=True
        )
        process.start()
        there.close()  # so that this end notices when the process dies
        return _Worker(process, here)

    def _is_ready(self, worker: _Worker) -> bool:
        """Whether a worker has its model, which is waited for, and which must be that of all.

        False if it died before.
        """
        try:
            answer = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
            return False
        about, _ = answered(answer)
        self.about = self.about or about
        if about != self.about:
            msg = f"the model changed while it was loaded: {about} is not {self.about}; run again"
            raise ModelError(msg)
        return True

    def compute(self, jobs: Iterator[ShardJob], advance: Advance) -> Iterator[tuple[int, bytes]]:
        """Each worker has one shard at a time."""
        for worker in self._workers:
            self._give(worker, next(jobs, None))
        while busy := [worker for worker in self._workers if worker.job is not None]:
            ready = wait([worker.pipe for worker in busy])
            for worker in [each for each in busy if each.pipe in ready]:
                content = self._receive(worker, advance)
                if content is not None and worker.job is not None:
                    index = worker.job.index
                    self._give(worker, next(jobs, None))
                    yield index, content

    def _give(self, worker: _Worker, job: ShardJob | None, tries: int = 1) -> None:
        worker.job, worker.tries, worker.done = job, tries, 0.0
        if job is not None:
            with contextlib.suppress(OSError):  # it died: noticed when its answer is read
                worker.pipe.send(job)

    def _receive(self, worker: _Worker, advance: Advance) -> bytes | None:
        """A shard, if this message is one."""
        try:
            answer = worker.pipe.recv()
        except (EOFError, OSError):
            advance(-worker.done)
            self._replace(worker)
            return None
        content = answered(answer)[0]
        if answer[0] == "rows":
            worker.done += content
            advance(content)
            return None
        shard: bytes = content
        return shard

    def _replace(self, worker: _Worker) -> None:
        """Give the shard of a worker that died to a new one, which may die while it loads, too."""
        job, tries = worker.job, worker.tries
        worker.process.join()
        if job is None:
            return
        while tries < TRIES:
            new = self._start()
            worker.process, worker.pipe = new.process, new.pipe
            tries += 1
            if self._is_ready(worker):
                self._give(worker, job, tries)
                return
        last = job.first + len(job.rows) - 1
        msg = (
            f"a worker died {tries} times on rows {job.first} to {last} (exit code "
            f"{worker.process.exitcode}); perhaps there is too little memory: use fewer "
            "workers, a smaller batch size or shorter texts. What is finished is kept"
        )
        raise ModelError(msg)

    def _stop(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
