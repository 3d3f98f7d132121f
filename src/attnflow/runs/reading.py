"""Reading a run: a lazy table, its attributions, and the rows that could not be explained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError
from attnflow.io.files import as_path
from attnflow.io.keywords import known_keywords
from attnflow.runs.manifest import read_manifest
from attnflow.runs.shards import PATTERN, damaged, read_info, read_records, to_attribution

if TYPE_CHECKING:
    import pandas as pd
    from pyarrow.dataset import Dataset

    from attnflow.records import Attribution


@dataclass(frozen=True)
class BadRow:
    """A row that could not be explained, and why."""

    row: int
    id: str | None
    text: str
    error: str


@dataclass(frozen=True, repr=False)
class Run:
    """The result of `attnflow.run`: attributions in the order of the rows, read as they are used.

    Iterating gives every attribution; ``len`` is how many there are.

    Attributes:
        folder: Where it is.
        manifest: What was asked for, of which model and input, with which versions.
        shards: Its files, in order.
        kept: How many rows `attnflow.run` found there, made by an earlier call.
    """

    folder: Path
    manifest: Mapping[str, Any]
    shards: tuple[Path, ...]
    kept: int = 0

    @property
    def finished(self) -> bool:
        """Whether all rows are there."""
        return self.manifest["finished"] is not None

    @cached_property
    def _infos(self) -> list[Any]:
        return [read_info(path) for path in self.shards]

    @property
    def rows(self) -> int:
        """How many rows of the input it is of."""
        return sum(info.count for info in self._infos)

    def __len__(self) -> int:
        return sum(info.records for info in self._infos)

    def __iter__(self) -> Iterator[Attribution]:
        for record in self._records(self.shards):
            if record["error"] is None:
                yield to_attribution(record)

    def explained(self) -> Iterator[tuple[int, str | None, list[Attribution]]]:
        """Row by row: its number, its own name, and its attributions; bad rows are left out."""
        good = (each for each in self._records(self.shards) if each["error"] is None)
        for (row, name), records in groupby(good, key=lambda each: (each["row"], each["id"])):
            yield row, name, [to_attribution(each) for each in records]

    @property
    def errors(self) -> list[BadRow]:
        """The rows that could not be explained."""
        columns = ["row", "id", "text", "error"]
        wanted = [path for path, info in zip(self.shards, self._infos, strict=True) if info.errors]
        found = self._records(wanted, columns)
        return [BadRow(**each) for each in found if each["error"] is not None]

    @property
    def table(self) -> Dataset:
        """All columns as a lazy table of pyarrow: filter, select and read what is needed."""
        import pyarrow.dataset as ds

        from attnflow.runs.shards import SCHEMA

        return ds.dataset(list(map(str, self.shards)), schema=SCHEMA, format="parquet")

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The table as a pandas DataFrame, or some of its columns."""
        return self.table.to_table(columns=None if columns is None else list(columns)).to_pandas()

    def _records(
        self, shards: Sequence[Path], columns: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        listed = (self.manifest["finished"] or {}).get("shards", ())
        checksums = {each["file"]: each["sha256"] for each in listed}
        for path in shards:
            yield from read_records(path, columns, sha256=checksums.get(path.name))

    def __repr__(self) -> str:
        errors = sum(info.errors for info in self._infos)
        parts = f"{self.rows} rows, {len(self)} attributions, {errors} errors"
        return f"<Run {self.folder}: {parts}{'' if self.finished else ', unfinished'}>"


@known_keywords()
def read_run(folder: str | Path, *, unfinished: bool = False) -> Run:
    """Read what `attnflow.run` wrote, as far as it is used.

    Args:
        folder: The folder of the run.
        unfinished: Read a run that is not finished as far as it is; by default it is refused.

    Raises:
        InputError: It is no run, not finished, or a shard is missing or damaged.
    """
    path = as_path(folder)
    manifest = read_manifest(path)
    if manifest["finished"] is None:
        found = tuple(sorted(path.glob(PATTERN)))
        if not unfinished:
            msg = (
                f"{path} is not finished: {len(found)} shards are there; run the same command "
                "again to finish it, or read them with unfinished=True"
            )
            raise InputError(msg)
        return Run(path, manifest, found)
    shards = []
    for each in manifest["finished"]["shards"]:
        shard = path / each["file"]
        size = shard.stat().st_size if shard.exists() else None
        if size != each["bytes"]:
            why = "it is missing" if size is None else f"{size} bytes instead of {each['bytes']}"
            raise InputError(damaged(shard, why))
        shards.append(shard)
    return Run(path, manifest, tuple(shards))
