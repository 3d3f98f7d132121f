"""Records as JSON, without loss: every bit of a float64 is kept, and there is a checksum.

JSON has no NaN and no infinity: where statistics, options or predictions hold one, it becomes
``null``; of a probability ``null`` is read as NaN, elsewhere as ``None``. Lone halves of surrogate
pairs, which UTF-8 does not have, are escaped.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.io.files import as_path, check_target, with_checksum, without_checksum, write_file
from attnflow.records.prediction import Prediction

Saved = TypeVar("Saved", bound="SavedRecord")
FORMAT = 1
MOST_BYTES = 1 << 30
"""The largest file that is written or read, unpacked: a small compressed one may unpack to more
than the memory holds. A score has about 20 bytes, so these are some 50 million of them."""
START = 1 << 16  # bytes that tell whether a file can be an attribution's, before all is read
BLANKS = re.compile(r"\s*")
GZIP, BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class SavedRecord:
    """What a frozen dataclass needs to be saved: its kind, and how its fields are read back."""

    _kind: ClassVar[str]
    _tagged: ClassVar[bool] = True  # attributions, the first records that were saved, have no tag
    _with_gaps: ClassVar[tuple[str, ...]] = ()  # fields in which NaN becomes ``null``
    _writer: ClassVar[str]

    @classmethod
    def _read(cls, values: dict[str, Any]) -> Self:
        """The record of its fields as plain data, the names of which are checked."""
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings, which `from_dict` reads back without loss."""
        return to_plain_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The record that `to_dict` described."""
        name = f"{'an' if cls._kind[0] in 'aeiou' else 'a'} {cls._kind}"
        if not isinstance(data, Mapping):
            msg = f"this is not {name}: {shown(data)} is not a dict"
            raise InputError(msg)
        values = dict(data)
        found = values.pop("format", None)
        if type(found) is not int or found != FORMAT:
            msg = f"this is not {name} of format {FORMAT}: format={shown(found)}"
            raise InputError(msg)
        tag = values.pop("record", None) if cls._tagged else cls._kind
        if tag != cls._kind:
            msg = f"this is not {name} of format {FORMAT}: record={shown(tag)}"
            raise InputError(msg)
        return cls._read(check_fields(cls._kind, cls, values))

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write JSON (compressed where the name ends in ``.gz``); `load` reads it back."""
        return _write(as_path(path), to_json(self), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        found = cls.load_all(path)
        if len(found) != 1:
            msg = f"{path} holds {len(found)} {cls._kind}s; read them with {cls.__name__}.load_all"
            raise InputError(msg)
        return found[0]

    @classmethod
    def load_all(cls, path: str | Path) -> list[Self]:
        """Read a file of one or many, such as the command line writes with ``--save FILE``."""
        return _load(as_path(path), cls)

    def __reduce__(self) -> tuple[Any, ...]:  # options are read-only views, which pickle refuses
        return (type(self).from_dict, (self.to_dict(),))


def to_plain_dict(record: SavedRecord, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Lists, numbers, strings and ``None`` only; ``without`` these fields."""
    plain: dict[str, Any] = {"format": FORMAT}
    if record._tagged:
        plain["record"] = record._kind
    names = [each.name for each in fields(record)]  # type: ignore[arg-type] # a dataclass
    return plain | {name: to_plain(getattr(record, name)) for name in names if name not in without}


def save_all(records: Sequence[SavedRecord], path: Path, *, overwrite: bool) -> Path:
    """Write a line of JSON for each, compressed where the name ends in ``.gz``."""
    return _write(path, b"".join(to_json(each) + b"\n" for each in records), overwrite=overwrite)


def read_prediction(data: Any) -> Prediction:
    """The prediction that was written."""
    values = check_fields("prediction", Prediction, data)
    alternatives = read_list("alternatives", values.get("alternatives", ()))
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


def _write(path: Path, content: bytes, *, overwrite: bool) -> Path:
    """Write JSON, compressed where the name ends in ``.gz``."""
    check_target(path, overwrite=overwrite)
    if len(content) > MOST_BYTES:
        msg = (
            f"{path} would have {len(content):,} bytes; files of attributions have at most "
            f"{MOST_BYTES:,}: save fewer layers, heads or texts in one"
        )
        raise InputError(msg)
    write_file(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def to_json(record: SavedRecord, *, without: Collection[str] = ()) -> bytes:
    """One line of JSON in UTF-8; ``without`` these fields, and then without a checksum."""
    plain = to_plain_dict(record, without=without)
    plain |= {name: _finite(plain[name]) for name in record._with_gaps if name in plain}
    try:
        whole = plain if without else with_checksum(plain)
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


def _load(path: Path, kind: type[Saved]) -> list[Saved]:
    """Read the records of a file; errors say what it is not, and what writes such a file."""
    try:
        text = _content(path).decode("utf-8-sig")
        return [kind.from_dict(without_checksum(item)) for item in _each(text)]
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
    msg = f"{path} is not a saved {kind._kind}: {reason}; give a file that {kind._writer} wrote"
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
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value


def read_list(name: str, given: Any) -> tuple[Any, ...]:
    """A list that was written, as a tuple."""
    if not isinstance(given, list | tuple):
        msg = f"{name}={shown(given)} must be a list"
        raise InputError(msg)
    return tuple(given)
