"""One shard: attributions of consecutive rows as a Parquet file, and back without loss.

A shard's footer has the SHA-256 of the whole file, computed with zeros in its place: damage shows
wherever a file is read, before its run is finished and has the checksums of all in its manifest.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attnflow.errors import InputError
from attnflow.io.rows import Row
from attnflow.records.attribution import Attribution
from attnflow.records.files import to_json

if TYPE_CHECKING:
    from attnflow.records import FloatArray

NAME = "part-{:05d}.parquet"
PATTERN = "part-*.parquet"
ABOUT = b"attnflow"
SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("id", pa.string()),
        ("text", pa.string()),
        ("method", pa.string()),
        ("edges", pa.string()),
        ("layer", pa.int32()),
        ("query", pa.int32()),
        ("prediction", pa.string()),
        ("probability", pa.float64()),
        ("tokens", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float64())),
        ("shape", pa.list_(pa.int32())),
        ("details", pa.string()),
        ("error", pa.string()),
    ]
)
ZEROS = b"0" * 64  # in the place of the checksum while it is computed
CHECKSUM = b'"sha256": "'  # what precedes it
STORED = ("text", "method", "layer", "query", "tokens", "scores")  # in columns of their own
SCORES = "scores"


@dataclass(frozen=True)
class ShardInfo:
    """What a shard's file says of itself.

    Attributes:
        request: The digest of the request that it belongs to.
        rows: The digest of its rows.
        count: How many rows of the input it is of.
        records: How many attributions it holds.
        errors: How many of its rows could not be explained.
    """

    request: str
    rows: str
    count: int
    records: int
    errors: int


@dataclass(frozen=True)
class Shard:
    """A shard's file as the manifest of a finished run lists it.

    Attributes:
        file: Its name.
        rows: How many rows of the input it is of.
        attributions: How many attributions it holds.
        errors: How many of its rows could not be explained.
        bytes: Its size.
        sha256: The checksum of all its bytes.
    """

    file: str
    rows: int
    attributions: int
    errors: int
    bytes: int
    sha256: str


def encode_shard(
    rows: Sequence[Row],
    results: Sequence[list[Attribution] | str],
    first: int,
    about: Mapping[str, str],
) -> bytes:
    """The content of a shard's file: the same bytes for the same rows."""
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    scores: list[FloatArray] = []
    for number, (row, result) in enumerate(zip(rows, results, strict=True), start=first):
        records = [_error(row, result)] if isinstance(result, str) else map(_record, result)
        for record in records:
            for name, values in columns.items():
                if name != SCORES:
                    values.append(record.get(name))
            columns["row"][-1], columns["id"][-1] = number, row.id
            scores.append(record[SCORES])
    errors = sum(isinstance(result, str) for result in results)
    counts = {"count": len(rows), "records": len(scores) - errors, "errors": errors}
    info = {**about, **counts, "sha256": ZEROS.decode()}
    arrays = [
        _lists(scores, columns["error"]) if name == SCORES else pa.array(columns[name], kind)
        for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)
    ]
    schema = SCHEMA.with_metadata({ABOUT: json.dumps(info, sort_keys=True)})
    sink = io.BytesIO()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema),
        sink,
        compression="zstd",
        use_dictionary=["method", "edges", "prediction", "details", "tokens.list.element"],
        write_page_checksum=True,
    )
    return _sealed(sink.getvalue())


def _sealed(content: bytes) -> bytes:
    """The content with its checksum in place of the zeros."""
    start = _place_of_checksum(content)
    found = hashlib.sha256(content).hexdigest().encode()
    return content[:start] + found + content[start + len(ZEROS) :]


def _place_of_checksum(content: bytes) -> int:
    """Where the checksum starts: in the footer, after any text of the user's that looks like it."""
    return content.rfind(CHECKSUM) + len(CHECKSUM)


def _lists(scores: Sequence[FloatArray], errors: Sequence[str | None]) -> Any:
    """The scores as one column, without a Python object for each."""
    sizes = np.cumsum([0, *(len(each) for each in scores)]).astype(np.int32)
    values = np.concatenate(scores) if scores else np.zeros(0)
    missing = np.array([error is not None for error in errors], bool)
    return pa.ListArray.from_arrays(pa.array(sizes), pa.array(values), mask=pa.array(missing))


def _record(of: Attribution) -> dict[str, Any]:
    prediction = of.prediction
    return {
        "text": of.text,
        "method": of.method,
        "edges": of.options.get("edges"),
        "layer": of.layer,
        "query": of.query,
        "prediction": prediction and prediction.label,
        "probability": prediction and prediction.probability,
        "tokens": of.tokens,
        SCORES: of.scores.reshape(-1),
        "shape": of.scores.shape,
        "details": to_json(of, without=STORED).decode(),
    }


def _error(row: Row, reason: str) -> dict[str, Any]:
    plain = reason.encode(errors="backslashreplace").decode()
    return {"text": row.text, "error": plain, SCORES: np.zeros(0)}


def read_shard(path: Path, sha256: str | None = None) -> bytes:
    """The content of a shard's file, if it is what was written; one that is damaged is refused.

    A finished run's manifest has the ``sha256`` of each file; without it, the file's own checksum
    decides.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(damaged(path, error.strerror or error)) from None
    if sha256 is None:
        start = _place_of_checksum(content)
        end = start + len(ZEROS)
        if start < len(CHECKSUM):
            raise InputError(damaged(path, "it has no checksum"))
        sha256 = content[start:end].decode(errors="replace")
        found = hashlib.sha256(content[:start] + ZEROS + content[end:]).hexdigest()
    else:
        found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(damaged(path, "its checksum does not match"))
    return content


def read_info(path: Path, content: bytes) -> ShardInfo:
    """What the content of a shard's file says of itself."""
    try:
        metadata = pq.read_schema(pa.BufferReader(content)).metadata or {}
        found = json.loads(metadata[ABOUT])
        return ShardInfo(**{each.name: found[each.name] for each in fields(ShardInfo)})
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(damaged(path, error)) from None


def place_of(path: Path) -> int:
    """The number of a shard, which its file's name has."""
    number = path.stem.removeprefix("part-")
    if not number.isdecimal():
        msg = f"{path} is not the name of a shard; remove it from the folder"
        raise InputError(msg)
    return int(number)


def check_place(path: Path, content: bytes, first: int) -> None:
    """Refuse a shard that was made of the same rows at another place of the input."""
    found = next(read_records(path, content, ["row"]))["row"]
    if found != first:
        raise InputError(damaged(path, f"its first row is {found} instead of {first}"))


def describe(path: Path, content: bytes) -> Shard:
    """A shard as a manifest lists it."""
    info = read_info(path, content)
    checksum = hashlib.sha256(content).hexdigest()
    return Shard(path.name, info.count, info.records, info.errors, len(content), checksum)


def read_records(
    path: Path, content: bytes, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """The records of a shard, in order."""
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            for batch in file.iter_batches(256, columns=columns):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise InputError(damaged(path, error)) from None


def damaged(path: Path, reason: object) -> str:
    """What to do about a shard that can't be read."""
    first = str(reason).strip().split("\n")[0]
    return (
        f"{path} is damaged ({first}); delete this file and run the same command again: only this "
        "shard is computed again"
    )


def belongs_elsewhere(path: Path) -> str:
    """What to do about a shard of another run."""
    return (
        f"{path} belongs to a run with other options; choose another folder, or delete "
        f"{path.parent} to start over"
    )


def to_attribution(record: Mapping[str, Any]) -> Attribution:
    """The attribution of a record."""
    details = json.loads(record["details"])
    stored = {name: record[name] for name in STORED}
    stored[SCORES] = np.array(record[SCORES], np.float64).reshape(record["shape"])
    return Attribution.from_dict(details | stored)
