"""Attributions as plain data and as files, without loss: JSON keeps every bit of a float64."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from attnflow.errors import InputError
from attnflow.io.files import check_target
from attnflow.records.attribution import Attribution, PatchGrid, Prediction

FORMAT = 1
WHITESPACE = re.compile(r"\s*")


def to_dict(attribution: Attribution) -> dict[str, Any]:
    """Lists, numbers, strings and ``None`` only."""
    plain: dict[str, Any] = {"format": FORMAT}
    for name in (field.name for field in fields(Attribution)):
        value = getattr(attribution, name)
        if isinstance(value, Prediction | PatchGrid):
            value = asdict(value)
        plain[name] = _plain(value)
    return plain


def from_dict(data: Mapping[str, Any]) -> Attribution:
    """The attribution that `to_dict` described."""
    data = dict(data)
    version = data.pop("format", None)
    known = {field.name for field in fields(Attribution)}
    if version != FORMAT or not known >= data.keys() or "scores" not in data:
        msg = (
            f"this is not an attribution of format {FORMAT}: format={version!r}, "
            f"fields {sorted(data)}"
        )
        raise InputError(msg)
    data["scores"] = np.array(data["scores"], dtype=np.float64)
    for name in ("word_ids", "segments"):
        data[name] = None if data.get(name) is None else tuple(data[name])
    if data.get("prediction") is not None:
        prediction = dict(data["prediction"])
        alternatives = tuple((label, p) for label, p in prediction.pop("alternatives", ()))
        data["prediction"] = Prediction(**prediction, alternatives=alternatives)
    if data.get("grid") is not None:
        grid = dict(data["grid"])
        data["grid"] = PatchGrid(
            grid["rows"], grid["columns"], tuple(grid["image"]), tuple(grid["box"])
        )
    return Attribution(**data)


def save(attribution: Attribution, path: Path, *, overwrite: bool) -> Path:
    """Write JSON, compressed where the name ends in ``.gz``."""
    check_target(path, overwrite=overwrite)
    text = json.dumps(to_dict(attribution), ensure_ascii=False, allow_nan=False).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path


def load(path: Path) -> Attribution:
    """Read what `save` wrote."""
    attributions = load_all(path)
    if len(attributions) > 1:
        count = len(attributions)
        msg = f"{path} holds {count} attributions; read them with Attribution.load_all"
        raise InputError(msg)
    return attributions[0]


def load_all(path: Path) -> list[Attribution]:
    """Read one or many: `save` writes one, the command line several, one per line."""
    content = path.read_bytes()
    try:
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
        attributions = [from_dict(item) for item in _json_values(text.strip())]
    except (ValueError, TypeError) as error:
        msg = f"{path} is not a saved attribution: {error}"
        raise InputError(msg) from error
    return attributions


def _json_values(text: str) -> Iterator[Any]:
    """The JSON values in a text, each on one line or on several."""
    decoder, at = json.JSONDecoder(), 0
    while True:
        item, end = decoder.raw_decode(text, at)
        yield item
        between = WHITESPACE.match(text, end)
        at = between.end() if between else end
        if at == len(text):
            return


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
