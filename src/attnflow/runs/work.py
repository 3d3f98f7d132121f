"""The work on one shard: rows in, attributions or reasons out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnflow.edges import EDGE_RULES
from attnflow.errors import AttnflowError, InputError
from attnflow.io.rows import Row
from attnflow.methods import METHODS
from attnflow.models.adapter import Objective
from attnflow.pipeline.choice import choose
from attnflow.pipeline.prepare import (
    Refused,
    check_effect,
    check_known,
    check_model,
    prepare,
    try_sessions,
)
from attnflow.pipeline.request import AUTO, Request
from attnflow.registry import code_digest, load_plugin
from attnflow.runs.shards import encode_shard
from attnflow.solvers.execution import at_most

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter
    from attnflow.models.loading import Source
    from attnflow.pipeline.session import Session
    from attnflow.records import Attribution

Advance = Callable[[float], None]  # takes how many rows more are done


@dataclass(frozen=True)
class Work:
    """What is done with every row.

    Attributes:
        configs: One for each kind of edges, with the methods whose scores are stored.
        threads: How many threads torch uses: it is part of what decides the last bits.
        targets: Whether rows have targets of their own.
        strict: Whether a row that can't be explained ends the run.
        plugins: Modules that register methods or edges, to be imported by every worker.
        device: Where the model runs; by default the processor.
    """

    configs: tuple[Request, ...]
    threads: int
    targets: bool = False
    strict: bool = False
    plugins: tuple[str, ...] = ()
    device: str | None = None


@dataclass(frozen=True)
class ShardJob:
    """One shard to make: its number, the number of its first row, and its rows."""

    index: int
    first: int
    rows: tuple[Row, ...]
    request: str
    digest: str


class ShardWorker:
    """A model that makes shards; the same bytes, whichever process it works in."""

    def __init__(self, model: Source, work: Work, sample: Sequence[Row]) -> None:
        from attnflow.models.loading import load_model
        from attnflow.models.weights import settings_digest, weights_digest

        for plugin in work.plugins:
            load_plugin(plugin)
        self.work = work
        self.adapter: ModelAdapter = load_model(model, device=work.device)
        for config in work.configs:
            self._check_config(config)
        self.about: dict[str, Any] = {
            "name": self.adapter.name,
            **self.adapter.description,
            "sha256": weights_digest(self.adapter),
            "settings": settings_digest(self.adapter),
        }
        if code := _own_code(work.configs):
            self.about["plugins"] = code
        with fixed_threads(work.threads):
            # What is measured of a model once is measured on the same rows in every process.
            self._explain(sample, lambda _: None)

    def compute(self, job: ShardJob, advance: Advance) -> bytes:
        """The content of a shard's file."""
        with fixed_threads(self.work.threads):
            results = self._explain(job.rows, advance)
        if self.work.strict:
            for number, (row, result) in enumerate(zip(job.rows, results, strict=True), job.first):
                if isinstance(result, str):
                    msg = f"row {number}{named(row)}: {result} (refused: strict=True)"
                    raise InputError(msg)
        return encode_shard(
            job.rows, results, job.first, {"request": job.request, "rows": job.digest}
        )

    def _explain(self, rows: Sequence[Row], advance: Advance) -> list[list[Attribution] | str]:
        """For each row its attributions, or the reason why there are none."""
        found: list[list[Attribution]] = [[] for _ in rows]
        errors = {place: row.error for place, row in enumerate(rows) if row.error is not None}
        for config in self.work.configs:
            left = [place for place in range(len(rows)) if place not in errors]
            prepared = prepare(
                config,
                self.adapter,
                [rows[place].item for place in left],
                targets=[rows[place].target for place in left],
                files=False,
            )
            for at, opened in try_sessions(prepared):
                result = (
                    str(opened.error) if isinstance(opened, Refused) else self._attributions(opened)
                )
                if isinstance(result, str):
                    errors[left[at]] = result
                else:
                    found[left[at]] += result
                advance(1 / len(self.work.configs))
        return [errors.get(place, found[place]) for place in range(len(rows))]

    def _attributions(self, session: Session) -> list[Attribution] | str:
        own = session.config.method
        methods = [own if method == AUTO else method for method in session.config.methods]
        try:
            return [session.attribution(method, only_asked=True) for method in methods]
        except AttnflowError as error:
            return str(error)

    def _check_config(self, config: Request) -> None:
        """Refuse what no row could be explained with, before any is."""
        check_model(self.adapter, config)
        objective = Objective(0 if self.work.targets else None, config.contrast)
        config = choose(config, self.adapter, objective).config
        contrast = Objective(None, config.contrast)
        check_effect(contrast, self.adapter, config)
        check_known(contrast, self.adapter)
        if self.work.targets and not config.uses_target:
            msg = (
                f"a target column has no effect on edges={config.edges!r}, which are the same for "
                "every target; use edges='gradient', a method that reads no edges, or leave it out"
            )
            raise InputError(msg)


def _own_code(configs: Sequence[Request]) -> dict[str, str]:
    """The methods and edges that users wrote, with a digest of their code.

    Those of attnflow are known by its version.
    """
    names = dict.fromkeys(name for config in configs for name in config.methods if name != AUTO)
    rules = dict.fromkeys(config.edges for config in configs if config.edges != AUTO)
    found = {name: code_digest(METHODS[name]) for name in names}
    found |= {rule: code_digest(EDGE_RULES[rule]) for rule in rules}
    return {name: code for name, code in found.items() if code}


def named(row: Row) -> str:
    """The row's own name, for messages."""
    return "" if row.id is None else f" ({row.id})"


@contextmanager
def fixed_threads(count: int) -> Iterator[None]:
    """Let torch, the BLAS library below NumPy and compiled loops use this many threads.

    By default each of them starts a thread per core in every process, and several workers then
    wait for each other most of the time.
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(limits=count, user_api="blas"), at_most(count):
            yield
    finally:
        torch.set_num_threads(before)
