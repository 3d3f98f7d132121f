"""What the methods of a session found, in words: the first thing that the page says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnflow.evaluation.blanking_check import check_by_blanking
from attnflow.methods import METHODS, Scores
from attnflow.pipeline.session import Session
from attnflow.records import Attribution, FloatArray
from attnflow.views.explorer.parts import describe_finding, first_key
from attnflow.views.explorer.schema import FoundByMethod
from attnflow.views.findings import find
from attnflow.views.methods import method_info
from attnflow.views.summary import summarize


@dataclass(frozen=True)
class Found:
    """What methods found: in words, which of them agree, and the token that is traced at first."""

    findings: list[FoundByMethod]
    agreement: str
    unchecked: str
    key: int


def find_all(session: Session, methods: Sequence[str], blanks: int) -> Found:
    """What these methods found where the configuration asks, compared with blanking if cheap.

    Inputs of up to ``blanks`` tokens are, whatever it costs.
    """
    attributions = [session.attribution(method) for method in methods]
    summary = summarize(session, attributions, blank=True, tokens=blanks)
    order = summary.main.order
    if session.config.words:
        order = tuple(session.groups[at][0] for at in order)
    return Found(
        [
            describe_finding(found, of.layer, session.query)
            for found, of in zip(summary.each, attributions, strict=True)
        ],
        summary.agreement,
        summary.unchecked,
        first_key(order, session.tokens.names, session.tokens),
    )


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
    if not METHODS[method].reads_edges:
        found = find(session.attribution(method), None, check)
        return [describe_finding(found, session.depth, session.query)]
    breaker = method_info(method).tie_breaker
    seconds = session.scores(breaker, layers, queries).values if breaker else None
    said = []
    for place in np.ndindex(*values.shape[:2]):
        layer, query = layers[place[0]], queries[place[1]]
        if len(queries) > 1 and query != session.query and layer != session.depth:
            continue
        of = _attribution(session, method, layer, query, values[place])
        ties = None
        if seconds is not None:
            ties = _attribution(session, breaker, layer, query, seconds[place])
        answer = layer == session.depth and query == session.query
        said.append(describe_finding(find(of, ties, check if answer else None), layer, query))
    return said


def _attribution(
    session: Session, method: str, layer: int, query: int, row: FloatArray
) -> Attribution:
    asked = {} if query == session.query else {"query": query}
    return session.make_attribution(
        Scores(row[None, None]),
        None,
        layers=(layer,),
        queries=(query,),
        layer=layer,
        query=query,
        method=method,
        options={**session.describe(method), **asked},
    )
