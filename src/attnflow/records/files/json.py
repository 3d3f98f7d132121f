"""Records as JSON, without loss: it keeps every bit of a float64, and has a checksum."""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.io.checksums import with_checksum, without_checksum
from attnflow.io.files import check_target, write_file
from attnflow.records.prediction import Prediction

Record = TypeVar("Record")
FORMAT = 1
MOST_BYTES = 1 << 30
"""The largest file that is written or read, unpacked: a small compressed one may unpack to more
than the memory holds. A score has about 20 bytes, so these are some 50 million of them."""
START = 1 << 16  # bytes that tell whether a file can be an attribution's, before all is read
BLANKS = re.compile(r"\s*")
GZIP, BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def read_prediction(data: Any) -> Prediction:
    """The prediction that was written."""
    values = check_fields("prediction", Prediction, data)
    alternatives = values.get("alternatives", ())
    if not isinstance(alternatives, list | tuple):
        msg = f"alternatives={shown(alternatives)} must be a list"
        raise InputError(msg)
    values["alternatives"] = tuple(
        (each[0], _or_nan(each[1])) if isinstance(each, list | tuple) and len(each) == 2 else each
        for each in alternatives
    )
    return Prediction(**values | {"probability": _or_nan(values["probability"])})


def check_fields(what: str, record: Any, data: Any) -> dict[str, Any]:
    """The fields of a record, all that it needs and none that it does not have."""
    if not isinstance(data, Mapping):
        msg = f"{what}={shown(data)} must be a dict"
        raise InputError(msg)
    optional = {
        each.name
        for each in fields(record)
        if each.default is not MISSING or each.default_factory is not MISSING
    }
    known = {each.name for each in fields(record)}
    unknown, missing = set(data) - known, known - optional - set(data)
    if unknown or missing:
        parts = [
            f"{label} {', '.join(sorted(map(_named, names)))}"
            for label, names in (("it lacks", missing), ("it has unknown", unknown))
            if names
        ]
        msg = f"this is no {what} of format {FORMAT}: {'; '.join(parts)}"
        raise InputError(msg)
    return dict(data)


def _named(field: object) -> str:
    """A field's name as errors show it: plain where it is one."""
    return field if isinstance(field, str) and field.isidentifier() else shown(field)


def write_json(path: Path, content: bytes, *, overwrite: bool) -> Path:
    """Write what a record is as JSON, compressed where the name ends in ``.gz``."""
    check_target(path, overwrite=overwrite)
    if len(content) > MOST_BYTES:
        msg = (
            f"{path} would have {len(content):,} bytes; files of attributions have at most "
            f"{MOST_BYTES:,}: save fewer layers, heads or texts in one"
        )
        raise InputError(msg)
    write_file(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def dump(plain: dict[str, Any], gaps: Collection[str], *, checksum: bool = True) -> bytes:
    """A record's plain data as one line of JSON; in the fields ``gaps`` NaN becomes ``null``."""
    plain = {name: _finite(each) if name in gaps else each for name, each in plain.items()}
    try:
        whole = with_checksum(plain) if checksum else plain
        text = json.dumps(whole, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        msg = f"options and statistics must be plain numbers, texts, lists and dicts: {error}"
        raise InputError(msg) from error
    if SPLIT_PAIR.search(text):
        msg = (
            "the text or a token holds the two halves of a surrogate pair as two characters, which "
            "JSON can't tell from one; join them with text.encode('utf-16', 'surrogatepass')"
            ".decode('utf-16')"
        )
        raise InputError(msg)
    return text.encode(errors="backslashreplace")  # such as \ud83d: JSON's escape, too


def load_records(path: Path, read: Callable[[Any], Record], what: str, writer: str) -> list[Record]:
    """Read the records of a file by ``read``; errors say what it is not, and what writes such."""
    try:
        text = _content(path).decode("utf-8-sig")
        return [read(without_checksum(item)) for item in _each(text)]
    except UnicodeDecodeError as error:
        reason: object = f"it is not UTF-8 text (byte {error.start})"
    except RecursionError:
        reason = "it is nested too deeply"
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = f"its compression is damaged ({error})"
    except (ValueError, MemoryError) as error:
        reason = str(error) or "there is not enough memory to read it"
    except OSError as error:
        msg = f"{path} can't be read: {error.strerror}; check the name"
        raise InputError(msg) from error
    msg = f"{path} is not a saved {what}: {reason}; give a file that {writer} wrote"
    raise InputError(msg)


def _content(path: Path) -> bytes:
    """The file's content, unpacked where it is compressed; never more than `MOST_BYTES`."""
    with path.open("rb") as file:
        packed = file.peek(len(GZIP))[: len(GZIP)] == GZIP
        with gzip.open(file) if packed else file as source:
            start = source.read(START)
            if not start.removeprefix(BOM).lstrip().startswith(b"{"):
                msg = (
                    f"it does not start with {{, but with {start[:20]!r}"
                    if start
                    else "it is empty"
                )
                raise InputError(msg)
            content: bytes = start + source.read(max(0, MOST_BYTES + 1 - len(start)))
    if len(content) > MOST_BYTES:
        unpacked = " unpacked" if packed else ""
        msg = f"it has more than {MOST_BYTES:,} bytes{unpacked}, the limit"
        raise InputError(msg)
    return content


def _each(text: str) -> Iterator[Any]:
    """The JSON values of a text, whether each has a line or several."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique)
    at = _after_blanks(text, 0)
    while at < len(text):
        item, end = decoder.raw_decode(text, at)
        yield item
        at = _after_blanks(text, end)


def _after_blanks(text: str, at: int) -> int:
    blanks = BLANKS.match(text, at)
    return blanks.end() if blanks else at


def _refuse_constant(name: str) -> Any:
    msg = f"it holds {name}, which is not JSON"
    raise InputError(msg)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"it holds {shown(twice)} twice"
        raise InputError(msg)
    return found


def _or_nan(value: Any) -> Any:
    return math.nan if value is None else value


def _finite(value: Any) -> Any:
    """The value with ``None`` for NaN and infinities."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_plain(value: Any) -> Any:
    """Lists, dicts, numbers and texts for what records hold."""
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value
