"""One target after the other, each kept in a file, so that an interrupted run goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rich.console import Console

from attnflow.errors import InputError
from attnflow.paper.checkpoint import keep
from attnflow.paper.reproduce.request import Request
from attnflow.paper.reproduce.work import Work

TARGETS: dict[str, Callable[[Work], Any]] = {
    "table1": Work.table1,
    "table2": Work.table2,
    "subjects": Work.subjects,
    "flips": Work.flips,
    "errors": Work.errors,
    "figure1": lambda work: work.figure("figure1"),
    "figure2": lambda work: work.figure("figure2"),
    "figure3": lambda work: work.figure("figure3"),
    "figure4": Work.figure4,
    "table3": Work.table3,
}


def run(targets: Iterable[str], request: Request, *, progress: bool = True) -> dict[str, Any]:
    """Make what is asked for; what the folder already has from the same request is kept."""
    wanted = list(targets) or list(TARGETS)
    for name in wanted:
        if name not in TARGETS:
            msg = f"target={name!r} is unknown; allowed: {', '.join(TARGETS)}"
            raise InputError(msg)
    if request.count < 1:
        msg = f"count={request.count} must be at least 1"
        raise InputError(msg)
    try:
        request.out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        msg = f"{request.out} is a file; give a folder with --output"
        raise InputError(msg) from None
    work = Work(request, progress=progress)
    for name in wanted:
        if _file(name, request).exists():
            _tell(f"{_file(name, request)} is there from an earlier run", shown=progress)
        else:
            work.check(name)
    return {name: _kept(name, work) for name in wanted}


def _kept(name: str, work: Work) -> Any:
    request = work.request
    result = keep(_file(name, request), request.conditions(name), lambda: TARGETS[name](work))
    (request.out / f"{name}.pieces.json").unlink(missing_ok=True)
    return result


def _tell(line: str, *, shown: bool) -> None:
    if shown:
        Console(stderr=True).print(line, highlight=False)


def _file(name: str, request: Request) -> Path:
    return request.out / f"{name}.json"
