"""Results in files, whole or not at all, so that an interrupted run goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attnflow.errors import InputError
from attnflow.io.progress import progress_bar

PIECE = 50
"""Sentences made together: what an interruption loses at most."""


def keep(path: Path, conditions: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """What the file holds, or what ``make()`` gives, written into it."""
    known = _read(path, conditions)
    if known is not None:
        return known
    result = make()
    _write(path, conditions, result)
    return result


def in_pieces(
    path: Path,
    conditions: Mapping[str, Any],
    size: int,
    make: Callable[[slice], Any],
    *,
    progress: bool,
) -> list[Any]:
    """``make`` of every piece of ``size`` sentences; pieces that the file holds are kept."""
    made: list[Any] = _read(path, conditions) or []
    with progress_bar(path.name.partition(".")[0], size, shown=progress) as show:
        show(min(len(made) * PIECE, size))
        for start in range(len(made) * PIECE, size, PIECE):
            end = min(start + PIECE, size)
            made.append(make(slice(start, end)))
            _write(path, conditions, made)
            show(end)
    return made


def _read(path: Path, conditions: Mapping[str, Any]) -> Any:
    if not path.is_file():
        return None
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        before, result = known["conditions"], known["result"]
    except (ValueError, TypeError, KeyError) as error:
        msg = f"{path} is no result of an earlier run ({error}): remove it to make it anew"
        raise InputError(msg) from None
    if before != conditions:
        msg = (
            f"{path} was made with {_said(before)}, not {_said(conditions)}: choose another "
            "folder with --output, or remove the file to make it anew"
        )
        raise InputError(msg)
    return result


def _said(conditions: Mapping[str, Any]) -> str:
    given = (f"{name}={value}" for name, value in conditions.items() if value is not None)
    return ", ".join(given) or "what is shipped"


def _write(path: Path, conditions: Mapping[str, Any], result: Any) -> None:
    content = json.dumps({"conditions": conditions, "result": result}, indent=1)
    part = path.with_suffix(".part")
    part.write_text(content + "\n", encoding="utf-8")
    part.replace(path)
