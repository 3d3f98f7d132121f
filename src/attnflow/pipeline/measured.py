"""Scores of methods that read no edges, for the input of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnflow.errors import InputError
from attnflow.methods import METHODS, Method, Scores
from attnflow.methods.question import (
    Question,
    Target,
    batches_by_length,
    no_progress,
    resolve_targets,
    rows_that_fit,
)
from attnflow.records import FloatArray
from attnflow.records.arrays import to_numpy
from attnflow.records.selection import Groups, resolve

if TYPE_CHECKING:
    from attnflow.pipeline.session import Session

MOST_TOGETHER = 256  # inputs in a batch
MOST_PIECES = 16  # images or pairs of texts in one
Check = Callable[[], None]  # called between pieces of work; raises to end it
Advance = Callable[[float], None]  # called with the share of the work that is done; may raise


def find_target(session: Session) -> Target:
    """What the scores are for: the session's target, at the position that is explained."""
    position = target_position(session)
    objective = session.objective
    (found,) = resolve_targets(
        session.adapter, [session.tokens], objective.target, objective.contrast, [position]
    )
    return replace(found, prediction=session.prediction)


def target_position(session: Session) -> int:
    """Where the target is predicted: where the model decides, or where a token is asked about."""
    decided = session.adapter.decision(session.tokens)
    asked, said = session.config.query, session.prediction
    if said is not None and said.position is not None:
        return session.query
    if asked in (None, "all") or session.query == decided:
        return decided
    msg = (
        f"query={asked!r} is not for methods that run the model again: what they explain is "
        f"decided at position {decided} ({session.tokens.names[decided]!r}); leave query out"
    )
    raise InputError(msg)


def probabilities_without(session: Session, groups: Groups) -> dict[tuple[int, ...], Tensor]:
    """The probabilities of all labels or tokens without each of these groups of tokens.

    What a masked language model predicts can't be removed: a group of nothing else is left out.
    """
    model, tokens = session.adapter, session.tokens
    filler = model.filler()
    position = target_position(session) if session.measurable else session.query
    kept = [(group, [at for at in group if not model.predicts_at(tokens, at)]) for group in groups]
    places = [(group, removed) for group, removed in kept if removed or not group]
    inputs = [model.blank(tokens, removed, filler) if removed else tokens for _, removed in places]
    found: dict[tuple[int, ...], Tensor] = {}
    size = MOST_PIECES if model.batchable(inputs) else 1
    if session.measurable:
        size = rows_that_fit(model, inputs, MOST_TOGETHER)
    for part in batches_by_length(inputs, size):
        with torch.no_grad():
            rows = model.probabilities([inputs[at] for at in part], [position] * len(part))
        found |= {places[at][0]: row for at, row in zip(part, rows, strict=True)}
    return found


def measured(
    session: Session, measure: Method, *, words: bool = False, advance: Advance = no_progress
) -> Scores:
    """The scores of one method, ``[key]``: each token's, or each word's."""
    alone = tuple((at,) for at in range(session.size))
    question = Question(
        session.adapter,
        session.tokens,
        session.target,
        session.groups if words else alone,
        session.config.steps if measure.uses_steps else None,
        session.config.batch_size,
        advance,
    )
    scores = measure.answer(question)
    values: FloatArray = to_numpy(scores.values)
    return Scores(values, scores.statistics)


def measured_scores(
    session: Session,
    measure: Method,
    layers: Sequence[int],
    queries: Sequence[int],
    *,
    words: bool,
    check: Check | None,
) -> Scores:
    """The scores of a method that reads no edges: of the top layer and one position only."""
    depth, position = session.depth, session.target.position
    wanted = [resolve("layer", layer, 1, depth, depth + 1) for layer in layers]
    check_output_alone(measure.name, wanted, queries, depth, position)
    advance = no_progress if check is None else lambda _: check()
    found = session.measured(measure, words=words, advance=advance)
    return Scores(found.values[None, None], found.statistics)


def check_output_alone(
    method: str, layers: Sequence[int], queries: Sequence[int], depth: int, position: int | None
) -> None:
    """Refuse layers and positions other than the output's; ``None`` is any position."""
    if list(layers) != [depth] or (position is not None and list(queries) != [position]):
        where = f"layer {depth}" + ("" if position is None else f" and position {position}")
        msg = (
            f"method={method!r} has scores of the output alone: {where}, not layers "
            f"{list(layers)} and positions {list(queries)}"
        )
        raise InputError(msg)


def describe_measured(session: Session) -> dict[str, Any]:
    """The options that such scores were computed with."""
    target = session.target
    contrast = {}
    if target.contrast is not None:
        contrast["contrast"] = session.adapter.output_name(target.contrast)
    options = {"query": session.config.query, "normalize": session.config.normalize}
    bos = {"bos": True} if session.config.bos else {}
    return {**options, **bos, "target": target.label, **contrast}


def find_measure(method: str) -> Method | None:
    """The method, if it reads no edges."""
    member = METHODS[method]
    return member if not member.reads_edges else None
