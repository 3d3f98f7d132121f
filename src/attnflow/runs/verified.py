"""Shards as pyarrow's datasets open them: whole, and only where the checksum matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSystemHandler, FileType

from attnflow.runs.shards import read_shard


class VerifiedFiles(FileSystemHandler):  # type: ignore[misc] # pyarrow has no types
    """A file system of the files in ``checksums``, each with its SHA-256, that can be read only."""

    def __init__(self, checksums: Mapping[str, str]) -> None:
        self._checksums = dict(checksums)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VerifiedFiles) and self._checksums == other._checksums

    __hash__ = None  # type: ignore[assignment] # as for all that can be compared and holds a dict

    def get_type_name(self) -> str:
        """The name that pyarrow shows."""
        return "attnflow-run"

    def normalize_path(self, path: str) -> str:
        """Paths are as they were given."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[FileInfo]:
        """Which of the files there are."""
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
