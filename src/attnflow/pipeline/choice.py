"""Which edges and which method are used where none is named: the one place that decides.

By model, as measured where the answer is known (docs/methods.md):

    encoders                   ALTI, handed down by rollout
    encoders, with a target    attention × gradient, direct contributions of all positions
    decoders                   attention × gradient, direct contributions (correction sink)
    decoders that classify     as encoders, with the correction sink
    all others                 attention and flow, as in the paper

A method named alone has the edges it was published with, and edges named alone the method that
reads them best; both say so themselves. A measure reads no edges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from attnflow.edges import EDGE_RULES
from attnflow.methods import METHODS, find_edge_method
from attnflow.models.heads import CLASSIFIER
from attnflow.pipeline.request import AUTO, Request
from attnflow.pipeline.source import LOGIT
from attnflow.records.learned import LearnedHeads

if TYPE_CHECKING:
    from attnflow.edges.options import Heads
    from attnflow.models.adapter import ModelAdapter, Objective, Tokens


class Choice(NamedTuple):
    """Edges, the method that reads them, and a decoder's correction where it is not the usual."""

    edges: str
    method: str
    correction: str = AUTO


ENCODER = Choice("alti", "rollout")
ENCODER_WITH_TARGET = Choice("gradient", "direct-all")
DECODER = Choice("gradient", "direct")
# The last position of a classifier reads what others handed on: what it reads itself says little.
DECODER_CLASSIFIER = Choice("alti", "rollout", "sink")
PAPER = Choice("attention", "flow")
WITH_ROUTES = "flow"  # the method that has routes and a bottleneck
UNTRIED = (
    "attention edges are used: no trial has shown yet which edges answer best for encoder–decoders"
)


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
    tokens: Tokens,
    objective: Objective,
    *,
    paths: bool = False,
) -> Chosen:
    """The configuration with all that was left open decided, for a model and one of its inputs.

    ``paths`` asks for a method that follows paths, which direct contributions do not.
    """
    if config.source == LOGIT and config.edges == AUTO:
        config = replace(config, edges=ENCODER.edges)  # which takes blocks apart
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
    towards = objective.target is not None or objective.contrast is not None
    choice, note = (ENCODER, "") if paths else _for_model(adapter, tokens, towards=towards)
    if config.routes:
        choice = choice._replace(method=WITH_ROUTES)
    refused = _refused(config, choice)
    if refused:
        note = f"attention edges are used: {refused} is not for edges {choice.edges!r}"
        choice = PAPER
    notes = (note,) if note else ()
    correction = choice.correction if config.correction == AUTO else config.correction
    found = replace(config, edges=choice.edges, method=choice.method, correction=correction)
    if choice == PAPER or towards:
        return Chosen(found, notes)
    other = replace(config, edges=PAPER.edges, method=PAPER.method)
    return Chosen(found, notes, other)


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


def shown_methods(first: str, heads: Heads = "mean", *, edges: bool = False) -> list[str]:
    """What is shown where several methods are and none is named: the chosen and the usual ones."""
    usual = usual_methods(heads, edges=edges)
    return usual if first in usual else [first, *usual]


def fallback_note(error: Exception) -> str:
    """Why a model's default edges were not used."""
    reason = str(error).removesuffix(". Use edges='attention'")
    return f"attention edges and flow are used, as in the paper: {reason}"


def _for_model(adapter: ModelAdapter, tokens: Tokens, *, towards: bool) -> tuple[Choice, str]:
    if adapter.kind in ("pair", "speech"):
        return PAPER, UNTRIED
    decoder = adapter.is_decoder(tokens)
    if decoder and adapter.description.get("head") != CLASSIFIER.name:
        return DECODER, ""
    if towards:
        return ENCODER_WITH_TARGET, ""
    return (DECODER_CLASSIFIER if decoder else ENCODER), ""


def _refused(config: Request, choice: Choice) -> str:
    """The option that a choice can't honour, as it was given; empty where it can."""
    rule, method = EDGE_RULES[choice.edges], find_edge_method(choice.method)
    if config.residual is not None and rule.residual == "measured":
        return f"residual={config.residual}"
    single = config.heads == "each" and not method.single_heads
    if config.heads != "mean" and (not rule.single_heads or single):
        several = ",".join(map(str, config.heads)) if isinstance(config.heads, tuple) else ""
        return f"heads={several or config.heads}"
    return ""


def _with_method(config: Request, method: str) -> Request:
    return replace(config, method=method) if config.method == AUTO else config
