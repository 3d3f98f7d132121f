"""Generations as plain data and as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from attnflow.errors import InputError, shown
from attnflow.records.files.json import (
    FORMAT,
    check_fields,
    dump,
    load_records,
    read_prediction,
    to_plain,
    write_json,
)
from attnflow.records.generation import Generation
from attnflow.records.parts import Part

KIND = "generation"


def to_dict(generation: Generation) -> dict[str, Any]:
    """Lists, numbers, strings and ``None`` only."""
    plain: dict[str, Any] = {"format": FORMAT, "record": KIND}
    for each in fields(Generation):
        value = getattr(generation, each.name)
        if each.name in ("predictions", "parts"):
            value = [asdict(item) for item in value]
        plain[each.name] = to_plain(value)
    return plain


def from_dict(data: Mapping[str, Any]) -> Generation:
    """The generation that `to_dict` described."""
    values = dict(data) if isinstance(data, Mapping) else {}
    found = values.pop("format", None), values.pop("record", None)
    if found != (FORMAT, KIND):
        msg = f"this is not a generation of format {FORMAT}: {shown(found)}"
        raise InputError(msg)
    check_fields(KIND, Generation, values)
    values["predictions"] = _each("predictions", values["predictions"], read_prediction)
    values["parts"] = _each("parts", values["parts"], _part)
    for name in ("tokens", "answer", "word_texts", "word_ids", "segments"):
        values[name] = _listed(name, values.get(name))
    spans = _listed("spans", values.get("spans"))
    values["spans"] = None if spans is None else tuple(_listed("spans", each) for each in spans)
    return Generation(**values)


def _listed(name: str, given: Any) -> tuple[Any, ...] | None:
    if given is None or isinstance(given, list | tuple):
        return None if given is None else tuple(given)
    msg = f"{name}={shown(given)} must be a list"
    raise InputError(msg)


def _each(name: str, given: Any, read: Any) -> tuple[Any, ...]:
    return tuple(read(each) for each in _listed(name, given) or ())


def _part(data: Any) -> Part:
    return Part(**check_fields("part", Part, data))


def save(generation: Generation, path: Path, *, overwrite: bool) -> Path:
    """Write JSON, compressed where the name ends in ``.gz``."""
    return save_all([generation], path, overwrite=overwrite)


def save_all(generations: Sequence[Generation], path: Path, *, overwrite: bool) -> Path:
    """Write a line of JSON for each, compressed where the name ends in ``.gz``."""
    gaps = ("options", "statistics", "predictions")
    lines = b"".join(dump(to_dict(each), gaps) + b"\n" for each in generations)
    return write_json(path, lines, overwrite=overwrite)


def load(path: Path) -> Generation:
    """Read what `save` wrote."""
    found = load_all(path)
    if len(found) != 1:
        msg = f"{path} holds {len(found)} generations; read them with Generation.load_all"
        raise InputError(msg)
    return found[0]


def load_all(path: Path) -> list[Generation]:
    """Read a file of one or many, each on a line."""
    return load_records(path, from_dict, KIND, "Generation.save or attnflow explain --save")
