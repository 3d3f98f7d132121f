"""Several methods on one input: what each found, and how far they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnflow.evaluation.agreement import compared_positions
from attnflow.evaluation.blanking_check import (
    BlankingCheck,
    check_by_blanking,
    read_blank_out,
    why_unchecked,
)
from attnflow.methods.blank_out import MEMBER
from attnflow.records import Attribution
from attnflow.records.words import word_groups
from attnflow.views.claims import LONGEST, Claims
from attnflow.views.conclusions import agreement_sentence
from attnflow.views.findings import Finding, find
from attnflow.views.labels import word_labels
from attnflow.views.methods import info_of
from attnflow.views.numbers import as_sentence, join_names
from attnflow.views.sentences import noun_of

if TYPE_CHECKING:
    from attnflow.pipeline.session import Session

BLANK_OUT = MEMBER.name
FEWEST = 3  # tokens: of fewer, any two rankings agree or don't by chance


@dataclass(frozen=True)
class Summary:
    """What the methods found.

    Attributes:
        main: What the method that was asked for found.
        each: What each of them found, in order.
        agreement: Which of them agree with blanking, or with the main one; empty for one alone.
        unchecked: Why the answer was not checked by blanking; empty where it was, or where there
            is no answer to check.
        checkable: Whether the method blank-out would check it.
    """

    main: Finding
    each: tuple[Finding, ...]
    agreement: str = ""
    unchecked: str = ""
    checkable: bool = True


def summarize(
    session: Session, attributions: Sequence[Attribution], *, blank: bool, tokens: int = 0
) -> Summary:
    """What attributions of a session found.

    With ``blank`` they are compared with blanking, where that is cheap or the input has at most so
    many ``tokens``: it shows what happens without a word.
    """
    asked = next((item for item in attributions if item.method == BLANK_OUT), None)
    check = check_by_blanking(session, tokens) if blank else None
    why = why_unchecked(session, tokens) if blank else ""
    if check is None and asked is not None:
        check = read_blank_out(asked)
    unchecked = f"not checked by blanking: {why}" if why and check is None else ""
    each = tuple(
        find(item, break_ties(session, item, attributions), check) for item in attributions
    )
    methods = [item.method for item in attributions]
    main = methods.index(session.config.method) if session.config.method in methods else -1
    comparable = [
        item for item in attributions if item.values.ndim == 1 and item.method != BLANK_OUT
    ]
    if check is not None:
        agreement = _with_blanking(check, comparable, each)
    else:
        agreement = _with_main(attributions[main], comparable)
    return Summary(each[main], each, agreement, unchecked, session.measurable)


def _with_main(main: Attribution, comparable: Sequence[Attribution]) -> str:
    """How far other methods rank tokens as the one that was asked for."""
    others = [item for item in comparable if item is not main]
    size = len(compared_positions(main))
    if not others or size == 1:
        return ""
    if size < FEWEST:
        return f"{size} {noun_of(main)} are too few to compare their order."
    return agreement_sentence(main, others)


def _with_blanking(
    check: BlankingCheck, comparable: Sequence[Attribution], each: Sequence[Finding]
) -> str:
    """How far methods rank tokens as blanking does, and whether they put the same word first."""
    order = [at for at in find(check.scores).order if check.places is None or at in check.places]
    if not comparable or len(order) == 1:
        return ""
    if len(order) < FEWEST:
        noun = noun_of(check.scores)
        return f"{len(order)} {noun} are too few to compare their order with that of blanking."
    # Scores are of tokens, and what is blanked for a sentence are words: both are told apart.
    pieces = any(len(group) > 1 for group in word_groups(check.scores.word_ids or ()))
    by_token, by_word = ("token by token, ", "of whole words, ") if pieces else ("", "")
    said = agreement_sentence(check.scores, comparable, f"{by_token}blanking", sorted(order))
    labels = word_labels(check.scores, LONGEST)
    first = Claims(check, order, labels.__getitem__).strongest()
    if first is None or not check.removals[first] or not check.scores.values[first] > 0:
        return said
    same = [
        found.name
        for found in each
        if found.method != BLANK_OUT and found.tied == 1 and labels[found.order[0]] == labels[first]
    ]
    verb = "put" if same else "puts"
    names = f"{by_word}{join_names(['blanking', *same])}"
    kind = "patch " if noun_of(check.scores) == "patches" else ""
    return f"{said} {as_sentence(f'{names} {verb} {kind}“{labels[first]}” first')}"


def break_ties(
    session: Session, of: Attribution, known: Sequence[Attribution] = ()
) -> Attribution | None:
    """The scores that order tokens which share one; ``None`` where the method has none."""
    name, edges = info_of(of).tie_breaker, of.options.get("edges")
    if not name or of.values.ndim > 1:
        return None
    same = [item for item in known if item.method == name and item.options.get("edges") == edges]
    own = session if session.config.rule.name == edges else session.beside
    return same[0] if same else own.attribution(name)
