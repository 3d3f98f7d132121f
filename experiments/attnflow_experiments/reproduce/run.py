"""Compute targets one after the other; each result is saved, so an interrupted run continues."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console

from attnflow.errors import InputError
from attnflow_experiments.reproduce.request import Request
from attnflow_experiments.reproduce.results import (
    open_checkpoint,
    read_result,
    result_path,
    write_result,
)
from attnflow_experiments.reproduce.targets import TargetBuilder

TARGETS: dict[str, Callable[[TargetBuilder], Any]] = {
    "table1": TargetBuilder.table1,
    "table2": TargetBuilder.table2,
    "subjects": TargetBuilder.subjects,
    "flips": TargetBuilder.flips,
    "errors": TargetBuilder.errors,
    "figure1": lambda builder: builder.figure("figure1"),
    "figure2": lambda builder: builder.figure("figure2"),
    "figure3": lambda builder: builder.figure("figure3"),
    "figure4": TargetBuilder.figure4,
    "table3": TargetBuilder.table3,
    "relevance": TargetBuilder.relevance,
    "relevance3": TargetBuilder.relevance3,
}


def run(targets: Iterable[str], request: Request, *, progress: bool = True) -> dict[str, Any]:
    """Compute the targets, all by default; results of the same request are read, not recomputed."""
    names = list(targets) or list(TARGETS)
    _check(names, request)
    builder = TargetBuilder(request, progress=progress)
    console = Console(stderr=True, quiet=not progress, highlight=False)
    results = {name: read_result(name, request) for name in names}
    for name, result in results.items():
        if result is not None:
            console.print(f"{result_path(name, request)} is from an earlier run", markup=False)
            open_checkpoint(name, request).done()  # in case that run was killed at its very end
            continue
        builder.check_inputs(name)
        if open_checkpoint(name, request).names():
            console.print(f"{name} continues where an earlier run stopped")
    for name, result in results.items():
        if result is None:
            results[name] = TARGETS[name](builder)
            write_result(name, request, results[name])
    return results


def _check(names: Iterable[str], request: Request) -> None:
    for name in names:
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
