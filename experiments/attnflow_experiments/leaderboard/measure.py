"""Boards measured in pieces of a few texts, by several processes; what is done is kept."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import attnflow
from attnflow import EDGE_RULES, METHODS
from attnflow.errors import AttnflowError, InputError
from attnflow.evaluation.result import Evaluation
from attnflow.io.checkpoint import Checkpoint
from attnflow.io.progress import progress_bar
from attnflow.models.loading import load_model

PIECE = 5  # texts


@dataclass(frozen=True)
class Task:
    """What is asked of one board; everything but the device decides the numbers."""

    board: str
    model: str
    rows: tuple[dict[str, Any], ...]
    edges: tuple[str, ...]
    methods: tuple[str, ...]
    fillers: tuple[str, ...]
    rationale: bool
    seed: int
    device: str | None
    folder: Path

    @property
    def checkpoint(self) -> Checkpoint:
        """Where its pieces are kept."""
        names = ("board", "model", "edges", "methods", "fillers", "seed")
        request = {name: getattr(self, name) for name in names}
        return Checkpoint(self.folder / self.board, request | {"version": attnflow.__version__})

    def pieces(self) -> Iterator[tuple[str, int]]:
        """The name of each piece, and the number of its first text."""
        for first in range(0, len(self.rows), PIECE):
            last = min(first + PIECE, len(self.rows)) - 1
            yield f"{first:05}-{last:05}", first


def allowed(
    model: Any, text: str, without: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...], list[str]]:
    """The edges and methods that a model allows, and why it refuses the others."""
    refused = []

    def tried(option: str, names: Iterable[str]) -> tuple[str, ...]:
        found = []
        for name in names:
            try:
                attnflow.explain(text, model, **{option: name})
                found.append(name)
            except AttnflowError as error:
                refused.append(f"`{name}`: {error}")
        return tuple(found)

    rules = [rule for rule in EDGE_RULES if rule not in without]
    return tried("edges", rules), tried("method", METHODS), refused


def measure(tasks: Sequence[Task], workers: int) -> dict[str, Evaluation]:
    """All pieces of all boards that are missing, then each board as a whole."""
    missing = [
        (task, name, first)
        for task in tasks
        for name, first in task.pieces()
        if name not in task.checkpoint
    ]
    context = get_context("spawn")
    with (
        progress_bar("evaluating", len(missing), shown=True, unit="pieces") as show,
        ProcessPoolExecutor(min(workers, len(missing) or 1), context, _one_thread) as pool,
    ):
        jobs = [pool.submit(compute, *each) for each in missing]
        for done, job in enumerate(as_completed(jobs), start=1):
            job.result()
            show(done)
    return {task.board: join(task) for task in tasks}


def _one_thread() -> None:
    import logging

    import torch

    torch.set_num_threads(1)
    logging.getLogger("attnflow").setLevel(logging.ERROR)


def compute(task: Task, name: str, first: int) -> None:
    """One piece, kept as soon as it is there."""
    model = load_model(task.model, device=task.device)
    try:
        found = attnflow.evaluate(
            task.rows[first : first + PIECE],
            model,
            methods=task.methods,
            edges=task.edges,
            replacement=task.fillers,
            rationale_column="marks" if task.rationale else None,
            seed=task.seed + first,
        )
        value = replace(found, curves={}).to_dict()
    except InputError as error:
        print(f"{task.board}, texts {name}: {error}", file=sys.stderr)
        value = {"refused": str(error)}
    task.checkpoint.put(name, value)


def join(task: Task) -> Evaluation:
    """One evaluation of all pieces."""
    found, skipped, rows = [], [], []
    for name, first in task.pieces():
        value = task.checkpoint.get(name)
        if "refused" in value:
            skipped.append((first, value["refused"]))
            continue
        part = Evaluation.from_dict(value)
        found.append(part)
        skipped += [(first + row, why) for row, why in part.skipped]
        rows += [first + row for row in part.about["rows"]]
    whole = found[0]
    if any(part.explainers != whole.explainers or part.columns != whole.columns for part in found):
        msg = f"pieces of {task.board} differ in what was evaluated; delete {task.folder}"
        raise InputError(msg)
    return Evaluation(
        whole.explainers,
        whole.columns,
        np.concatenate([part.values for part in found], axis=2),
        {},
        tuple(np.sum([part.tied for part in found], axis=0).tolist()),
        tuple(skipped),
        {**whole.about, "rows": rows, "seed": task.seed},
    )
