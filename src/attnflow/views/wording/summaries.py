"""Several methods on one input: what each found, how far they agree, and what they put first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from attnflow.evaluation.agreement import agreement, compared_positions, spearman
from attnflow.evaluation.blanking_check import (
    BlankingCheck,
    check_by_blanking,
    read_blank_out,
    why_unchecked,
)
from attnflow.methods.blank_out import MEMBER
from attnflow.records import Attribution, FloatArray
from attnflow.records.arrays import round_scores
from attnflow.views.wording.findings import Finding, find, noun_of, rank
from attnflow.views.wording.labels import LONGEST, word_labels
from attnflow.views.wording.names import info_of, is_signed, name_of
from attnflow.views.wording.numbers import as_sentence, correlation, join_names
from attnflow.views.wording.verdicts import Experiment

if TYPE_CHECKING:
    from attnflow.pipeline.session import Session

BLANK_OUT = MEMBER.name
FEWEST = 3  # tokens: of fewer, any two rankings agree or don't by chance
AGREES, PARTLY = 0.5, 0.2  # rank correlations


@dataclass(frozen=True)
class Summary:
    """What the methods found.

    Attributes:
        main: What the chosen method found.
        each: What each of them found, in order.
        correlations: How far their orders agree with that of blanking, or with the main one's.
        leaders: Which of them put the same word first.
        unchecked: Why the answer was not checked by blanking; empty where it was, or where there
            is no answer to check.
        checkable: Whether the method blank-out would check it.
    """

    main: Finding
    each: tuple[Finding, ...]
    correlations: str = ""
    leaders: str = ""
    unchecked: str = ""
    checkable: bool = True

    @property
    def agreement(self) -> str:
        """How far the methods agree; empty for one alone."""
        return " ".join(filter(None, [self.correlations, self.leaders]))


def summarize(
    session: Session, attributions: Sequence[Attribution], *, blank: bool, tokens: int = 0
) -> Summary:
    """What attributions of a session found.

    With ``blank`` they are compared with blanking, where that is cheap or the input has at most so
    many ``tokens``: it shows what happens without a word.
    """
    own = next((item for item in attributions if item.method == BLANK_OUT), None)
    check = check_by_blanking(session, tokens) if blank else None
    why = why_unchecked(session, tokens) if blank else ""
    if check is None and own is not None:
        check = read_blank_out(own)
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
        compared = _with_blanking(check, comparable, each)
    else:
        compared = _with_main(attributions[main], comparable)
    return Summary(each[main], each, *compared, unchecked, session.measurable)


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


def _with_main(main: Attribution, comparable: Sequence[Attribution]) -> tuple[str, str]:
    """How far other methods rank tokens as the chosen one does."""
    others = [item for item in comparable if item is not main]
    size = len(compared_positions(main))
    if not others or size == 1:
        return "", ""
    if size < FEWEST:
        return f"{size} {noun_of(main)} are too few to compare their order.", ""
    return agreement_sentence(main, others), ""


def _with_blanking(
    check: BlankingCheck, comparable: Sequence[Attribution], each: Sequence[Finding]
) -> tuple[str, str]:
    """How far methods rank tokens as blanking does, and whether they put the same word first."""
    order = [at for at in rank(check.scores) if check.places is None or at in check.places]
    if not comparable or len(order) == 1:
        return "", ""
    if len(order) < FEWEST:
        noun = noun_of(check.scores)
        few = f"{len(order)} {noun} are too few to compare their order with that of blanking."
        return few, ""
    # Scores are of tokens, and what is blanked for a sentence are words: both are told apart.
    pieces = any(len(group) > 1 for group in check.scores.groups)
    by_token, by_word = ("token by token, ", "of whole words, ") if pieces else ("", "")
    agree = agreement_sentence(
        check.scores, comparable, f"{by_token}blanking", sorted(order), _falls(check)
    )
    labels = word_labels(check.scores, LONGEST)
    first = Experiment(check, order, labels.__getitem__).strongest()
    if first is None or not check.removals[first] or not check.scores.values[first] > 0:
        return agree, ""
    firsts = {labels[first]: ["blanking"]}
    for found in each:
        if found.method != BLANK_OUT and found.tied == 1:
            firsts.setdefault(labels[found.leading], []).append(found.name)
    kind = "patch " if noun_of(check.scores) == "patches" else ""
    (word, same), *others = firsts.items()
    verb = "put" if len(same) > 1 else "puts"
    rest = "".join(f", {join_names(names)} {kind}“{other}”" for other, names in others)
    return agree, as_sentence(f"{by_word}{join_names(same)} {verb} {kind}“{word}” first{rest}")


def _falls(check: BlankingCheck) -> FloatArray:
    """How far the answer falls without each token; below 0 where it rises."""
    falls = check.scores.statistics.get("falls", ())
    if len(falls) != len(check.scores.tokens):  # words are explained
        falls = [0.0 if each is None else -each.change for each in check.removals]
    return np.array(falls)


def agreement_sentence(
    reference: Attribution,
    others: Sequence[Attribution],
    name: str = "",
    places: Sequence[int] | None = None,
    signed: FloatArray | None = None,
) -> str:
    """Which methods rank tokens as a reference does; empty where nothing can be compared.

    ``name`` is what the reference is called, where that is not its method; ``places`` are the
    tokens that are compared, where these are not all but special ones; ``signed`` are scores with
    signs that methods which have signs are compared with.

    >>> import attnflow
    >>> given = "the keys to the cabinet", "verbs"
    >>> one = attnflow.explain(*given, method="rollout")
    >>> agreement_sentence(attnflow.explain(*given, method="flow"), [one])
    'Flow agrees with rollout (ρ .87).'
    """

    def compare(other: Attribution) -> float:
        if places is None:
            return agreement(reference, other, special=False)
        expected = signed if signed is not None and is_signed(other) else reference.values
        return spearman(*(round_scores(row[list(places)]) for row in (expected, other.values)))

    pairs = [(name_of(other), compare(other)) for other in others]
    found = sorted((pair for pair in pairs if not isnan(pair[1])), key=lambda pair: -pair[1])
    if not found:
        return ""
    parts: list[str] = []
    for words, low, high in (
        ("agrees with", AGREES, 2.0),
        ("in part with", PARTLY, AGREES),
        ("not with", -2.0, PARTLY),
    ):
        named = [(other, rho) for other, rho in found if low <= rho < high]
        if named:
            alone = {"in part with": "agrees in part with", "not with": "does not agree with"}
            verb = words if parts else alone.get(words, words)
            each = [f"{other} (ρ {correlation(rho)})" for other, rho in named]
            parts.append(f"{verb} {join_names(each, 'or' if words == 'not with' else 'and')}")
    return as_sentence(f"{name or name_of(reference)} {', '.join(parts)}")
