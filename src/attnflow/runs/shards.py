"""One shard: attributions of consecutive rows as a Parquet file, and back without loss."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attnflow.errors import InputError
from attnflow.io.rows import Row
from attnflow.records.attribution import Attribution
from attnflow.records.files.attributions import from_dict, to_json

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
    info = {**about, "count": len(rows), "records": len(scores) - errors, "errors": errors}
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
    return sink.getvalue()


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


def read_info(path: Path) -> ShardInfo:
    """What a shard's file says of itself; one that is damaged is refused by its name."""
    try:
        metadata = pq.read_schema(path).metadata or {}
        return ShardInfo(**json.loads(metadata[ABOUT]))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(damaged(path, error)) from None


def read_records(
    path: Path, columns: Sequence[str] | None = None, *, sha256: str | None = None
) -> Iterator[dict[str, Any]]:
    """The records of a shard, in order, if its content is what was written."""
    try:
        content = path.read_bytes()
        if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
            raise InputError(damaged(path, "its checksum does not match"))
        with pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True) as file:
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


def to_attribution(record: Mapping[str, Any]) -> Attribution:
    """The attribution of a record."""
    details = json.loads(record["details"])
    stored = {name: record[name] for name in STORED}
    stored[SCORES] = np.array(record[SCORES], np.float64).reshape(record["shape"])
    return from_dict(details | stored)
