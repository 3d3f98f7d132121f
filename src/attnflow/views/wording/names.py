"""What methods, edges, targets and units are called, wherever they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnflow.edges import EDGE_RULES, EdgeRule
from attnflow.methods import METHODS, Method
from attnflow.pipeline.request import starts_at_target
from attnflow.records import Attribution, FlowTrace
from attnflow.records.generation import Generation
from attnflow.records.reasoning import Reasoning
from attnflow.views.wording.labels import printable

_OTHER_SLOT = 7
_RESERVED, _SLOTS = 3, 8  # raw, rollout and flow have slots of their own


@dataclass(frozen=True)
class MethodInfo:
    """What a view needs to know about a method.

    Attributes:
        name: What it is called on its edges, in a list with others.
        title: The name as a heading.
        label: A short name, for a switch.
        summary: What its scores are, in one line; empty where it has no description.
        slot: Which colour of the palette it has.
        shown_by_default: Whether it is shown where no method is named.
        reaches_input: Whether its scores are those of input tokens; raw attention's are those of
            the layer below.
        traced: Whether the edges that carry its scores can be shown.
        layered: Whether it has scores of every layer and of single heads; others have one row of
            scores, those of the output.
        signed: Whether scores below 0 speak against what is explained.
        full: The highest score there can be, which many tokens may share.
        tie_breaker: The method that orders tokens which share a score.
        alternative: The method that tells such tokens apart.
    """

    name: str
    title: str
    label: str
    slot: int
    summary: str = ""
    shown_by_default: bool = True
    reaches_input: bool = True
    traced: bool = False
    layered: bool = False
    signed: bool = False
    full: float | None = None
    tie_breaker: str = ""
    alternative: str = ""


def _free_slot(place: int) -> int:
    """A slot that none of the first methods has; where there are many, some share one."""
    return _RESERVED + (place - _RESERVED) % (_SLOTS - _RESERVED)


def method_info(name: str, edges: object = "attention") -> MethodInfo:
    """How a method is shown on these edges; a saved attribution's may not be registered here."""
    member, rule = METHODS.get(name), EDGE_RULES.get(edges)
    if member is None:
        shown = printable(name)
        title = shown[:1].upper() + shown[1:]
        return MethodInfo(name, title, title, _OTHER_SLOT)
    info = MethodInfo(
        name=_name_on(member, rule),
        title=member.title,
        label=name.capitalize(),
        slot=_free_slot(list(METHODS).index(name)) if member.slot is None else member.slot,
        signed=member.signed,
        summary=member.summary,
        shown_by_default=member.shown_by_default,
        **_of_edges(member),
    )
    if rule is None or not rule.amounts or not info.layered:
        return info
    named = _capital(info.name)
    info = replace(info, title=named, label=named, signed=True, full=None)
    if not starts_at_target(member, rule):
        return info
    summary = ARRIVES.get(name, info.summary)
    return replace(info, summary=summary, layered=False, tie_breaker="", alternative="")


ARRIVES = {
    "flow": "How much of the answer’s logit can have come from each token: what speaks for it, "
    "less what speaks against it.",
    "rollout": "How much of the answer’s logit came from each token, over all paths.",
}
"""What scores are that start at the target."""


def info_of(shown: Attribution | Generation | FlowTrace) -> MethodInfo:
    """How the method of these scores is shown."""
    return method_info(shown.method, shown.options.get("edges", "attention"))


def name_on(method: str, edges: object) -> str:
    """What a method is called on these edges, in a list with others.

    >>> name_on("flow", "attention"), name_on("flow", "relevance"), name_on("flow", "alti")
    ('flow', 'relevance flow', 'flow')
    """
    member = METHODS.get(method)
    return method if member is None else _name_on(member, EDGE_RULES.get(edges))


def _name_on(member: Method, rule: EdgeRule | None) -> str:
    if rule is None or not (rule.amounts and member.reads_edges):
        return member.name
    return f"{rule.name} {member.name}"


def name_with_edges(shown: Attribution) -> str:
    """The same, with its edges where the name does not say them: ``flow on attention``."""
    name, edges = name_of(shown), shown.options.get("edges")
    return name if edges is None or name != shown.method else f"{name} on {rule_name(str(edges))}"


def method_id(method: str, edges: str) -> str:
    """What a method on its edges is called in documents and links.

    >>> method_id("flow", "attention"), method_id("flow", "relevance")
    ('flow', 'relevance-flow')
    """
    return name_on(method, edges).replace(" ", "-")


def name_of(shown: Attribution | Generation | FlowTrace | Reasoning) -> str:
    """What the method of these scores is called."""
    return name_on(shown.method, shown.options.get("edges", "attention"))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _of_edges(member: Method) -> dict[str, Any]:
    """What only methods that read edges have."""
    if not member.reads_edges:
        return {}
    return {
        "reaches_input": member.reaches_input,
        "traced": member.trace is not None,
        "layered": True,
        "full": member.full,
        "tie_breaker": member.tie_breaker,
        "alternative": member.alternative,
    }


def has_layers(attribution: Attribution) -> bool:
    """Whether scores are of layers and positions, and not of the output alone."""
    several = len(attribution.layers) > 1 or len(attribution.queries) > 1
    return several or info_of(attribution).layered


def is_signed(shown: Attribution | Generation) -> bool:
    """Whether scores below 0 must be told from those above."""
    scores = shown.scores
    if isinstance(shown, Generation) and shown.scores is None:
        scores = shown.part_scores
    return info_of(shown).signed or bool((np.asarray(scores) < 0).any())


def describe_target(options: Mapping[str, Any]) -> str:
    """What scores are for, where they are towards a target: ``for plural rather than singular``."""
    if options.get("target") is None:
        return ""
    contrast = options.get("contrast")
    return f"for {options['target']}" + ("" if contrast is None else f" rather than {contrast}")


def signs_note(options: Mapping[str, Any], *, colours: bool = True) -> str:
    """What the two colours of signed scores mean, or a minus where there are no colours."""
    what = options.get("target") or "what is explained"
    if not colours:
        return f"a minus speaks against {what}"
    return f"orange speaks for {what}, blue against it"


def describe_edges(options: Mapping[str, Any]) -> str:
    """What edges are made of and towards what, as the end of a line."""
    if options.get("edges") is None:
        return ""
    note = f", edges: {rule_name(str(options['edges']))}"
    if options.get("target") is not None:
        note += f" towards {options['target']}"
    if options.get("contrast") is not None:
        note += f" rather than {options['contrast']}"
    return note


def unit_of(method: str, options: Mapping[str, Any]) -> str:
    """The unit of scores that have one: ``"logits"`` for relevance that starts at the target."""
    member, rule = METHODS.get(method), EDGE_RULES.get(options.get("edges"))
    if member is None or rule is None or options.get("normalize"):
        return ""
    return rule.unit.partition(" of ")[0] if starts_at_target(member, rule) else ""


def unit_note(method: str, options: Mapping[str, Any]) -> str:
    """What scores are sums of, where the size of the maps is theirs; empty for others.

    >>> unit_note("direct", {"edges": "attention"}), unit_note("rollout", {"edges": "attention"})
    ('scores are sums over layers of attention', '')
    """
    member, rule = METHODS.get(method), EDGE_RULES.get(options.get("edges"))
    if member is None or rule is None or not rule.unit or options.get("normalize"):
        return ""
    if starts_at_target(member, rule):
        return f"scores are in {rule.unit}"
    return f"scores are sums over layers of {rule.unit}" if member.sums_maps else ""


def rule_title(name: str) -> str:
    """What an edge rule is called; a saved attribution's may not be registered here."""
    return EDGE_RULES[name].title if name in EDGE_RULES else printable(name)


def rule_name(name: str) -> str:
    """The same inside a sentence.

    >>> rule_name("gradient"), rule_name("alti")
    ('attention × gradient', 'ALTI')
    """
    title = rule_title(name)
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def title_on(method: str, edges: str) -> str:
    """A method's title on these edges: of others than attention, "Attention rollout" is "Rollout".

    >>> title_on("rollout", "attention"), title_on("rollout", "alti"), title_on("raw", "alti")
    ('Attention rollout', 'Rollout', 'Raw edges')
    >>> title_on("flow", "relevance")
    'Relevance flow'
    """
    return titled(method_info(method, edges), method, edges)


def titled(info: MethodInfo, method: str, edges: str) -> str:
    """The same, where what views know of the method is at hand."""
    if edges == "attention" or info.name != method:
        return info.title
    named = info.title.replace("Raw attention", "Raw edges").removeprefix("Attention ")
    return named[:1].upper() + named[1:]
