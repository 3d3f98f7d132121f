"""Shards made on a Ray cluster: actors that load the model once, restarted where they die."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from attnflow.errors import InputError, ModelError, shown
from attnflow.runs.manifest import versions
from attnflow.runs.pool import TRIES, RemoteWorker, answered
from attnflow.runs.work import Advance, ShardJob, Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attnflow.io.rows import Row
    from attnflow.models.loading import Source

log = logging.getLogger(__name__)
# Ray ends the whole program 60 seconds after its head went away. Before that there is time to
# report it, and time for a restarted head to come back.
LOOK, PATIENCE = 5.0, 30.0  # seconds
LEFT = "this machine is no longer part of it"
SILENT = "its head has not answered for {:.0f} seconds"
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


CALLED, ASKED, GIVEN = "called", "asked", "given"


@dataclass(frozen=True)
class _Call:
    """What an actor was asked: to be there, for its model, or for a shard.

    ``nodes`` are the machines that were there then; ``error`` is why it has to be asked again.
    """

    actor: Any
    step: str = CALLED
    job: ShardJob | None = None
    tries: int = 0
    nodes: frozenset[str] = frozenset()
    error: Exception | None = None


@dataclass
class RayActors:
    """Actors do the work: Ray restarts those that die, and they get their shards again.

    Whoever is new or was restarted, perhaps on another machine, is called, then asked for its
    model and its versions, and then given a shard.
    """

    model: Source
    work: Work
    sample: Sequence[Row]
    count: int
    cluster: Cluster
    about: dict[str, Any] = field(default_factory=dict)
    _ray: Any = None
    _connected: bool = False
    _head: tuple[str, int] | None = None
    _looked: float = -LOOK
    _seen: float = field(default_factory=time.monotonic)
    _warned: bool = False
    _gone: bool = False
    _jobs: Iterator[ShardJob] | None = None
    _machines: frozenset[str] = frozenset()
    _idle: list[Any] = field(default_factory=list)
    _actors: list[Any] = field(default_factory=list)
    _pending: dict[Any, _Call] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._ray = _import_ray(self.cluster.address)
        try:
            self._connect()
            self._check_resources()
            kind = self._ray.remote(
                num_cpus=self.work.threads,
                num_gpus=self.cluster.gpus,
                max_restarts=-1,
            )(RemoteWorker)
            self._actors = [
                kind.remote(self.model, self.work, tuple(self.sample)) for _ in range(self.count)
            ]
            for actor in self._actors:
                self._call(_Call(actor))
            # Actors that the cluster has no resources for yet join later.
            while not self.about:
                self._advance()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _connect(self) -> None:
        if self._ray.is_initialized():
            self._head = self._find_head()
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
        self._head = self._find_head()

    def _find_head(self) -> tuple[str, int] | None:
        """Where the head of the cluster listens; unknown where a proxy stands before it."""
        if self.cluster.address.startswith("ray://"):
            return None
        with contextlib.suppress(Exception):
            host, _, port = self._ray.get_runtime_context().gcs_address.rpartition(":")
            return host.strip("[]"), int(port)
        return None

    def _check_resources(self) -> None:
        if lacking := self._lacking():
            msg = f"{lacking}; add machines to it, or ask for less"
            raise InputError(msg)

    def _lacking(self) -> str:
        """What the machines that are there now lack for a worker; empty where they lack nothing."""
        there = self._ray.cluster_resources()
        needed = {"CPU": float(self.work.threads), "GPU": float(self.cluster.gpus)}
        for name, amount in needed.items():
            if there.get(name, 0.0) < amount:
                has = f"{there.get(name, 0.0):g}"
                return f"a worker needs {amount:g} {name}, and the cluster has {has}"
        return ""

    def compute(self, jobs: Iterator[ShardJob], advance: Advance) -> Iterator[tuple[int, bytes]]:
        """Each actor has one shard at a time."""
        self._jobs = jobs
        for actor in self._idle:
            self._give(actor)
        while any(call.job is not None for call in self._pending.values()):
            if made := self._advance():
                job, content = made
                advance(len(job.rows))
                yield job.index, content

    def _advance(self) -> tuple[ShardJob, bytes] | None:
        """Wait for the next answer and go on from there; a shard, if the answer is one."""
        ready = self._wait()
        call = self._pending.pop(ready)
        try:
            answer = answered(self._ray.get(ready))
        except self._ray.exceptions.RayError as error:
            if self._lost_machine():
                raise self._lost(LEFT) from None
            if call.step == CALLED:  # which Ray repeats as long as it can restart the actor
                raise ModelError(_died(error, call.job, call.tries)) from None
            self._call(replace(call, error=error))
            return None
        if call.step == CALLED:
            self._ask(call)
        elif call.step == ASKED:
            self._check(answer)
            self._give(call.actor, call.job, call.tries)
        elif call.job is not None:
            self._give(call.actor)
            return call.job, answer[0]
        return None

    def _call(self, call: _Call) -> None:
        """Call an actor until it is there."""
        pending = call.actor.here.options(max_task_retries=-1).remote()
        self._pending[pending] = replace(call, step=CALLED)

    def _ask(self, call: _Call) -> None:
        """Ask an actor that is there for its model.

        One that had to be restarted has failed once more, unless that was its machine's end.
        """
        alive, tries = self._alive(), call.tries
        if call.error is not None and call.nodes <= alive:
            tries += 1
            if tries >= TRIES:
                raise ModelError(_died(call.error, call.job, tries))
        pending = call.actor.about.remote()
        self._pending[pending] = _Call(call.actor, ASKED, call.job, tries, alive)

    def _give(self, actor: Any, job: ShardJob | None = None, tries: int = 0) -> None:
        """Give an actor a shard, or the next one."""
        if self._jobs is None:
            self._idle.append(actor)
            return
        job = job or next(self._jobs, None)
        if job is not None:
            pending = actor.compute.remote(job)
            self._pending[pending] = _Call(actor, GIVEN, job, tries, self._machines)

    def _alive(self) -> frozenset[str]:
        """The machines that are there, as far as is known: without its head, Ray would wait."""
        if self._reaches_head():
            nodes = (node["NodeID"] for node in self._ray.nodes() if node["Alive"])
            self._machines = frozenset(nodes)
        return self._machines

    def _wait(self) -> Any:
        """What is ready next, while the cluster is there."""
        while True:
            self._look()
            ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=LOOK)
            if ready:
                return ready[0]

    def _look(self) -> None:
        """Check now and then that the cluster is alive: workers go on for a while without it."""
        now = time.monotonic()
        if now - self._looked < LOOK:
            return
        self._looked = now
        if self._reaches_head():
            self._seen = now
            self._alive()
            if not self._warned and (lacking := self._lacking()):
                self._warned = True
                note = "waiting for machines (Ctrl-C stops, and what is finished is kept)"
                log.warning("%s: %s", lacking, note)
        elif now - self._seen > PATIENCE:
            raise self._lost(SILENT.format(now - self._seen))

    def _reaches_head(self) -> bool:
        if self._head is None:
            return True
        try:
            socket.create_connection(self._head, LOOK).close()
        except OSError:
            return False
        return True

    def _lost_machine(self) -> bool:
        """Whether the cluster, or this machine's part of it, ended."""
        if not self._reaches_head():
            return True
        return self._ray.get_runtime_context().get_node_id() not in self._alive()

    def _lost(self, why: str) -> ModelError:
        self._gone = True
        msg = (
            f"the Ray cluster {self.cluster.address} is gone: {why}. What is finished is kept: "
            "start the cluster again (ray start --head), or name another by --ray, and give the "
            "same command again; without --ray it goes on on this machine"
        )
        return ModelError(msg)

    def _check(self, answer: Sequence[Any]) -> None:
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

    def _stop(self) -> None:
        for actor in () if self._gone else self._actors:
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


def _died(error: Exception | None, job: ShardJob | None, tries: int) -> str:
    first = str(error).strip().split("\n")[0]
    if job is None:
        return f"a worker ended while it loaded the model ({first}); see Ray's logs"
    last = job.first + len(job.rows) - 1
    return (
        f"a worker died {tries} times on rows {job.first} to {last} ({first}); perhaps there is "
        "too little memory: use a smaller batch size or shorter texts. What is finished is kept"
    )
