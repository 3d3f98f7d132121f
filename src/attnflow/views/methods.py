"""How methods are named and coloured, wherever they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnflow.aggregation import AGGREGATORS

_IMPORTANCE = {"blank-out": 3, "gradient": 4, "gradient (norm)": 5, "gradient (integrated)": 6}
_OTHER_SLOT = 7
_RESERVED, _SLOTS = 3, 8  # raw, rollout and flow have slots of their own


@dataclass(frozen=True)
class MethodInfo:
    """What a view needs to know about a method.

    Attributes:
        title: The name as a heading.
        label: A short name, for a switch.
        slot: Which colour of the palette it has.
        reaches_input: Whether its scores are those of input tokens; raw attention's are those of
            the layer below.
        traced: Whether the edges that carry its scores can be shown.
        layered: Whether scores are made layer by layer; those of gradients and blanking are not.
        full: The highest score there can be, which many tokens may share.
        tie_breaker: The method that orders tokens which share a score.
        alternative: The method that tells such tokens apart.
    """

    title: str
    label: str
    slot: int
    reaches_input: bool = True
    traced: bool = False
    layered: bool = False
    full: float | None = None
    tie_breaker: str = ""
    alternative: str = ""


def _free_slot(place: int) -> int:
    """A slot that none of the first methods has; where there are many, some share one."""
    return _RESERVED + (place - _RESERVED) % (_SLOTS - _RESERVED)


def method_info(name: str) -> MethodInfo:
    """How a method is shown: an aggregator, or another kind of importance, which has no graph."""
    if name not in AGGREGATORS:
        title = name[:1].upper() + name[1:]
        return MethodInfo(title, title, _IMPORTANCE.get(name, _OTHER_SLOT))
    member = AGGREGATORS[name]
    return MethodInfo(
        title=member.title,
        label=name.capitalize(),
        slot=_free_slot(list(AGGREGATORS).index(name)) if member.slot is None else member.slot,
        reaches_input=member.reaches_input,
        traced=member.trace is not None,
        layered=True,
        full=member.full,
        tie_breaker=member.tie_breaker,
        alternative=member.alternative,
    )


def describe_edges(options: Mapping[str, Any]) -> str:
    """What edges are made of and towards what, as the end of a line; nothing for attention."""
    note = ""
    if options.get("edges", "attention") != "attention":
        note = f", edges {options['edges']}"
        if options.get("target") is not None:
            note += f" towards {options['target']}"
        if options.get("contrast") is not None:
            note += f" rather than {options['contrast']}"
    return note
