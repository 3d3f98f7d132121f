"""What the methods of a session found, in words: the first thing that the page says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnflow.pipeline.session import Session
from attnflow.views.explorer.parts import describe_finding, first_key
from attnflow.views.explorer.schema import FoundByMethod
from attnflow.views.summary import summarize


@dataclass(frozen=True)
class Found:
    """What methods found: in words, which of them agree, and the token that is traced at first."""

    findings: list[FoundByMethod]
    agreement: str
    key: int


def find_all(session: Session, methods: Sequence[str], *, blank: bool) -> Found:
    """What these methods found where the configuration asks; ``blank`` compares with blanking."""
    attributions = [session.attribution(method) for method in methods]
    summary = summarize(session, attributions, blank=blank)
    order = summary.main.order
    if session.config.words:
        order = tuple(session.groups[at][0] for at in order)
    return Found(
        [
            describe_finding(found, of.layer, session.query)
            for found, of in zip(summary.each, attributions, strict=True)
        ],
        summary.agreement,
        first_key(order, session.tokens.names, session.tokens),
    )
