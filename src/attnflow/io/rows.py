"""Rows of a data set, from any source: files, folders of data sets, or a caller's own records.

A row that can't be used (a line that is not JSON, a missing text) is a `Row` with its ``error``; a
source that can't be read at all raises an `InputError`.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import IO, Any

from attnflow.errors import InputError, shown, unknown
from attnflow.io.inputs import check_choice, check_unicode, is_pair

Record = dict[str, Any] | str  # from column to value, or why a line is not a record
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
            raise InputError(unknown("format", file_format, READERS))
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
            yield found if isinstance(found, dict) else f"line {number} is not a JSON object"


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
        msg = f"{path} can't be read: it is not a Parquet file, or damaged ({error})"
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
        msg = (
            f"{path} is a folder without a state.json: it is not a data set that save_to_disk wrote"
        )
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


TEXT = "text"
LIST = "it is a list of two; a pair of texts that are read as one is a tuple"


@dataclass(frozen=True)
class Columns:
    """The columns that are read: the text's, and perhaps others.

    Attributes:
        text: The text, or the first text of a pair; ``None`` for ``"text"``, or else the only other
            column that holds texts.
        target: The target.
        id: The row's name.
        rationale: What people marked.
        pair: The second text of a pair that is read as one input.
    """

    text: str | None = None
    target: str | None = None
    id: str | None = None
    rationale: str | None = None
    pair: str | None = None

    def __post_init__(self) -> None:
        for name, column in asdict(self).items():
            if column is not None and not (isinstance(column, str) and column):
                msg = f"{name}_column={shown(column)} must be the name of a column"
                raise InputError(msg)
        if self.rationale is not None and self.pair is not None:
            msg = "rationale_column is for single texts, and pair_column makes pairs; leave one out"
            raise InputError(msg)

    @property
    def names(self) -> list[str]:
        """Those that are read, each once."""
        return list(dict.fromkeys([self.text or TEXT, *self.others]))

    @property
    def others(self) -> list[str]:
        """Those beside the text's."""
        return [each for each in (self.target, self.id, self.rationale, self.pair) if each]

    def found_in(self, record: Mapping[str, Any], name: str) -> Columns:
        """The columns of a source whose first record this is, or an error that lists them."""
        text = self.text
        if text is None and TEXT not in record:
            others = [each for each in record if each not in self.others]
            texts = [each for each in others if _is_text(record[each])]
            if len(texts) > 1:
                msg = (
                    f"{name} has several columns of texts: {', '.join(map(repr, texts))}; name one "
                    "with text_column= (--text-column)"
                )
                raise InputError(msg)
            text = texts[0] if texts else None
        found = replace(self, text=text or TEXT)
        missing = next((column for column in found.names if column not in record), None)
        if missing is not None:
            there = ", ".join(map(repr, record)) or "none"
            msg = f"{name} has no column {missing!r}; its columns: {there}"
            raise InputError(msg)
        return found


@dataclass(frozen=True)
class Row:
    """One row: a text with its target, its name and what people marked, or why it can't be used.

    The target is a name, or a number that is written out. A rationale has one number for each word.
    ``pair`` is the second text of a pair.
    """

    text: str
    target: str | None = None
    id: str | None = None
    error: str | None = None
    rationale: tuple[float, ...] | None = None
    pair: str | None = None

    @property
    def item(self) -> str | tuple[str, str]:
        """What the model reads."""
        return self.text if self.pair is None else (self.text, self.pair)


@dataclass(frozen=True)
class Rows:
    """A source of rows.

    Attributes:
        name: What it is called in messages.
        read: The rows, from the first.
        repeatable: Whether they can be read again; a generator's can't.
    """

    name: str
    read: Callable[[], Iterator[Row]]
    repeatable: bool = True


def _is_text(value: Any) -> bool:
    """Whether a value is a text: in a table of texts, "1" is a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return isinstance(value, str)
    return False


def row_bytes(rows: Iterable[Row]) -> bytes:
    """What a digest of rows is made of."""
    return b"".join(json.dumps(astuple(row)).encode() + b"\n" for row in rows)


def open_rows(given: Any, columns: Columns, file_format: str | None = None) -> Rows:
    """The rows of a file, of a data set's folder, or of any iterable of texts or mappings."""
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        reader = find_reader(path, file_format)

        def read() -> Iterator[Row]:
            records = open_records(reader, path, columns.names)
            return _checked(records, columns, str(path))

        return Rows(str(path), read)
    if file_format is not None:
        msg = f"format={file_format!r} is for files; leave it out for {type(given).__name__}"
        raise InputError(msg)
    if isinstance(given, Mapping | bytes) or not isinstance(given, Iterable):
        msg = (
            f"input={shown(given)} must be a file, a folder, or an iterable of texts or of "
            "mappings from column to value"
        )
        raise InputError(msg)
    name = f"the {type(given).__name__}"
    records = (_as_record(each, columns) for each in given)
    if isinstance(given, Iterator):
        return Rows(name, lambda: _checked(records, columns, name), repeatable=False)
    return Rows(
        name,
        lambda: _checked((_as_record(each, columns) for each in given), columns, name),
    )


def _as_record(given: Any, columns: Columns) -> Record:
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, str | os.PathLike):
        return {columns.names[0]: os.fspath(given), **dict.fromkeys(columns.names[1:])}
    if is_pair(given):
        if columns.pair is None:
            return "it is a pair of texts; name the column of the second with pair_column="
        return {**dict.fromkeys(columns.names), columns.names[0]: given[0], columns.pair: given[1]}
    if isinstance(given, list) and len(given) == 2:
        return LIST
    return f"it is {shown(given)}; a row is a text, or a mapping from column to value"


def _checked(records: Iterable[Record], columns: Columns, name: str) -> Iterator[Row]:
    """Rows of records; a column that the first one lacks is refused at once."""
    found = None
    for record in records:
        if isinstance(record, str):
            yield Row("", error=record)
            continue
        found = found or columns.found_in(record, name)
        missing = next((column for column in found.names if column not in record), None)
        yield Row("", error=f"it has no {missing!r}") if missing else _row(record, found)


def _row(record: Mapping[str, Any], columns: Columns) -> Row:
    column = columns.names[0]
    text, error = record[column], None
    second = None if columns.pair is None else record[columns.pair]
    given = None if columns.id is None else record[columns.id]
    name = None if given is None else _encodable(str(given))
    try:
        if not isinstance(text, str):
            error, text = f"{column}={shown(text)} must be a text", ""
        elif not text.strip():
            error = f"{column} is empty"
        check_unicode(column, text)
        if columns.pair is not None and error is None:
            if not (isinstance(second, str) and second.strip()):
                error, second = f"{columns.pair}={shown(second)} must be a text", None
            check_unicode(columns.pair, second)
        given = None if columns.target is None else record[columns.target]
        target = _as_written(check_choice("target", given))
        marked = None if columns.rationale is None else _rationale(record[columns.rationale])
    except InputError as refused:
        return Row(_encodable(text), id=name, error=str(refused))
    return Row(text, target, name, error, marked, second if error is None else None)


def _as_written(target: str | int | None) -> str | None:
    """A target as text, so that it means the same whether a format knows numbers or not."""
    return None if target is None else str(target) or None


def _rationale(given: Any) -> tuple[float, ...]:
    """Numbers, in a list or written with blanks between them."""
    try:
        return tuple(map(float, given.split() if isinstance(given, str) else given))
    except (TypeError, ValueError):
        msg = f"rationale={shown(given)} must be one number for each word of the text"
        raise InputError(msg) from None


def _encodable(text: str) -> str:
    """The text with escapes for what no file can hold."""
    return text.encode(errors="backslashreplace").decode()
