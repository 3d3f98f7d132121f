"""Several methods on one input: what each found, and how far they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnflow.evaluation.blanking_check import check_by_blanking
from attnflow.measures.blank_out import MEMBER
from attnflow.records import Attribution
from attnflow.views.conclusions import agreement_sentence
from attnflow.views.findings import Finding, find
from attnflow.views.labels import distinct_labels
from attnflow.views.methods import method_info
from attnflow.views.sentences import LONGEST

if TYPE_CHECKING:
    from attnflow.pipeline.session import Session

BLANK_OUT = MEMBER.name


@dataclass(frozen=True)
class Summary:
    """What the methods found.

    Attributes:
        main: What the method that was asked for found.
        each: What each of them found, in order.
        agreement: Which of them agree with blanking, or with the main one; empty for one alone.
    """

    main: Finding
    each: tuple[Finding, ...]
    agreement: str = ""


def summarize(session: Session, attributions: Sequence[Attribution], *, blank: bool) -> Summary:
    """What attributions of a session found.

    With ``blank`` they are compared with blanking, where that is cheap: it shows what happens
    without a token.
    """
    each = tuple(find(item, break_ties(session, item, attributions)) for item in attributions)
    methods = [item.method for item in attributions]
    main = methods.index(session.config.method) if session.config.method in methods else -1
    comparable = [
        item for item in attributions if item.values.ndim == 1 and item.method != BLANK_OUT
    ]
    blanked = check_by_blanking(session) if blank and comparable else None
    if blanked is not None:
        agreement = agreement_sentence(blanked, comparable, "blanking")
        agreement += _what_blanking_says(blanked, each[main])
    else:
        others = [item for item in comparable if item is not attributions[main]]
        agreement = agreement_sentence(attributions[main], others) if others else ""
    return Summary(each[main], each, agreement)


def _what_blanking_says(blanked: Attribution, main: Finding) -> str:
    """The token without which the answer changes most, where the main method named another."""
    first = find(blanked).order[0]
    if first == main.order[0] or not blanked.values[first] > 0:
        return ""
    return f" Without “{distinct_labels(blanked.tokens, LONGEST)[first]}” the answer changes most."


def break_ties(
    session: Session, of: Attribution, known: Sequence[Attribution] = ()
) -> Attribution | None:
    """The scores that order tokens which share one; ``None`` where the method has none."""
    name = method_info(of.method).tie_breaker
    if not name or of.values.ndim > 1:
        return None
    found = next((item for item in known if item.method == name), None)
    return session.attribution(name) if found is None else found
