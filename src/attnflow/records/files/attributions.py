"""Attributions as plain data and as files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from attnflow.errors import InputError, shown
from attnflow.records.attribution import Attribution
from attnflow.records.files.json import (
    FORMAT,
    check_fields,
    dump,
    load_records,
    read_prediction,
    to_plain,
    write_json,
)
from attnflow.records.grid import PatchGrid
from attnflow.records.prediction import Prediction


def to_dict(attribution: Attribution, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Lists, numbers, strings and ``None`` only; ``without`` these fields."""
    plain: dict[str, Any] = {"format": FORMAT}
    for name in (field.name for field in fields(Attribution) if field.name not in without):
        value = getattr(attribution, name)
        if isinstance(value, Prediction | PatchGrid):
            value = asdict(value)
        plain[name] = to_plain(value)
    return plain


def from_dict(data: Mapping[str, Any]) -> Attribution:
    """The attribution that `to_dict` described."""
    if not isinstance(data, Mapping):
        msg = f"this is not an attribution: {shown(data)} is not a dict"
        raise InputError(msg)
    values = dict(data)
    found = values.pop("format", None)
    if type(found) is not int or found != FORMAT:
        msg = f"this is not an attribution of format {FORMAT}: format={shown(found)}"
        raise InputError(msg)
    check_fields("attribution", Attribution, values)
    if values.get("prediction") is not None:
        values["prediction"] = read_prediction(values["prediction"])
    if values.get("grid") is not None:
        values["grid"] = _grid(values["grid"])
    return Attribution(**values)


def _grid(data: Any) -> PatchGrid:
    values = check_fields("grid", PatchGrid, data)
    for name in ("image", "box"):
        if not isinstance(values[name], list | tuple):
            msg = f"grid.{name}={shown(values[name])} must be a list of numbers"
            raise InputError(msg)
        values[name] = tuple(values[name])
    return PatchGrid(**values)


def to_json(attribution: Attribution, *, without: Collection[str] = ()) -> bytes:
    """One line of JSON in UTF-8, which is read back without loss; ``without`` these fields.

    JSON has no NaN and no infinity: where statistics, options or the prediction hold one, it
    becomes ``null``; of a probability ``null`` is read as NaN, elsewhere as ``None``. Lone halves
    of surrogate pairs, which UTF-8 does not have, are escaped. A whole attribution has a checksum.
    """
    plain = to_dict(attribution, without=without)
    return dump(plain, ("options", "statistics", "prediction"), checksum=not without)


def save(attribution: Attribution, path: Path, *, overwrite: bool) -> Path:
    """Write JSON, compressed where the name ends in ``.gz``."""
    return write_json(path, to_json(attribution), overwrite=overwrite)


def save_all(attributions: Sequence[Attribution], path: Path, *, overwrite: bool) -> Path:
    """Write a line of JSON for each, compressed where the name ends in ``.gz``."""
    lines = b"".join(to_json(each) + b"\n" for each in attributions)
    return write_json(path, lines, overwrite=overwrite)


def load(path: Path) -> Attribution:
    """Read what `save` wrote."""
    attributions = load_all(path)
    if len(attributions) > 1:
        count = len(attributions)
        msg = f"{path} holds {count} attributions; read them with Attribution.load_all"
        raise InputError(msg)
    return attributions[0]


def load_all(path: Path) -> list[Attribution]:
    """Read one or many: `save` writes one, the command line several, each on a line."""
    writer = "Attribution.save or attnflow explain --save"
    return load_records(path, from_dict, "attribution", writer)
