"""Results in files, one per target, and the checkpoints that they are computed with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnflow.errors import InputError
from attnflow.io.checkpoint import Checkpoint, check_same_request
from attnflow.io.files import with_checksum, without_checksum, write_file
from attnflow.io.progress import progress_bar
from attnflow_experiments.reproduce.request import Request

PIECE_SIZE = 50
"""Sentences per piece, the most that an interruption can lose."""


def result_path(target: str, request: Request) -> Path:
    """The file of a target's result."""
    return request.out / f"{target}.json"


def open_checkpoint(target: str, request: Request) -> Checkpoint:
    """The checkpoint of a target; it exists only while the target is unfinished."""
    return Checkpoint(request.out / f"{target}.checkpoint", request.conditions(target))


def read_result(target: str, request: Request) -> Any:
    """The result of an earlier run of the same request; ``None`` if there is none."""
    path = result_path(target, request)
    if not path.is_file():
        return None
    try:
        saved = without_checksum(json.loads(path.read_bytes()))
        conditions, result = saved["conditions"], saved["result"]
    except (ValueError, TypeError, KeyError) as error:
        msg = f"{path} is damaged or not a result ({error}); delete it to compute it again"
        raise InputError(msg) from None
    check_same_request(conditions, request.conditions(target), path)
    return result


def write_result(target: str, request: Request, result: Any) -> None:
    """Write a target's result, then remove its checkpoint."""
    saved = with_checksum({"conditions": request.conditions(target), "result": result})
    write_file(result_path(target, request), json.dumps(saved, indent=1).encode() + b"\n")
    open_checkpoint(target, request).done()


def compute_pieces(
    checkpoint: Checkpoint, size: int, compute: Callable[[slice], Any], *, progress: bool
) -> list[Any]:
    """``compute(slice)`` for all ``size`` sentences, piece by piece; saved pieces are read."""
    pieces = []
    with progress_bar(checkpoint.folder.stem, size, shown=progress) as show:
        for start in range(0, size, PIECE_SIZE):
            end = min(start + PIECE_SIZE, size)
            name = f"{start}-{end}"
            if name not in checkpoint:
                checkpoint.put(name, compute(slice(start, end)))
            pieces.append(checkpoint.get(name))
            show(end)
    return pieces
