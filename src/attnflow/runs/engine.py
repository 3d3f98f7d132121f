"""A run, from its start or from where it stopped, shard by shard."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError
from attnflow.io.files import GO_ON, PART_SUFFIX, digest, only_writer, write_file
from attnflow.io.progress import progress_bar
from attnflow.io.rows import Columns, Row, Rows, row_bytes
from attnflow.options.option import options_of, values_of
from attnflow.options.tables import RunOptions
from attnflow.records.learned import LearnedHeads
from attnflow.runs import manifest as manifests
from attnflow.runs.cluster import Cluster, RayActors
from attnflow.runs.pool import OneProcess, Processes, WorkerPool
from attnflow.runs.shards import (
    NAME,
    PATTERN,
    Shard,
    belongs_elsewhere,
    check_place,
    describe,
    read_info,
    read_shard,
)
from attnflow.runs.work import ShardJob, Work

if TYPE_CHECKING:
    from attnflow.models.loading import Source

SAMPLE = 2  # rows on which every worker checks the model once


@dataclass
class Plan:
    """A run: its rows, their columns, the folder, and how many rows a shard has."""

    source: Rows
    columns: Columns
    folder: Path
    shard_size: int
    work: Work
    total: int | None = None
    input_digest: str | None = None
    expected: list[str] | None = None
    request_digest: str = ""
    made: dict[int, Shard] = field(default_factory=dict)

    def request(self, about: dict[str, Any]) -> dict[str, Any]:
        """Everything that decides what the shards hold."""
        first = self.work.configs[0]
        declared = options_of(RunOptions).items()
        names = [name for name, (_, each) in declared if each.recorded and hasattr(first, name)]
        options = values_of(first, names)
        if isinstance(first.heads, LearnedHeads):
            options["heads"] = asdict(first.heads)
        return {
            "input": {
                "rows": self.total,
                "sha256": self.input_digest,
                "columns": {
                    "text": self.columns.text,
                    "target": self.columns.target,
                    "id": self.columns.id,
                    "pair": self.columns.pair,
                },
            },
            "model": {name: value for name, value in about.items() if name != "plugins"},
            **({"plugins": about["plugins"]} if "plugins" in about else {}),
            "methods": list(first.methods),
            "edges": [config.edges for config in self.work.configs],
            "options": options,
            "shard_size": self.shard_size,
            "threads": self.work.threads,
            **({} if self.work.device is None else {"device": self.work.device}),
            "versions": manifests.versions(),
        }

    def measure(self) -> None:
        """Count the rows and make digests of them, where they can be read more than once."""
        if not self.source.repeatable:
            return
        whole, self.total, self.expected = hashlib.sha256(), 0, []
        for rows in self._parts():
            content = row_bytes(rows)
            whole.update(content)
            self.total += len(rows)
            self.expected.append(hashlib.sha256(content).hexdigest())
        self.input_digest = whole.hexdigest()

    def _parts(self) -> Iterator[tuple[Row, ...]]:
        rows = self.source.read()
        while part := tuple(islice(rows, self.shard_size)):
            yield part

    def shards(self) -> Iterator[tuple[int, tuple[Row, ...], str]]:
        """The rows of each shard, in order, and their digest: those that were measured, or none."""
        index = -1
        for index, rows in enumerate(self._parts()):
            found = hashlib.sha256(row_bytes(rows)).hexdigest()
            if self.expected is not None and [found] != self.expected[index : index + 1]:
                raise InputError(self._changed(index))
            yield index, rows, found
        if self.expected is not None and index + 1 < len(self.expected):
            raise InputError(self._changed(index + 1))

    def _changed(self, index: int) -> str:
        first = index * self.shard_size
        return (
            f"{self.source.name} changed while it was read: rows from {first} on are not what "
            "they were when the run started. Shards before them are kept: restore the input "
            "and run the same command again, or choose another folder for the new one"
        )

    def jobs(self, shards: Iterator[tuple[int, tuple[Row, ...], str]]) -> Iterator[ShardJob | int]:
        """The jobs that are left; for a shard that exists, the number of its rows instead."""
        for index, rows, found in shards:
            path = self.folder / NAME.format(index)
            job = ShardJob(index, index * self.shard_size, rows, self.request_digest, found)
            if not path.exists():
                yield job
                continue
            content = read_shard(path)
            info = read_info(path, content)
            if info.request != job.request:
                raise InputError(belongs_elsewhere(path))
            if info.rows != job.digest:
                last = job.first + len(rows) - 1
                msg = (
                    f"{path} was made of other rows: rows {job.first} to {last} of the input have "
                    "changed; give the same input, or choose another folder"
                )
                raise InputError(msg)
            check_place(path, content, job.first)
            self.made[index] = describe(path, content)
            yield len(rows)

    def check_shards(self) -> None:
        """Refuse a folder with damaged shards, before any work, and name all of them."""
        bad: list[tuple[Path, InputError]] = []
        for path in sorted(self.folder.glob(PATTERN)):
            try:
                read_shard(path)
            except InputError as error:
                bad.append((path, error))
        if bad:
            others = ", ".join(path.name for path, _ in bad[1:])
            msg = f"{bad[0][1]}" + (f". These are damaged, too: {others}" if others else "")
            raise InputError(msg)

    def write(self, index: int, content: bytes) -> None:
        """Write a shard."""
        path = self.folder / NAME.format(index)
        write_file(path, content, GO_ON)
        self.made[index] = describe(path, content)

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Record in the manifest that the run is done, if all shards are of this input."""
        made = [self.made[index] for index in sorted(self.made)]
        known = {shard.file for shard in made}
        if more := [path for path in sorted(self.folder.glob(PATTERN)) if path.name not in known]:
            msg = (
                f"{more[0]} is of rows that the input no longer has: it ends after "
                f"{sum(shard.rows for shard in made)} rows; give the same input, or choose another "
                "folder"
            )
            raise InputError(msg)
        manifests.finish(self.folder, manifest, made)


def execute(
    plan: Plan,
    model: Source,
    *,
    workers: int,
    progress: bool,
    cluster: Cluster | None = None,
) -> int:
    """Make every shard that does not exist yet, and record the run as finished.

    Returns:
        How many rows existed already.
    """
    plan.measure()
    shards = plan.shards()
    first = next(shards, None)
    if first is None:
        msg = f"{plan.source.name} has no rows; give at least one"
        raise InputError(msg)
    sample = first[1][:SAMPLE]
    with ExitStack() as stack:
        existed = plan.folder.is_dir()
        if existed:
            alone = stack.enter_context(only_writer(plan.folder))
            plan.check_shards()
        pool = stack.enter_context(_open_pool(model, plan.work, sample, workers, cluster))
        request = plan.request(pool.about)
        if not existed:  # only now is it certain that there is something to write
            manifests.create(plan.folder)
            alone = stack.enter_context(only_writer(plan.folder))
        manifest = manifests.start(plan.folder, plan.source.name, request)
        plan.request_digest = digest(manifest["request"])
        kept = _compute(plan, pool, chain([first], shards), progress=progress)
        plan.finish(manifest)
        if alone:
            for leftover in plan.folder.glob(f"*{PART_SUFFIX}"):  # of processes that were killed
                leftover.unlink(missing_ok=True)
    return kept


def _compute(
    plan: Plan,
    pool: WorkerPool,
    shards: Iterator[tuple[int, tuple[Row, ...], str]],
    *,
    progress: bool,
) -> int:
    """Make what is missing, and return how many rows existed already."""
    with progress_bar("explaining", plan.total, shown=progress, unit="rows") as show:
        done, kept = 0.0, 0

        def advance(rows: float) -> None:
            nonlocal done
            done += rows
            show(done)

        def left() -> Iterator[ShardJob]:
            nonlocal kept
            for each in plan.jobs(shards):
                if isinstance(each, ShardJob):
                    yield each
                else:
                    kept += each
                    advance(each)

        for index, content in pool.compute(left(), advance):
            plan.write(index, content)
    return kept


def _open_pool(
    model: Source, work: Work, sample: Sequence[Row], workers: int, cluster: Cluster | None
) -> WorkerPool:
    if cluster is not None:
        return RayActors(model, work, sample, workers, cluster)
    if workers == 1:
        return OneProcess(model, work, sample)
    return Processes(model, work, sample, workers)
