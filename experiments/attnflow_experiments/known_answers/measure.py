"""Scores of every combination for a case, in pieces that are kept as they are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import attnflow
from attnflow import EDGE_RULES, METHODS
from attnflow.errors import AttnflowError
from attnflow.io.checkpoint import Checkpoint
from attnflow.models.loading import load_model
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import LOGIT, Request, reads
from attnflow.pipeline.session import Session
from attnflow_experiments.known_answers.cases import Case
from attnflow_experiments.known_answers.trials import Settings, Trial, make_trials, models

READ_EDGES = [each.name for each in METHODS.members() if each.reads_edges]
FROM_LOGIT = [name for name in READ_EDGES if METHODS[name].from_logit is not None]
TAKE_APART = [rule.name for rule in EDGE_RULES.members() if rule.needs.blocks]
DELETION = "deletion"
IMPORTANCES = [*(name for name in METHODS if name not in READ_EDGES), DELETION]
LEARNED_ON = ("attention", "gradient")  # rules with heads
FIRST_LEARNED, LEARNED_TEXTS = 300, 300  # after the texts that a trial asks about
CORRECTED = {"plain": None, "sink": "sink"}  # beside what a method gets by default
Scored = dict[str, Any]
Pieces = Mapping[str, Callable[[Case, Any], Scored]]


def checkpoint_of(settings: Settings, trial: str) -> Checkpoint:
    """Where the pieces of a trial are kept."""
    request = {"trial": trial, "seed": settings.seed}
    return Checkpoint(settings.work / "scores" / trial, request)


def pieces(trial: Trial) -> Pieces:
    """By the name of a piece, what computes it for a case."""
    found: dict[str, Callable[[Case, Any], Scored]] = {"about": about, "default": by_default}
    found |= {f"edges.{rule}": _rule(rule, "auto") for rule in EDGE_RULES}
    if trial.causal:
        found |= {
            f"edges.{rule}.{name}": _rule(rule, correction)
            for rule in EDGE_RULES
            for name, correction in CORRECTED.items()
        }
    if trial.logit:
        found |= {f"edges.{rule}.{LOGIT}": _logit(rule) for rule in TAKE_APART}
    found |= {f"importance.{name}": _importance(name) for name in IMPORTANCES}
    if trial.reference is not None:
        found["reference"] = lambda case, model: {
            "values": _plain(
                attnflow.blank_out(case.text, model, replacement=trial.reference, signed=True)
            )
        }
    # All pieces of a rule in a row, so that they share a run of the model.
    return dict(sorted(found.items()))


def learned_pieces(settings: Settings, trial: Trial) -> Pieces:
    """Those with learned heads, of rules that have heads."""
    names = {f"edges.{rule}.learned": rule for rule in LEARNED_ON if trial.learned}
    return {
        name: _rule(rule, "auto", str(learned_file(settings, trial.learned, rule)))
        for name, rule in names.items()
    }


def learned_file(settings: Settings, trial: str, rule: str) -> Path:
    """The file of heads that are learned on further texts of a trial."""
    return settings.work / f"learned-{trial}-{rule}.json"


def about(case: Case, model: Any) -> Scored:
    """The tokens that count, and those that decide."""
    tokens = model.tokenize(case.text)
    words = tokens.word_ids or [0] * len(tokens)
    ordinary = [at for at, word in enumerate(words) if word is not None]
    return {"text": case.text, "ordinary": ordinary, "deciding": sorted(case.deciding)}


def by_default(case: Case, model: Any) -> Scored:
    """What `explain` chooses, without a target and with the prediction as one."""
    found = attnflow.explain(case.text, model, **case.question)
    target = case.target or found.prediction.label
    named = attnflow.explain(case.text, model, target=target, contrast=case.contrast)
    return {
        name: {"values": _plain(each), "method": each.method, **_chosen(each.options)}
        for name, each in (("default", found), ("default, target named", named))
    }


def _chosen(options: Mapping[str, Any]) -> Scored:
    return {name: options[name] for name in ("edges", "correction")}


def _importance(name: str) -> Callable[[Case, Any], Scored]:
    def work(case: Case, model: Any) -> Scored:
        if name == DELETION:
            found = attnflow.blank_out(case.text, model, replacement="delete", signed=True)
        else:
            found = attnflow.explain(case.text, model, method=name, **case.question)
        return {name: _plain(found)}

    return _unless_refused(work)


def _rule(rule: str, correction: str | None, heads: str = "mean") -> Callable[[Case, Any], Scored]:
    """The scores of all methods on one rule's edges."""

    def work(case: Case, model: Any) -> Scored:
        session = _opened(case, model, rule, heads)
        session = replace(session, config=replace(session.config, correction=correction))
        able = [name for name in READ_EDGES if reads(METHODS[name], EDGE_RULES[rule])]
        return {method: _plain(session.attribution(method)) for method in able}

    return _unless_refused(work)


@lru_cache(maxsize=1)
def _opened(case: Case, model: Any, rule: str, heads: str) -> Session:
    towards = case.question if EDGE_RULES[rule].needs.target else {}
    return open_session(case.text, model, Request(edges=rule, heads=heads, **towards))


def _logit(rule: str) -> Callable[[Case, Any], Scored]:
    """The scores of all methods that can start at the prediction's logit."""

    def work(case: Case, model: Any) -> Scored:
        config = Request(edges=rule, source=LOGIT, **case.question)
        session = open_session(case.text, model, config)
        return {method: _plain(session.attribution(method)) for method in FROM_LOGIT}

    return _unless_refused(work)


def _unless_refused(work: Callable[[Case, Any], Scored]) -> Callable[[Case, Any], Scored]:
    def scored(case: Case, model: Any) -> Scored:
        try:
            return work(case, model)
        except AttnflowError as error:
            return {"refused": str(error)}

    return scored


def _plain(attribution: Any) -> list[float]:
    return [float(value) for value in attribution.values]


# The steps of the work: each may run in a process of its own, and is done once.


def make_model(settings: Settings, name: str) -> None:
    """Train a model, or find it."""
    models(settings)[name]()


def make_cases(settings: Settings, name: str, count: int) -> None:
    """Find the first cases of a trial, which some models have to be asked for."""
    checkpoint, piece = checkpoint_of(settings, name), f"cases.{count}"
    if piece not in checkpoint:
        trial = make_trials(settings)[name]
        found = islice(trial.cases(_model(settings, trial)), count)
        checkpoint.put(piece, [case.as_data() for case in found])


def learn(settings: Settings, name: str, rule: str) -> None:
    """Learn heads on further texts of a trial."""
    path = learned_file(settings, name, rule)
    if path.exists():
        return
    trial = make_trials(settings)[name]
    model = _model(settings, trial)
    further = islice(trial.cases(model), FIRST_LEARNED, FIRST_LEARNED + LEARNED_TEXTS)
    texts = [case.text for case in further]
    attnflow.fit(texts, model, edges=rule, replacement=trial.reference, held_out=0.27, save=path)


def measure(settings: Settings, name: str, count: int, number: int, *, learned: bool) -> None:
    """All pieces of one case that are missing."""
    checkpoint, trial = checkpoint_of(settings, name), make_trials(settings)[name]
    wanted = learned_pieces(settings, trial) if learned else pieces(trial)
    missing = [piece for piece in wanted if f"{number:03}.{piece}" not in checkpoint]
    if not missing:
        return
    case = Case.from_data(checkpoint.get(f"cases.{count}")[number])
    model = _model(settings, trial)
    failed: Exception | None = None
    for piece in missing:
        try:
            checkpoint.put(f"{number:03}.{piece}", wanted[piece](case, model))
        except Exception as error:  # noqa: BLE001 - the others are measured all the same
            error.add_note(f"in {piece} of {case.text!r}")
            failed = error
    if failed is not None:
        raise failed


def _model(settings: Settings, trial: Trial) -> Any:
    return load_model(models(settings)[trial.model](), device=settings.device)


def collect(settings: Settings, name: str, count: int) -> Iterator[Scored]:
    """The cases of a trial that were measured, with what there is of them."""
    checkpoint, trial = checkpoint_of(settings, name), make_trials(settings)[name]
    wanted = {**pieces(trial), **learned_pieces(settings, trial)}
    needed = {"about", "default", "reference"} & set(wanted)
    for number in range(count):
        names = [piece for piece in wanted if f"{number:03}.{piece}" in checkpoint]
        if needed <= set(names):
            yield _collected({each: checkpoint.get(f"{number:03}.{each}") for each in names})


def _collected(found: Mapping[str, Scored]) -> Scored:
    """One case: what it is about, what was refused, and the scores by (edges, method)."""
    scores: dict[tuple[str, str], list[float]] = {}
    refused: dict[str, str] = {}
    for piece, value in found.items():
        kind, _, rule = piece.partition(".")
        if "refused" in value:
            refused[piece] = value["refused"]
        elif kind == "importance":
            scores["", rule] = value[rule]
        elif kind == "default":
            scores |= {("", name): each["values"] for name, each in value.items()}
        elif kind == "edges":
            scores |= {(rule, method): each for method, each in value.items()}
    others = {name: found[name] for name in ("about", "reference", "default") if name in found}
    return {**others, "scores": scores, "refused": refused}
