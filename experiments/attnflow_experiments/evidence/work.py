"""Trials measured case by case, by one process or several; what is done is kept."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import lru_cache
from itertools import islice
from multiprocessing import get_context
from typing import Any

import attnflow
from attnflow.errors import AttnflowError
from attnflow.io.checkpoint import Checkpoint
from attnflow_experiments.evidence import stations
from attnflow_experiments.evidence.tables import Found
from attnflow_experiments.evidence.trials import all_models, make_trials
from attnflow_experiments.known_answers.cases import Case
from attnflow_experiments.known_answers.trials import Settings
from attnflow_experiments.leaderboard.measure import one_thread

Job = tuple[str, int, int, list[str]]  # a trial, its number of cases, one of them, pieces


def fill(
    settings: Settings,
    names: Sequence[str],
    count: int | None,
    without: Collection[str],
    end: float,
    workers: int = 1,
) -> None:
    """Measure what is missing of some trials, case by case; processes take turns at cases."""
    todo = list(_missing(settings, names, count, without))
    if workers > 1:
        _together(settings, todo, end, workers)
        return
    for job in todo:
        if time.monotonic() > end:
            break
        measure_case(settings, *job)


def _missing(
    settings: Settings, names: Sequence[str], count: int | None, without: Collection[str]
) -> Iterator[Job]:
    trials = make_trials(settings)
    for name in names:
        trial, kept = trials[name], _kept(settings, name)
        number = trial.count if count is None else min(count, trial.count)
        for at in range(number):
            pieces = [
                piece
                for piece in trial.works
                if piece not in without and _place(at, piece) not in kept
            ]
            if pieces:
                yield name, number, at, pieces


def _together(settings: Settings, todo: Sequence[Job], end: float, workers: int) -> None:
    """Several processes; a model is made, and cases are drawn, by one of them for all.

    What fails stops nothing else, and is raised at the end.
    """
    models = {name: trial.model for name, trial in make_trials(settings).items()}
    needed: dict[str, dict[str, int]] = {}
    for name, number, *_ in todo:
        needed.setdefault(models[name], {})[name] = number
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin) as pool:
        ready = {m: pool.submit(draw_cases, settings, numbers) for m, numbers in needed.items()}
        errors = []
        running: set[Future[None]] = set()
        for job in todo:
            if ready[models[job[0]]].exception() is not None:
                continue
            if len(running) >= 2 * workers:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                errors += [each.exception() for each in done]
            if time.monotonic() > end:
                break
            running.add(pool.submit(measure_case, settings, *job))
        errors += [each.exception() for each in (*running, *ready.values())]
    for error in filter(None, errors):
        raise error


def _begin() -> None:
    """How a process begins that shares the machine with others."""
    one_thread()
    stations.register()


def draw_cases(settings: Settings, numbers: Mapping[str, int]) -> None:
    """Make the model of some trials, and draw their cases, where they are not kept yet."""
    for name, number in numbers.items():
        _case(settings, name, number, 0)


def measure_case(
    settings: Settings, name: str, number: int, at: int, pieces: Sequence[str]
) -> None:
    """Measure pieces of one of so many cases."""
    trial, kept = make_trials(settings)[name], _kept(settings, name)
    case = _case(settings, name, number, at)
    if case is None:  # a model may have fewer cases
        return
    model = _model(settings, trial.model)
    for piece in pieces:
        kept.put(_place(at, piece), _tried(trial.works[piece], case, model))


@lru_cache(maxsize=1)
def _model(settings: Settings, name: str) -> Any:
    """A model, kept for the next trial; circuits have one each."""
    if name == "none":
        return None
    return attnflow.load_model(all_models(settings)[name](), device=settings.device)


def _tried(work: Any, case: Any, model: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = work(case, model)
    except AttnflowError as error:
        return {"refused": str(error)}
    return found


def _case(settings: Settings, name: str, number: int, at: int) -> Any:
    """One of the first cases; those that a model is asked for are kept, too."""
    trial, kept = make_trials(settings)[name], _kept(settings, name)
    if trial.drawn:
        found, rest = _drawn(settings, name)
        found += islice(rest, max(0, at + 1 - len(found)))
        return found[at] if at < len(found) else None
    place = f"cases-{number}"
    if place not in kept:
        model = _model(settings, trial.model)
        kept.put(place, [case.as_data() for case in islice(trial.cases(model), number)])
    rows = kept.get(place)
    return Case.from_data(rows[at]) if at < len(rows) else None


@lru_cache(maxsize=1)
def _drawn(settings: Settings, name: str) -> tuple[list[Any], Iterator[Any]]:
    """The cases of a trial that are drawn already, and those to come."""
    trial = make_trials(settings)[name]
    return [], trial.cases(_model(settings, trial.model))


def collect(settings: Settings, name: str) -> list[Found]:
    """What was measured on each case of a trial, by the name of the piece."""
    trial, kept = make_trials(settings)[name], _kept(settings, name)
    found = []
    for at in range(trial.count):
        names = [piece for piece in trial.works if _place(at, piece) in kept]
        if names:
            found.append({piece: kept.get(_place(at, piece)) for piece in names})
    return found


def _kept(settings: Settings, name: str) -> Checkpoint:
    return Checkpoint(settings.work / "evidence" / name, {"trial": name, "seed": settings.seed})


def _place(at: int, piece: str) -> str:
    return f"{at:03}." + piece.replace(",", "").replace(" × ", "-x-").replace(" ", "-")
