"""Edges that are amounts with a sign: which options and methods they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnflow.edges.corrections import SINK
from attnflow.errors import InputError, shown
from attnflow.methods import METHODS, Method
from attnflow.records.selection import is_integer

if TYPE_CHECKING:
    from attnflow.edges import EdgeRule
    from attnflow.pipeline.request import Request


def reads(method: Method, rule: EdgeRule) -> bool:
    """Whether a method can read a rule's edges."""
    if not rule.amounts or method.amounts == "any":
        return True
    return method.amounts == "conserved" and rule.conserved


def starts_at_target(method: Method, rule: EdgeRule) -> bool:
    """Whether scores are what arrives from the target: one row, of the top layer."""
    return rule.conserved and method.reads_edges and method.amounts == "conserved"


def check_amounts(config: Request, members: Sequence[Method]) -> None:
    """Refuse what has no meaning for amounts: nothing is divided, corrected or left out."""
    rule = config.rule
    for member in members:
        if not reads(member, rule):
            able = [
                each.name for each in METHODS.members() if each.reads_edges and reads(each, rule)
            ]
            msg = (
                f"method={member.name!r} reads shares of what a position takes, and "
                f"edges={rule.name!r} are amounts with a sign ({rule.unit}); use "
                f"{', '.join(map(repr, able))}"
            )
            raise InputError(msg)
    whole = next((each.name for each in members if each.amounts == "conserved"), None)
    for option, all_of in (("query", "all"), ("heads", "each")):
        if whole is not None and getattr(config, option) == all_of:
            msg = (
                f"{option}={all_of!r} is not for method={whole!r} on edges={rule.name!r}: it has "
                "what arrives from the target, over all heads and paths at once; leave it out, or "
                "use method='raw'"
            )
            raise InputError(msg)
    heads = config.heads
    picked = not isinstance(heads, str) and all(map(is_integer, _listed(heads)))
    given = {
        "heads": not picked and heads not in ("mean", "each"),
        "discard": config.discard != 0,
        "correction": config.correction not in (None, "auto", SINK),
        "normalize": config.normalize,
    }
    reasons = {
        "heads": "heads add up; pick some by number, or leave it out",
        "discard": "an amount that is left out would be missing elsewhere; leave it out",
        "correction": "nothing is a share of a receptive field; use 'sink', or leave it out",
        "normalize": "signed amounts are no whole to take shares of; leave it out",
    }
    for option, asked in given.items():
        if asked:
            msg = (
                f"{option}={shown(getattr(config, option))} is not for edges={rule.name!r}: "
                f"{reasons[option]}"
            )
            raise InputError(msg)


def check_layers(config: Request, depth: int) -> None:
    """Refuse layers below the top where scores are what arrives from the target.

    ``"all"`` are all that there are: the top one.
    """
    layers, layer = config.resolve_layers(depth)
    if config.layers == "all":
        layers = (layer,)
    names = {config.method if name == "auto" else name for name in config.asked}
    asked = [METHODS[name] for name in names]
    if any(starts_at_target(each, config.rule) for each in asked) and layers != (depth,):
        msg = (
            f"relevance starts at the target, above layer {depth}; what starts at layer "
            f"{', '.join(map(str, layers))} is not known. Leave layer and layers out, or use "
            "method='raw'"
        )
        raise InputError(msg)


def _listed(heads: object) -> Sequence[object]:
    return heads if isinstance(heads, Sequence) else (None,)
