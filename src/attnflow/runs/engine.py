"""A run from its start or from where it stopped, shard by shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError
from attnflow.io.checkpoint import digest
from attnflow.io.progress import progress_bar
from attnflow.io.rows import Columns, Row, Rows, digest_rows
from attnflow.records.learned import LearnedHeads
from attnflow.runs import manifest as manifests
from attnflow.runs.cluster import Cluster, RayActors
from attnflow.runs.options import OPTIONS
from attnflow.runs.pool import OneProcess, Processes, WorkerPool
from attnflow.runs.shards import NAME, read_info
from attnflow.runs.work import Job, Work

if TYPE_CHECKING:
    from attnflow.models.loading import Source

SAMPLE = 2  # rows on which every worker finds out once what a model does


@dataclass
class Plan:
    """A run: which rows, in which columns, into which folder, in shards of how many rows."""

    source: Rows
    columns: Columns
    folder: Path
    shard_size: int
    work: Work
    total: int | None = None
    input_digest: str | None = None
    request_digest: str = ""
    finished: list[int] = field(default_factory=list)

    def request(self, about: dict[str, Any]) -> dict[str, Any]:
        """Everything that decides what the shards hold."""
        first = self.work.configs[0]
        options = {name: getattr(first, name) for name in OPTIONS}
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
            "model": about,
            "methods": list(first.methods),
            "edges": [config.edges for config in self.work.configs],
            "options": options | {"strict": self.work.strict},
            "shard_size": self.shard_size,
            "threads": self.work.threads,
            **({} if self.work.device is None else {"device": self.work.device}),
            "versions": manifests.versions(),
        }

    def shards(self) -> Iterator[tuple[int, tuple[Row, ...]]]:
        """The rows of each shard, in order."""
        rows = self.source.read()
        index = 0
        while part := tuple(islice(rows, self.shard_size)):
            yield index, part
            index += 1

    def jobs(self, shards: Iterator[tuple[int, tuple[Row, ...]]]) -> Iterator[Job | int]:
        """What is left to do; of a shard that is there, the number of its rows."""
        for index, rows in shards:
            self.finished.append(index)
            path = self.folder / NAME.format(index)
            job = Job(index, index * self.shard_size, rows, self.request_digest, digest_rows(rows))
            if not path.exists():
                yield job
                continue
            info = read_info(path)
            if info.request != job.request:
                msg = (
                    f"{path} belongs to a run with other options; choose another folder, or "
                    f"delete {self.folder} to start over"
                )
                raise InputError(msg)
            if info.rows != job.digest:
                last = job.first + len(rows) - 1
                msg = (
                    f"{path} was made of other rows: rows {job.first} to {last} of the input have "
                    "changed; give the same input, or choose another folder"
                )
                raise InputError(msg)
            yield len(rows)


def execute(
    plan: Plan,
    model: Source,
    *,
    workers: int,
    progress: bool,
    cluster: Cluster | None = None,
) -> int:
    """Make every shard that is not there, and say so in the manifest.

    Returns:
        How many rows were there already.
    """
    plan.total, plan.input_digest = plan.source.measure()
    shards = plan.shards()
    first = next(shards, None)
    if first is None:
        msg = f"{plan.source.name} has no rows; give at least one"
        raise InputError(msg)
    sample = first[1][:SAMPLE]
    with _open_pool(model, plan.work, sample, workers, cluster) as pool:
        request = plan.request(pool.about)
        manifest = manifests.start(plan.folder, plan.source.name, request)
        plan.request_digest = digest(manifest["request"])
        with progress_bar("explaining", plan.total, shown=progress, unit="rows") as show:
            done, kept = 0.0, 0

            def advance(rows: float) -> None:
                nonlocal done
                done += rows
                show(done)

            def left() -> Iterator[Job]:
                nonlocal kept
                for each in plan.jobs(chain([first], shards)):
                    if isinstance(each, Job):
                        yield each
                    else:
                        kept += each
                        advance(each)

            for index, content in pool.compute(left(), advance):
                manifests.save(plan.folder / NAME.format(index), content)
    manifests.finish(plan.folder, manifest, plan.finished)
    return kept


def _open_pool(
    model: Source, work: Work, sample: Sequence[Row], workers: int, cluster: Cluster | None
) -> WorkerPool:
    if cluster is not None:
        return RayActors(model, work, sample, workers, cluster)
    if workers == 1:
        return OneProcess(model, work, sample)
    return Processes(model, work, sample, workers)
