"""Rows of a data set, one after the other, whatever holds them.

A row that can't be used (a line that is no JSON, a missing text) is a `Row` with its ``error``; a
source that can't be read at all raises an `InputError`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from attnflow.errors import InputError, shown
from attnflow.io.inputs import check_choice, check_unicode, is_pair
from attnflow.io.tables import Record, find_reader, open_records

LIST = "it is a list of two; a pair of texts that are read as one is a tuple"


@dataclass(frozen=True)
class Columns:
    """The columns that are read: the text's, and perhaps others.

    Attributes:
        text: The text, or the first text of a pair.
        target: The target.
        id: The row's name.
        rationale: What people marked.
        pair: The second text of a pair that is read as one input.
    """

    text: str = "text"
    target: str | None = None
    id: str | None = None
    rationale: str | None = None
    pair: str | None = None

    def __post_init__(self) -> None:
        for name, column in asdict(self).items():
            if not (isinstance(column, str) and column) and (name == "text" or column is not None):
                msg = f"{name}_column={shown(column)} must be the name of a column"
                raise InputError(msg)
        if self.rationale is not None and self.pair is not None:
            msg = "rationale_column is for single texts, and pair_column makes pairs; leave one out"
            raise InputError(msg)

    @property
    def names(self) -> list[str]:
        """Those that are read, each once."""
        read = (self.text, self.target, self.id, self.rationale, self.pair)
        return list(dict.fromkeys(filter(None, read)))


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
        return {columns.text: os.fspath(given), **dict.fromkeys(columns.names[1:])}
    if is_pair(given):
        if columns.pair is None:
            return "it is a pair of texts; name the column of the second with pair_column="
        return {**dict.fromkeys(columns.names), columns.text: given[0], columns.pair: given[1]}
    if isinstance(given, list) and len(given) == 2:
        return LIST
    return f"it is {shown(given)}; a row is a text, or a mapping from column to value"


def _checked(records: Iterable[Record], columns: Columns, name: str) -> Iterator[Row]:
    """Rows of records; a column that the first one lacks is refused at once."""
    for number, record in enumerate(records):
        if isinstance(record, str):
            yield Row("", error=record)
            continue
        missing = [column for column in columns.names if column not in record]
        if missing and not number:
            there = ", ".join(map(repr, record)) or "none"
            msg = f"{name} has no column {missing[0]!r}; its columns: {there}"
            raise InputError(msg)
        yield Row("", error=f"it has no {missing[0]!r}") if missing else _row(record, columns)


def _row(record: Mapping[str, Any], columns: Columns) -> Row:
    text, error = record[columns.text], None
    second = None if columns.pair is None else record[columns.pair]
    given = None if columns.id is None else record[columns.id]
    name = None if given is None else _encodable(str(given))
    try:
        if not isinstance(text, str):
            error, text = f"{columns.text}={shown(text)} must be a text", ""
        elif not text.strip():
            error = f"{columns.text} is empty"
        check_unicode(columns.text, text)
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
