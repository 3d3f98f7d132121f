"""A worker in another process: what it is asked for, and what it answers."""

from __future__ import annotations

import contextlib
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from attnflow.errors import AttnflowError, CaptureError, InputError, ModelError
from attnflow.runs.manifest import versions
from attnflow.runs.work import Advance, Job, ShardWorker, Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attnflow.io.rows import Row
    from attnflow.models.loading import Source

Answer = tuple[Any, ...]  # "done" or "rows" and what there is, or "error", its kind and message
TRIES = 3  # of a shard whose worker dies
ERRORS = {each.__name__: each for each in (AttnflowError, CaptureError, InputError, ModelError)}


class RemoteWorker:
    """A worker that answers with what it was asked for, or with its error.

    The model is loaded when it is first needed, so that a worker that was restarted has it, too.
    """

    def __init__(self, model: Source, work: Work, sample: Sequence[Row]) -> None:
        self._given = (model, work, sample)
        self._worker: ShardWorker | None = None

    def here(self) -> Answer:
        """That there is such a worker, whether it has its model or not."""
        return ("done",)

    def about(self) -> Answer:
        """The model, and the versions of what it runs with."""
        return _answer(lambda: (self._loaded().about, versions()))

    def compute(self, job: Job, advance: Advance = lambda _: None) -> Answer:
        """A shard's content."""
        return _answer(lambda: (self._loaded().compute(job, advance),))

    def _loaded(self) -> ShardWorker:
        if self._worker is None:
            self._worker = ShardWorker(*self._given)
        return self._worker


def serve(pipe: Connection, model: Source, work: Work, sample: Sequence[Row]) -> None:
    """A worker's life: load the model, then make shards until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this
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
    except Exception as error:  # noqa: BLE001 - told to the process that asked
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
