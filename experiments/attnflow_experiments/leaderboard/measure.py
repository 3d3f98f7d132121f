"""Boards measured in pieces of a few texts, by several processes; what is done is kept."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import attnflow
from attnflow import EDGE_RULES, METHODS
from attnflow.errors import AttnflowError, InputError
from attnflow.evaluation.metrics import METRICS
from attnflow.evaluation.result import Evaluation
from attnflow.io.checkpoint import Checkpoint
from attnflow.io.progress import progress_bar
from attnflow.models.loading import load_model
from attnflow.pipeline.request import reads
from attnflow.solvers.execution import at_most
from attnflow_experiments.leaderboard.standings import SHOWN

PIECE = 5  # texts
MEASURED = tuple(dict.fromkeys(["aopc", *(column.metric for column in SHOWN)]))
DIGITS = 6


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
        ProcessPoolExecutor(min(workers, len(missing) or 1), context, one_thread) as pool,
    ):
        jobs = [pool.submit(compute, *each) for each in missing]
        for done, job in enumerate(as_completed(jobs), start=1):
            job.result()
            show(done)
    return {task.board: join(task) for task in tasks}


_ALONE = ExitStack()  # for as long as the process lives


def one_thread() -> None:
    """How a process that shares the machine with others begins."""
    import logging

    import torch

    torch.set_num_threads(1)
    _ALONE.enter_context(at_most(1))
    logging.getLogger("attnflow").setLevel(logging.ERROR)


@lru_cache(maxsize=1)
def _loaded(model: str, device: str | None) -> Any:
    return load_model(model, device=device)


def compute(task: Task, name: str, first: int) -> None:
    """One piece, kept as soon as it is there."""
    model = _loaded(task.model, task.device)
    marked = ("rationale",) if task.rationale else ()
    metrics = [
        name for name in MEASURED if METRICS[name].against in ("filler", "reference", *marked)
    ]
    try:
        parts = [
            attnflow.evaluate(
                task.rows[first : first + PIECE],
                model,
                methods=methods,
                edges=edges,
                metrics=metrics,
                replacement=task.fillers,
                rationale_column="marks" if task.rationale else None,
                seed=task.seed + first,
            )
            for methods, edges in grids(task)
        ]
        value = beside(parts).to_dict()
    except InputError as error:
        print(f"{task.board}, texts {name}: {error}", file=sys.stderr)
        value = {"refused": str(error)}
    task.checkpoint.put(name, value)


def grids(task: Task) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Methods and rules that may be asked for together; not every method reads every rule.

    What reads no edges is asked for once, with the first.
    """
    alone = tuple(name for name in task.methods if not METHODS[name].reads_edges)
    together: dict[tuple[str, ...], list[str]] = {}
    for rule in task.edges:
        able = [name for name in task.methods if METHODS[name].reads_edges]
        able = [name for name in able if reads(METHODS[name], EDGE_RULES[rule])]
        together.setdefault(tuple(able), []).append(rule)
    for methods, rules in together.items():
        yield (*methods, *alone), tuple(rules)
        alone = ()


def beside(parts: Sequence[Evaluation]) -> Evaluation:
    """Evaluations of the same texts as one; what several have, such as baselines, is taken once."""
    first, *others = parts
    explainers, values, tied = list(first.explainers), [first.values], list(first.tied)
    for part in others:
        new = [at for at, each in enumerate(part.explainers) if each not in explainers]
        explainers += [part.explainers[at] for at in new]
        values.append(part.values[new])
        tied += [part.tied[at] for at in new]
    return replace(
        first,
        explainers=tuple(explainers),
        values=np.round(np.concatenate(values), DIGITS),
        tied=tuple(tied),
        curves={},
    )


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
