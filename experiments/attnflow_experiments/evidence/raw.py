"""Every number of the trials as files of Parquet, which tables can be written from again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnflow_experiments.evidence.tables import Found

NAMES = ("trial", "case", "piece", "measure", "value")


def write_raw(path: Path, found: Mapping[str, Sequence[Found]]) -> None:
    """Every number as a row of its own; lists have a row for each entry."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        (name, at, piece, key, value)
        for name, cases in found.items()
        for at, case in enumerate(cases)
        for piece, values in case.items()
        for key, value in _numbers(values)
    ]
    columns = dict(zip(NAMES, zip(*rows, strict=True), strict=True)) if rows else {}
    text = pa.dictionary(pa.int32(), pa.string())
    types = (text, pa.int16(), text, text, pa.float32())
    table = pa.table(
        {n: pa.array(columns.get(n, ()), t) for n, t in zip(NAMES, types, strict=True)}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    small = {"compression": "zstd", "compression_level": 19, "row_group_size": len(rows) or 1}
    pq.write_table(
        table, path, use_dictionary=list(NAMES[:-1]), use_byte_stream_split=["value"], **small
    )


def read_raw(path: Path) -> dict[str, list[Found]]:
    """The trials of such a file, as they were measured but for words and refusals; or none."""
    import pyarrow.parquet as pq

    if not path.exists():
        return {}
    columns = pq.read_table(path).to_pydict()
    found: dict[str, dict[int, Any]] = {}
    for name, at, piece, key, value in zip(*(columns[n] for n in NAMES), strict=True):
        place = found.setdefault(name, {}).setdefault(at, {}).setdefault(piece, {})
        *outer, last = key.split(".")
        for each in outer:
            place = place.setdefault(each, {})
        place[last] = value
    return {name: [_lists(case) for case in cases.values()] for name, cases in found.items()}


def _numbers(values: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of nested values, each with its place in them."""
    if isinstance(values, Mapping):
        for key, each in values.items():
            yield from _numbers(each, f"{name}.{key}".lstrip("."))
    elif isinstance(values, list):
        for at, each in enumerate(values):
            yield from _numbers(each, f"{name}.{at}".lstrip("."))
    elif isinstance(values, int | float):
        yield name, float(values)


def _lists(values: Any) -> Any:
    """Nested values whose lists are lists again."""
    if not isinstance(values, dict):
        return values
    found = {key: _lists(each) for key, each in values.items()}
    return list(found.values()) if all(map(str.isdecimal, found)) else found
