"""Where scores start: at a position of one layer, at the target, or at the target's logit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnflow.edges import EDGE_RULES
from attnflow.errors import InputError, unknown
from attnflow.methods import METHODS, Method
from attnflow.options.option import refuse_all
from attnflow.options.tables import AMOUNTS, ARRIVALS, FROM_LOGIT

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
    refuse_all(config, AMOUNTS, f"edges={rule.name!r}")
    whole = next((each.name for each in members if each.amounts == "conserved"), None)
    if whole is not None:
        refuse_all(config, ARRIVALS, f"method={whole!r} on edges={rule.name!r}")


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


POSITION, LOGIT = "position", "logit"


def check_source(config: Request, members: Sequence[Method]) -> None:
    """Refuse what has no meaning where scores start at the target's logit."""
    if not (isinstance(config.source, str) and config.source in (POSITION, LOGIT)):
        raise InputError(unknown("source", config.source, (POSITION, LOGIT)))
    if config.source == POSITION:
        return
    for member in members:
        if member.from_logit is None:
            msg = (
                f"source='logit' does not apply to method={member.name!r}, which has no meaning "
                "for edges that lead to all layers at once; it is for "
                f"{', '.join(methods_from_logit())}"
            )
            raise InputError(msg)
    if config.edges != type(config).edges and not config.rule.needs.blocks:
        able = [each.name for each in EDGE_RULES.members() if each.needs.blocks]
        msg = (
            f"source='logit' does not apply to edges={config.edges!r}, which do not take attention "
            f"blocks apart; it is for {', '.join(able)}"
        )
        raise InputError(msg)
    refuse_all(config, FROM_LOGIT, "source='logit'")


def methods_from_logit() -> list[str]:
    """The methods whose scores can start at a logit."""
    return [
        each.name for each in METHODS.members() if each.reads_edges and each.from_logit is not None
    ]
