"""Where scores start: at a position of one layer, or at the target's logit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnflow.edges import EDGE_RULES
from attnflow.errors import InputError, unknown
from attnflow.methods import METHODS, Method
from attnflow.options.option import refuse

if TYPE_CHECKING:
    from attnflow.pipeline.request import Request

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
                f"source='logit' is not for method={member.name!r}, which has no meaning for edges "
                f"that lead to all layers at once; it is for {', '.join(methods_from_logit())}"
            )
            raise InputError(msg)
    if config.edges != type(config).edges and not config.rule.needs.blocks:
        able = [each.name for each in EDGE_RULES.members() if each.needs.blocks]
        msg = (
            f"source='logit' is not for edges={config.edges!r}, which do not take attention blocks "
            f"apart; it is for {', '.join(able)}"
        )
        raise InputError(msg)
    spare = ["layer", "layers", "heads"]
    spare += ["query"] if config.query == "all" else []
    spare += ["correction"] if config.correction is not None else []
    why = "its scores come from one logit and all layers at once; leave it out"
    refuse(config, spare, "source='logit'", why)


def methods_from_logit() -> list[str]:
    """The methods whose scores can start at a logit."""
    return [
        each.name for each in METHODS.members() if each.reads_edges and each.from_logit is not None
    ]
