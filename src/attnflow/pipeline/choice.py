"""Which edges and which method are used where none is named: the one place that decides.

Flow on relevance, for every kind of model, with or without a target, a contrast or an answer
(docs/choosing.md has what was measured). The exceptions:

- A model that predicts nothing has no relevance, and one may refuse to be differentiated; options
  may ask for what relevance does not have, such as lower layers or single heads. Then attention and
  flow are used, as in the paper, and a note says why. With a target, which attention does not see,
  attention × gradient stands in.
- Scores that are handed on through an answer (``through="prompt"``) or start at a logit
  (``source="logit"``) are shares of what a position takes: ALTI, and rollout.

A method named alone has the edges it was published with, and edges named alone the method that
reads them best; both say so themselves. A measure reads no edges.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from attnflow.edges import EDGE_RULES
from attnflow.errors import InputError
from attnflow.methods import METHODS
from attnflow.pipeline.request import AUTO, LOGIT, Request, check_layers
from attnflow.records.learned import LearnedHeads

if TYPE_CHECKING:
    from attnflow.edges.graph import Heads
    from attnflow.models.adapter import ModelAdapter, Objective
    from attnflow.pipeline.session import Session


class Choice(NamedTuple):
    """Edges, and the method that reads them."""

    edges: str
    method: str


DEFAULT = Choice("relevance", "flow")
PAPER = Choice("attention", "flow")
PAPER_WITH_TARGET = Choice("gradient", "direct-all")
SHARES = Choice("alti", "rollout")
WITH_ROUTES = "flow"  # the method that has routes and a bottleneck


@dataclass(frozen=True)
class Chosen:
    """A configuration with its edges and its method.

    Attributes:
        config: The configuration.
        notes: Why the measured edges are not used, where they are not.
        fallback: What to use instead where a model refuses the edges; ``None`` where they were
            named, or where nothing else would answer.
    """

    config: Request
    notes: tuple[str, ...] = ()
    fallback: Request | None = None


def choose(
    config: Request,
    adapter: ModelAdapter,
    objective: Objective,
    *,
    paths: bool = False,
) -> Chosen:
    """The configuration with all that was left open decided, for a model and a target.

    ``paths`` says that scores are handed on through an answer, as shares.
    """
    if config.source == LOGIT and config.edges == AUTO:
        config = replace(config, edges=SHARES.edges)  # which takes blocks apart
    if isinstance(config.heads, LearnedHeads) and config.edges == AUTO:
        config = replace(config, edges=config.heads.edges)  # those that they were learned on
    named = [METHODS[name] for name in config.asked if name != AUTO]
    readers = [member for member in named if member.reads_edges]
    if config.edges != AUTO:
        rule = EDGE_RULES[config.edges]
        method = WITH_ROUTES if config.routes else rule.method
        return Chosen(_with_method(config, method))
    if readers:
        return Chosen(_with_method(replace(config, edges=readers[0].edges), readers[0].name))
    if named:
        return Chosen(config)  # measures, which read no edges
    if paths:
        return Chosen(_with(config, SHARES), fallback=_with(config, PAPER))
    towards = objective.target is not None or objective.contrast is not None
    other = _with(config, PAPER_WITH_TARGET if towards and not config.routes else PAPER)
    try:
        return Chosen(_with_relevance(config, adapter), fallback=other)
    except InputError as error:
        return Chosen(other, (paper_note(other, error),))


def _with_relevance(config: Request, adapter: ModelAdapter) -> Request:
    """Flow on relevance; an error where it can't be had, as far as is known before a run."""
    if not adapter.predicts:
        msg = f"{adapter.name} has no head that predicts, and relevance starts at a prediction"
        raise InputError(msg)
    chosen = _with(config, DEFAULT)
    check_layers(chosen, adapter.depth)
    return chosen


def _with(config: Request, choice: Choice) -> Request:
    return replace(config, edges=choice.edges, method=choice.method)


def paper_note(used: Request, why: object) -> str:
    """Why something else than the default is used."""
    # What errors advise is said of edges that were named, and these were not.
    reason = re.sub(r"\. [A-Z][^.]*edges='attention'$", "", str(why)).partition("; ")[0]
    if used.edges != PAPER.edges:
        return f"edges {used.edges!r} are used instead of {DEFAULT.edges!r}: {reason}"
    return f"attention and flow are used, as in the paper: {reason}"


def usual_methods(heads: Heads = "mean", *, edges: bool = False) -> list[str]:
    """The methods that are shown by default.

    Where single ``heads`` are asked for, or something that reads ``edges``, they are those that
    have them: a method that someone registered may not.
    """
    return [
        each.name
        for each in METHODS.members()
        if each.shown_by_default
        and (heads != "each" or (each.reads_edges and each.single_heads))
        and (not edges or each.reads_edges)
    ]


class Shown(NamedTuple):
    """A method, and the session whose edges it reads."""

    session: Session
    method: str


def shown_together(session: Session, heads: Heads = "mean", *, edges: bool = False) -> list[Shown]:
    """What is shown where several methods are and none is named: the chosen and the usual ones.

    Beside edges that are amounts, the usual ones are as in the paper, on attention.
    """
    own = Shown(session, session.config.method)
    usual = [Shown(session.beside, name) for name in usual_methods(heads, edges=edges)]
    return usual if own in usual else [own, *usual]


def _with_method(config: Request, method: str) -> Request:
    return replace(config, method=method) if config.method == AUTO else config
