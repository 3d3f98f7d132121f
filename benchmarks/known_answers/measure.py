"""Scores of every combination for every case, in pieces that are kept as they are computed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from benchmarks.known_answers.cases import Case
from benchmarks.known_answers.trials import Trial

import attnflow
from attnflow import AGGREGATORS, EDGE_RULES, Aggregator
from attnflow.errors import AttnflowError
from attnflow.io.checkpoint import Checkpoint
from attnflow.io.progress import progress_bar
from attnflow.models.loading import load_model
from attnflow.pipeline.config import ExplainConfig
from attnflow.pipeline.sessions import open_session

STEPS = 16  # of integrated gradients
READ_EDGES = [name for name in AGGREGATORS if isinstance(AGGREGATORS[name], Aggregator)]
DELETION = "deletion"
IMPORTANCES = [*(name for name in AGGREGATORS if name not in READ_EDGES), DELETION]
Scored = dict[str, Any]


def pieces(trial: Trial) -> dict[str, Callable[[Case, Any], Scored]]:
    """By the name of a piece, what computes it for a case."""

    def of_rule(rule: str, correction: str | None) -> Callable[[Case, Any], Scored]:
        return lambda case, model: rule_scores(rule, correction, case, model)

    def of_importance(name: str) -> Callable[[Case, Any], Scored]:
        return lambda case, model: {name: _plain(importance(name, case.text, model))}

    found: dict[str, Callable[[Case, Any], Scored]] = {"about": about}
    found |= {f"edges.{rule}": of_rule(rule, "auto") for rule in EDGE_RULES}
    if trial.causal:
        found |= {f"edges.{rule}.sink": of_rule(rule, "sink") for rule in EDGE_RULES}
    found |= {f"importance.{name}": of_importance(name) for name in IMPORTANCES}
    if trial.reference is not None:
        found["reference"] = lambda case, model: {
            "values": _plain(
                attnflow.blank_out(case.text, model, replacement=trial.reference, signed=True)
            )
        }
    return found


def importance(name: str, text: str, model: Any) -> Any:
    """The scores of a method that reads no edges."""
    if name == DELETION:
        return attnflow.blank_out(text, model, replacement="delete", signed=True)
    steps = {"steps": STEPS} if AGGREGATORS[name].uses_steps else {}
    return attnflow.explain(text, model, method=name, **steps)


def about(case: Case, model: Any) -> Scored:
    """The tokens that count, and those that decide."""
    tokens = model.tokenize(case.text)
    words = tokens.word_ids or [0] * len(tokens)
    ordinary = [at for at, word in enumerate(words) if word is not None]
    return {"text": case.text, "ordinary": ordinary, "deciding": sorted(case.deciding)}


def rule_scores(rule: str, correction: str | None, case: Case, model: Any) -> Scored:
    """The scores of all methods on one rule's edges, or why there are none."""
    try:
        session = open_session(case.text, model, ExplainConfig(edges=rule, correction=correction))
        return {method: _plain(session.attribution(method)) for method in READ_EDGES}
    except AttnflowError as error:
        return {"refused": str(error)}


def _plain(attribution: Any) -> list[float]:
    return [float(value) for value in attribution.values]


def measure(
    name: str, trial: Trial, numbers: range, checkpoint: Checkpoint, device: str | None
) -> list[Scored]:
    """All pieces of some cases of a trial, computed where they are missing."""
    wanted = pieces(trial)
    missing = [
        (number, piece)
        for number in numbers
        for piece in wanted
        if f"{name}.{number:03}.{piece}" not in checkpoint
    ]
    if missing:
        model = load_model(trial.model(), device=device)
        found = list(islice(trial.cases(model), numbers.stop))
        with progress_bar(trial.title, len(missing), shown=True) as advance:
            for done, (number, piece) in enumerate(missing, start=1):
                value = wanted[piece](found[number], model)
                checkpoint.put(f"{name}.{number:03}.{piece}", value)
                advance(done)
    return [dict(_collected(name, number, wanted, checkpoint)) for number in numbers]


def _collected(
    name: str, number: int, wanted: Sequence[str], checkpoint: Checkpoint
) -> Iterator[tuple[str, Any]]:
    """One case: what it is about, and the scores by (edges, method)."""
    scores: dict[tuple[str, str], list[float]] = {}
    for piece in wanted:
        value = checkpoint.get(f"{name}.{number:03}.{piece}")
        kind, _, rule = piece.partition(".")
        if kind == "importance":
            scores["", rule] = next(iter(value.values()))
        elif kind != "edges":
            yield piece, value
        elif "refused" in value:
            print(f"{name}: edges={rule!r}: {value['refused']}", file=sys.stderr)
        else:
            scores |= {(rule, method): each for method, each in value.items()}
    yield "scores", scores
