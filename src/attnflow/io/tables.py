"""Files of records: JSONL, CSV, TSV, Parquet, text, and a Hugging Face data set's folder.

A record is a mapping from column to value, or why this line is none.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from attnflow.errors import InputError, shown

Record = dict[str, Any] | str
Reader = Callable[[Path, Sequence[str]], Iterator[Record]]
AT_ONCE = 1024  # rows that are read together where a file is not made of lines
LONGEST_FIELD = 1 << 30
GZIP = ".gz"


def find_reader(path: Path, file_format: str | None = None) -> Reader:
    """The reader of a format; by default that which the file's name tells."""
    if not path.exists():
        msg = f"{path} does not exist; give a file, or the folder of a data set"
        raise InputError(msg)
    if file_format is not None:
        if file_format not in READERS:
            msg = f"format={shown(file_format)} is unknown; allowed: {', '.join(READERS)}"
            raise InputError(msg)
        return READERS[file_format]
    if path.is_dir():
        return _dataset
    suffix = path.with_suffix("").suffix if path.suffix == GZIP else path.suffix
    if suffix.lower() not in SUFFIXES:
        msg = (
            f"{path}: the format of a {suffix or 'nameless'} file is not known; name it with "
            f"format= (--format): {', '.join(READERS)}"
        )
        raise InputError(msg)
    return SUFFIXES[suffix.lower()]


def open_records(reader: Reader, path: Path, columns: Sequence[str]) -> Iterator[Record]:
    """The records of a file; where it can't be read, the error names the file and why."""
    try:
        yield from reader(path, columns)
    except UnicodeDecodeError as error:
        reason: object = f"it is not UTF-8 text (byte {error.object[error.start]:#x})"
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = f"its compression is damaged ({error})"
    except csv.Error as error:
        reason = error
    except OSError as error:
        reason = error.strerror or error
    else:
        return
    msg = f"{path} can't be read: {reason}"
    raise InputError(msg)


@contextmanager
def _lines(path: Path, newline: str | None = None) -> Iterator[IO[str]]:
    opener = gzip.open if path.suffix == GZIP else open
    with opener(path, "rt", encoding="utf-8-sig", newline=newline) as file:
        yield file


def _text(path: Path, columns: Sequence[str]) -> Iterator[Record]:
    """Each line that is not blank is a text; there are no other columns."""
    if len(columns) > 1:
        msg = f"{path} is a text file, which has no column {columns[1]!r}; it has texts only"
        raise InputError(msg)
    with _lines(path) as file:
        for line in file:
            if line.strip():
                yield {columns[0]: line.rstrip("\n")}


def _jsonl(path: Path, columns: Sequence[str]) -> Iterator[Record]:
    with _lines(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield f"line {number} is not JSON: {error}"
                continue
            if isinstance(found, str) and len(columns) == 1:
                found = {columns[0]: found}
            yield found if isinstance(found, dict) else f"line {number} is no JSON object"


def _delimited(path: Path, dialect: dict[str, Any]) -> Iterator[Record]:
    csv.field_size_limit(LONGEST_FIELD)
    with _lines(path, newline="") as file:
        rows = csv.reader(file, strict=True, **dialect)
        header = next(rows, None)
        if header is None:
            return
        if len(set(header)) < len(header):
            twice = next(name for name in header if header.count(name) > 1)
            msg = f"{path} has the column {twice!r} twice"
            raise InputError(msg)
        for values in rows:
            if not values:
                continue
            if len(values) == len(header):
                yield dict(zip(header, values, strict=True))
            else:
                fields = f"{len(values)} fields instead of {len(header)}"
                yield f"line {rows.line_num} has {fields}"


def _csv(path: Path, _: Sequence[str]) -> Iterator[Record]:
    return _delimited(path, {})


def _tsv(path: Path, _: Sequence[str]) -> Iterator[Record]:
    """Fields between tabs, as they are: quotation marks are part of the text."""
    return _delimited(path, {"delimiter": "\t", "quoting": csv.QUOTE_NONE})


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Record]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            there = file.schema_arrow.names
            yield from _batches(file.iter_batches(AT_ONCE, columns=_known(columns, there)), there)
    except pa.ArrowException as error:
        msg = f"{path} can't be read: it is no Parquet file, or damaged ({error})"
        raise InputError(msg) from error


def _dataset(path: Path, columns: Sequence[str]) -> Iterator[Record]:
    """What ``save_to_disk`` of Hugging Face's datasets wrote: Arrow streams, named in a list."""
    import pyarrow as pa

    splits = path / "dataset_dict.json"
    if splits.exists():
        names = ", ".join(str(path / name) for name in _json(splits).get("splits", ()))
        msg = f"{path} has several splits; give one of them: {names}"
        raise InputError(msg)
    state = path / "state.json"
    if not state.exists():
        msg = f"{path} is a folder without a state.json: no data set that save_to_disk wrote"
        raise InputError(msg)
    listed = _json(state)
    if listed.get("_indices_files") or listed.get("_indices_data_files"):
        msg = f"{path} keeps an order beside its rows; save it again after flatten_indices()"
        raise InputError(msg)
    for each in listed.get("_data_files", ()):
        try:
            with pa.memory_map(str(path / each["filename"])) as file:
                stream = pa.ipc.open_stream(file)
                yield from _batches(iter(stream), stream.schema.names, columns)
        except pa.ArrowException as error:
            msg = f"{path / each['filename']} can't be read: it is damaged ({error})"
            raise InputError(msg) from error


def _known(columns: Sequence[str], there: Sequence[str]) -> list[str]:
    """The columns that are there; where one is not, all, for the error that lists them."""
    return list(columns if set(columns) <= set(there) else there)


def _batches(
    batches: Iterator[Any], there: Sequence[str], columns: Sequence[str] | None = None
) -> Iterator[Record]:
    wanted = None if columns is None else _known(columns, there)
    for batch in batches:
        chosen = batch if wanted is None else batch.select(wanted)
        for start in range(0, chosen.num_rows, AT_ONCE):
            yield from chosen.slice(start, AT_ONCE).to_pylist()


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        msg = f"{path} can't be read: {error}"
        raise InputError(msg) from None
    return found if isinstance(found, dict) else {}


READERS: dict[str, Reader] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "tsv": _tsv,
    "parquet": _parquet,
    "text": _text,
    "dataset": _dataset,
}
SUFFIXES: dict[str, Reader] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".csv": _csv,
    ".tsv": _tsv,
    ".parquet": _parquet,
    ".txt": _text,
}
