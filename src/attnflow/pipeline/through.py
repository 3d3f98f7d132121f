"""Answers through time: scores that end in the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.methods import METHODS, Scores, find_edge_method
from attnflow.methods.through import flow_through, hand_on
from attnflow.pipeline.request import is_auto
from attnflow.pipeline.scoring import corrected
from attnflow.pipeline.source import LOGIT, methods_from_logit
from attnflow.records import FloatArray, LayeredGraph, Selection
from attnflow.records.arrays import to_numpy
from attnflow.records.selection import Groups

if TYPE_CHECKING:
    from attnflow.pipeline.answer_session import AnswerSession
    from attnflow.pipeline.measured import Advance
    from attnflow.pipeline.request import Request

TOKENS, PROMPT = "tokens", "prompt"


def check_through(config: Request, through: object) -> None:
    """Refuse what has no meaning where scores are handed on from token to token."""
    if not isinstance(through, str) or through not in (TOKENS, PROMPT):
        msg = f"through={shown(through)} is unknown; allowed: {TOKENS!r}, {PROMPT!r}"
        raise InputError(msg)
    if through == TOKENS:
        return
    member = None if is_auto(config.method) else METHODS[config.method]
    if member is not None and member.from_logit is None:
        msg = (
            f"through='prompt' is not for method={config.method!r}, which does not follow paths; "
            f"it is for {', '.join(methods_from_logit())}"
        )
        raise InputError(msg)
    if config.rule.amounts:
        msg = (
            f"through='prompt' is not for edges={config.edges!r}: what an answer's token took from "
            "another is an amount, and no share that could be handed on; leave it out"
        )
        raise InputError(msg)
    if config.source == LOGIT:
        msg = "through='prompt' is not for source='logit'; leave one of them out"
        raise InputError(msg)


def rows_through_prompt(
    found: AnswerSession, keys: Sequence[Groups | None], advance: Advance
) -> list[Scores]:
    """``[answer, key]`` for tokens (``None``) and for groups of tokens, all of the prompt."""
    capacities = find_edge_method(found.config.method).from_logit == "capacities"
    if found.each_alone and (capacities or found.correction == "uniform"):
        what = "flow" if capacities else "correction='uniform'"
        msg = (
            f"{what} through='prompt' needs one graph, and with edges={found.config.edges!r} every "
            "token of the answer has its own; use edges='attention' or 'alti', or method='rollout' "
            "without a correction"
        )
        raise InputError(msg)
    by = _by_capacities if capacities else _by_ratios
    return [by(found, each, advance) for each in keys]


def _by_capacities(found: AnswerSession, groups: Groups | None, _: Advance) -> Scores:
    """Flow on the graph with the edges that lead back up."""
    sinks = tuple((at,) for at in range(len(found.tokens))) if groups is None else groups
    top = found.first.step(found.layer)

    def solve(graph: LayeredGraph) -> Scores:
        return flow_through(graph.weights, top, found.positions, sinks)

    return corrected(found.first, found.config.method, solve)


def _by_ratios(found: AnswerSession, groups: Groups | None, advance: Advance) -> Scores:
    """Rollout in closed form: rows of the usual scores, handed on."""
    if found.each_alone:
        (rows,) = found.rows([None], advance)
        return Scores(_grouped(hand_on(rows.values, found.positions), groups), rows.statistics)
    queries = tuple(at - 1 for at in found.positions)
    keys = tuple(range(len(found.tokens)))
    selection = Selection((found.first.step(found.layer),), queries, keys)
    method = find_edge_method(found.config.method)

    def solve(graph: LayeredGraph) -> Scores:
        scores = method.apply(graph, selection, found.config.execution)
        handed = hand_on(to_numpy(scores.values)[0], found.positions)
        return Scores(_grouped(handed, groups), scores.statistics)

    return corrected(found.first, method.name, solve)


def _grouped(rows: FloatArray, groups: Groups | None) -> FloatArray:
    if groups is None:
        return rows
    return np.stack([rows[:, list(group)].sum(-1) for group in groups], axis=-1)
