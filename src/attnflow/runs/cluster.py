"""Shards made on a Ray cluster: actors that load the model once, restarted where they die."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from attnflow.errors import InputError, ModelError, shown
from attnflow.runs.manifest import versions
from attnflow.runs.remote import TRIES, RemoteWorker, answered
from attnflow.runs.work import Advance, Job, Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attnflow.io.rows import Row
    from attnflow.models.loading import Source

MISSING = "ray={} needs Ray, which is not installed: pip install 'attnflow[ray]'"


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster to work on.

    Attributes:
        address: What ``ray.init`` takes: ``"auto"``, ``"host:6379"``, ``"ray://host:10001"``, or
            ``"local"`` for one that is started here and ends with the run.
        gpus: How many GPUs each worker has to itself, which may be a part of one.
    """

    address: str
    gpus: float = 0.0


@dataclass
class RayActors:
    """Actors do the work: Ray restarts those that die, and gives them their shards again."""

    model: Source
    work: Work
    sample: Sequence[Row]
    count: int
    cluster: Cluster
    about: dict[str, Any] = field(default_factory=dict)
    _ray: Any = None
    _ready: Any = None
    _connected: bool = False
    _actors: list[Any] = field(default_factory=list)
    _pending: dict[Any, tuple[Any, Job | None]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._ray = _import_ray(self.cluster.address)
        try:
            self._connect()
            self._check_room()
            kind = self._ray.remote(
                num_cpus=self.work.threads,
                num_gpus=self.cluster.gpus,
                max_restarts=-1,
                max_task_retries=TRIES - 1,
            )(RemoteWorker)
            self._actors = [
                kind.remote(self.model, self.work, tuple(self.sample)) for _ in range(self.count)
            ]
            self._pending = {actor.about.remote(): (actor, None) for actor in self._actors}
            # Those for which there is no room yet join when they have their model.
            answer, actor, _ = self._next()
            self._ready = self._checked(answer, actor)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _connect(self) -> None:
        if self._ray.is_initialized():
            return
        try:
            self._ray.init(address=self.cluster.address, log_to_driver=False, logging_level="error")
        except (OSError, ValueError, RuntimeError, self._ray.exceptions.RayError) as error:
            first = str(error).strip().split("\n")[0]
            msg = (
                f"ray={shown(self.cluster.address)}: there is no cluster to work on ({first}); "
                "start one by ray start --head, or give 'local' for one on this machine. A cluster "
                "that asks for a token has it in RAY_AUTH_TOKEN or ~/.ray/auth_token"
            )
            raise InputError(msg) from None
        self._connected = True

    def _check_room(self) -> None:
        there = self._ray.cluster_resources()
        needed = {"CPU": float(self.work.threads), "GPU": float(self.cluster.gpus)}
        for name, amount in needed.items():
            if there.get(name, 0.0) < amount:
                msg = (
                    f"a worker needs {amount:g} {name}, and the cluster has "
                    f"{there.get(name, 0.0):g}; add machines to it, or ask for less"
                )
                raise InputError(msg)

    def compute(self, jobs: Iterator[Job], advance: Advance) -> Iterator[tuple[int, bytes]]:
        """Each actor has one shard at a time."""
        self._give(self._ready, jobs)
        while any(job is not None for _, job in self._pending.values()):
            answer, actor, job = self._next()
            if job is None:
                self._give(self._checked(answer, actor), jobs)
            else:
                self._give(actor, jobs)
                advance(len(job.rows))
                yield job.index, answer[0]

    def _next(self) -> tuple[Any, ...]:
        """The next answer, of whom, and to what."""
        (ready,), _ = self._ray.wait(list(self._pending), num_returns=1)
        actor, job = self._pending.pop(ready)
        try:
            answer = self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            raise ModelError(_died(error, job)) from None
        return answered(answer), actor, job

    def _checked(self, answer: Sequence[Any], actor: Any) -> Any:
        """Check that an actor has the model of all, and the versions that the manifest names."""
        about, found = answer
        for name, here in versions().items():
            if found[name] != here:
                msg = (
                    f"a worker of the cluster has {name} {found[name]}, and here it is {here}; "
                    "results may differ: install the same on all machines"
                )
                raise ModelError(msg)
        self.about = self.about or about
        if about != self.about:
            msg = f"workers have different models: {about} is not {self.about}"
            raise ModelError(msg)
        return actor

    def _give(self, actor: Any, jobs: Iterator[Job]) -> None:
        job = next(jobs, None)
        if job is not None:
            self._pending[actor.compute.remote(job)] = (actor, job)

    def _stop(self) -> None:
        for actor in self._actors:
            with contextlib.suppress(Exception):  # the cluster may be gone
                self._ray.kill(actor)
        if self._connected:
            self._ray.shutdown()


def _import_ray(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise InputError(MISSING.format(shown(address))) from None
    return ray


def _died(error: Exception, job: Job | None) -> str:
    first = str(error).strip().split("\n")[0]
    if job is None:
        return f"a worker ended while it loaded the model ({first}); see Ray's logs"
    last = job.first + len(job.rows) - 1
    return (
        f"a worker died {TRIES} times on rows {job.first} to {last} ({first}); perhaps there is "
        "too little memory: use a smaller batch size or shorter texts. What is finished is kept"
    )
