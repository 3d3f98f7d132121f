"""Reading a run: a lazy table, its attributions, and the rows that could not be explained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSystemHandler, FileType

from attnflow.errors import InputError
from attnflow.io.files import as_path, digest
from attnflow.io.keywords import known_keywords
from attnflow.runs.manifest import listed_shards, read_manifest
from attnflow.runs.shards import (
    PATTERN,
    SCHEMA,
    Shard,
    belongs_elsewhere,
    check_place,
    damaged,
    describe,
    place_of,
    read_info,
    read_records,
    read_shard,
    to_attribution,
)

if TYPE_CHECKING:
    import pandas as pd
    from pyarrow.dataset import Dataset

    from attnflow.records import Attribution


class VerifiedFiles(FileSystemHandler):  # type: ignore[misc] # pyarrow has no types
    """A read-only file system for pyarrow's datasets: files with the SHA-256 in ``checksums``."""

    def __init__(self, checksums: Mapping[str, str]) -> None:
        self._checksums = dict(checksums)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VerifiedFiles) and self._checksums == other._checksums

    __hash__ = None  # type: ignore[assignment] # it is compared by a dict

    def get_type_name(self) -> str:
        """The name that pyarrow shows."""
        return "attnflow-run"

    def normalize_path(self, path: str) -> str:
        """Paths are as they were given."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[FileInfo]:
        """Which of the files exist."""
        return [
            FileInfo(path, FileType.File if path in self._checksums else FileType.NotFound)
            for path in paths
        ]

    def open_input_file(self, path: str) -> Any:
        """The content of a file, read and verified now."""
        content = read_shard(Path(path), self._checksums[path])
        return pa.PythonFile(pa.BufferReader(content), mode="r")

    open_input_stream = open_input_file

    def _refuse(self, *_: object) -> NoReturn:
        msg = "the files of a run can be read only"
        raise NotImplementedError(msg)

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = _refuse
    delete_root_dir_contents = delete_file = move = copy_file = _refuse
    open_output_stream = open_append_stream = _refuse


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

    Iterating gives every attribution; ``len`` is how many there are. However a shard is read, its
    checksum is verified first.

    Attributes:
        folder: Where it is.
        manifest: What was asked for, of which model and input, with which versions.
        listed: Its files, in order, with what they hold and their checksums.
        kept: How many rows `attnflow.run` found there, made by an earlier call.
    """

    folder: Path
    manifest: Mapping[str, Any]
    listed: tuple[Shard, ...]
    kept: int = 0

    @property
    def shards(self) -> tuple[Path, ...]:
        """Its files, in order."""
        return tuple(self.folder / shard.file for shard in self.listed)

    @property
    def finished(self) -> bool:
        """Whether all rows are done."""
        return self.manifest["finished"] is not None

    @property
    def rows(self) -> int:
        """How many rows of the input it is of."""
        return sum(shard.rows for shard in self.listed)

    def __len__(self) -> int:
        return sum(shard.attributions for shard in self.listed)

    def __iter__(self) -> Iterator[Attribution]:
        for record in self._records(self.listed):
            if record["error"] is None:
                yield to_attribution(record)

    def explained(self) -> Iterator[tuple[int, str | None, list[Attribution]]]:
        """Row by row: its number, its own name, and its attributions; bad rows are left out."""
        good = (each for each in self._records(self.listed) if each["error"] is None)
        for (row, name), records in groupby(good, key=lambda each: (each["row"], each["id"])):
            yield row, name, [to_attribution(each) for each in records]

    @property
    def errors(self) -> list[BadRow]:
        """The rows that could not be explained."""
        wanted = [shard for shard in self.listed if shard.errors]
        found = self._records(wanted, ["row", "id", "text", "error"])
        return [BadRow(**each) for each in found if each["error"] is not None]

    @property
    def table(self) -> Dataset:
        """All columns as a lazy table of pyarrow: filter, select and read what is needed.

        A file is read whole, and its checksum verified, whenever something of it is needed.
        """
        import pyarrow.dataset as ds
        from pyarrow.fs import PyFileSystem

        checksums = {str(self.folder / shard.file): shard.sha256 for shard in self.listed}
        files = PyFileSystem(VerifiedFiles(checksums))
        return ds.dataset(list(checksums), schema=SCHEMA, format="parquet", filesystem=files)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The table as a pandas DataFrame, or some of its columns."""
        return self.table.to_table(columns=None if columns is None else list(columns)).to_pandas()

    def _records(
        self, shards: Sequence[Shard], columns: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        for shard in shards:
            path = self.folder / shard.file
            yield from read_records(path, read_shard(path, shard.sha256), columns)

    def __repr__(self) -> str:
        errors = sum(shard.errors for shard in self.listed)
        parts = f"{self.rows} rows, {len(self)} attributions, {errors} errors"
        return f"<Run {self.folder}: {parts}{'' if self.finished else ', unfinished'}>"


@known_keywords()
def read_run(folder: str | Path, *, unfinished: bool = False) -> Run:
    """Read what `attnflow.run` wrote, as far as it is used.

    Args:
        folder: The folder of the run.
        unfinished: Read a run that is not finished as far as it is; by default it is refused. All
            its shards are verified at once, those of a finished run when they are read.

    Raises:
        InputError: It is not a run, not finished, or a shard is missing or damaged.

    Examples:
        >>> import tempfile, attnflow
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = attnflow.run(["the key is", "the keys are"], f"{folder}/run", "verbs")
        ...     len(list(attnflow.read_run(f"{folder}/run").explained()))
        2
    """
    path = as_path(folder)
    manifest = read_manifest(path)
    if manifest["finished"] is not None:
        listed = listed_shards(path, manifest)
        for shard in listed:
            file = path / shard.file
            size = file.stat().st_size if file.exists() else None
            if size != shard.bytes:
                why = "it is missing" if size is None else f"{size} bytes instead of {shard.bytes}"
                raise InputError(damaged(file, why))
        return Run(path, manifest, tuple(listed))
    found = sorted(path.glob(PATTERN))
    if not unfinished:
        msg = (
            f"{path} is not finished: {len(found)} shards are there; run the same command "
            "again to finish it, or read them with unfinished=True"
        )
        raise InputError(msg)
    return Run(path, manifest, tuple(_read_unlisted(each, manifest["request"]) for each in found))


def _read_unlisted(path: Path, request: Mapping[str, Any]) -> Shard:
    """A shard that no manifest lists yet, which must be sound and of this place of the run."""
    content = read_shard(path)
    if read_info(path, content).request != digest(request):
        raise InputError(belongs_elsewhere(path))
    check_place(path, content, place_of(path) * request["shard_size"])
    return describe(path, content)
