"""What the methods of a session found, in words: the first thing that the page says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from attnflow.evaluation.blanking_check import check_by_blanking
from attnflow.methods import Scores
from attnflow.pipeline.choice import Shown
from attnflow.pipeline.session import Session
from attnflow.records import Attribution, FloatArray
from attnflow.views.explorer.parts import describe_findings, first_key
from attnflow.views.explorer.schema import FoundByMethod
from attnflow.views.wording.findings import find, find_each, merged_scores
from attnflow.views.wording.names import is_signed, method_info, name_of
from attnflow.views.wording.summaries import summarize


@dataclass(frozen=True)
class Found:
    """What methods found: in words, which of them agree, and the token that is traced at first."""

    findings: list[FoundByMethod]
    agreement: str
    unchecked: str
    key: int


def find_all(session: Session, methods: Sequence[Shown], blanks: int) -> Found:
    """What these methods found where the configuration asks, compared with blanking if cheap.

    Inputs of up to ``blanks`` tokens are, whatever it costs.
    """
    attributions = [of.attribution(method) for of, method in methods]
    summary = summarize(session, attributions, blank=True, tokens=blanks)
    order = summary.main.order
    main = next(each for each in attributions if name_of(each) == summary.main.name)
    if is_signed(main):  # what speaks against the answer may be what is asked for
        sizes = np.abs(merged_scores(main))
        order = tuple(sorted(order, key=lambda at: -sizes[at]))
    if session.config.words:
        order = tuple(session.groups[at][0] for at in order)
    return Found(
        describe_findings(summary.each, [(of.layer, session.query) for of in attributions]),
        summary.agreement,
        summary.unchecked,
        first_key(order, session.tokens.names, session.tokens),
    )


def has_one_row(session: Session, method: str) -> bool:
    """Whether a method has one row of scores, those of the output, and no layers."""
    return not method_info(method, session.config.rule.name).layered


def find_elsewhere(
    session: Session,
    method: str,
    layers: Sequence[int],
    queries: Sequence[int],
    values: FloatArray,
) -> list[FoundByMethod]:
    """What a method found by its scores ``[layer, query, key]``.

    Of many positions, every layer for the one that the session explains, and all at the last.
    """
    # What the model says without each word is used where it is known: this is asked for scores.
    check = check_by_blanking(session, session.size) if session.blanking.known else None
    if has_one_row(session, method):
        only = find(session.attribution(method), None, check)
        return describe_findings([only], [(session.depth, session.query)])
    breaker = method_info(method, session.config.rule.name).tie_breaker
    found = _attribution(session, method, layers, queries, values)
    ties = None
    if breaker:
        seconds = session.scores(breaker, layers, queries).values
        ties = _attribution(session, breaker, layers, queries, seconds)
    own, depth = session.query, session.depth
    places = [
        (layer, query)
        for layer, query in product(layers, queries)
        if len(queries) == 1 or query == own or layer == depth
    ]
    answer = check if (found.layer, found.query) == (depth, own) else None
    return describe_findings(find_each(found, ties, places, answer), places)


def _attribution(
    session: Session,
    method: str,
    layers: Sequence[int],
    queries: Sequence[int],
    values: FloatArray,
) -> Attribution:
    """Scores of these layers and positions, explaining the session's where it is one of them."""
    rising = tuple(sorted(set(layers)))
    return session.make_attribution(
        Scores(values[[layers.index(layer) for layer in rising]]),
        None,
        layers=rising,
        queries=tuple(queries),
        layer=rising[-1],
        query=session.query if session.query in queries else queries[0],
        method=method,
        options=session.describe(method),
    )
