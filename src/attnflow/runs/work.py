"""The work on one shard: rows in, attributions or reasons out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnflow.errors import AttnflowError, InputError
from attnflow.io.rows import Row
from attnflow.models.adapter import Objective
from attnflow.models.bos import put_bos
from attnflow.pipeline.config import ExplainConfig
from attnflow.pipeline.sessions import (
    batches_by_length,
    check_model,
    check_objectives,
    open_batch,
)
from attnflow.registry import load_plugin
from attnflow.runs.shards import encode_shard

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens
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
    """

    configs: tuple[ExplainConfig, ...]
    threads: int
    targets: bool = False
    strict: bool = False
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
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
        from attnflow.models.weights import weights_digest

        for plugin in work.plugins:
            load_plugin(plugin)
        self.work = work
        self.adapter: ModelAdapter = load_model(model)
        for config in work.configs:
            _check_config(self.adapter, config, targets=work.targets)
        self.about: dict[str, Any] = {
            "name": self.adapter.name,
            **self.adapter.description,
            "sha256": weights_digest(self.adapter),
        }
        with fixed_threads(work.threads):
            # What is measured of a model once is measured on the same rows in every process.
            self._explain(sample, lambda _: None)

    def compute(self, job: Job, advance: Advance) -> bytes:
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
            tokens: dict[int, Tokens] = {}
            for place, row in enumerate(rows):
                if place not in errors:
                    try:
                        read = self.adapter.tokenize(row.text, truncate=config.truncate)
                        tokens[place] = put_bos(self.adapter, read) if config.bos else read
                        self._check_target(row)
                    except AttnflowError as error:
                        errors[place] = str(error)
                        tokens.pop(place, None)
            places = list(tokens)
            inputs = list(tokens.values())
            spec, size = config.capture(), config.batch_size
            for batch in batches_by_length(inputs, self.adapter, spec, size):
                members = [places[each] for each in batch]
                for place, result in self._batch(members, tokens, rows, config):
                    if isinstance(result, str):
                        errors[place] = result
                    else:
                        found[place] += result
                advance(len(members) / len(self.work.configs))
        return [errors.get(place, found[place]) for place in range(len(rows))]

    def _check_target(self, row: Row) -> None:
        if row.target is not None:
            self.adapter.output_index(row.target)

    def _batch(
        self,
        places: Sequence[int],
        tokens: dict[int, Tokens],
        rows: Sequence[Row],
        config: ExplainConfig,
    ) -> Iterator[tuple[int, list[Attribution] | str]]:
        """The results of rows that run together; where one of them can't, each runs alone."""
        objectives = [Objective(rows[place].target, config.contrast) for place in places]
        try:
            sessions = list(
                open_batch(
                    [tokens[place] for place in places],
                    objectives,
                    self.adapter,
                    config,
                    config.capture(),
                )
            )
        except AttnflowError as error:
            if len(places) == 1:
                yield places[0], str(error)
                return
            for place in places:
                yield from self._batch([place], tokens, rows, config)
            return
        for place, session in zip(places, sessions, strict=True):
            yield place, self._attributions(session)

    def _attributions(self, session: Session) -> list[Attribution] | str:
        try:
            return [
                session.attribution(method, only_asked=True) for method in session.config.methods
            ]
        except AttnflowError as error:
            return str(error)


def named(row: Row) -> str:
    """The row's own name, for messages."""
    return "" if row.id is None else f" ({row.id})"


def _check_config(adapter: ModelAdapter, config: ExplainConfig, *, targets: bool) -> None:
    """Refuse what no row could be explained with, before any is."""
    check_model(adapter, config)
    check_objectives([Objective(None, config.contrast)], adapter, config)
    if targets and not config.uses_target:
        msg = (
            f"a target column has no effect on edges={config.edges!r}, which are the same for "
            "every target; use edges='gradient', a method that reads no edges, or leave it out"
        )
        raise InputError(msg)


@contextmanager
def fixed_threads(count: int) -> Iterator[None]:
    """While it lasts, torch works with so many threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
