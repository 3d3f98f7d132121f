"""The record of a session's scores, with all that is known of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.methods import Method, Scores, find_edge_method
from attnflow.methods.question import no_progress
from attnflow.pipeline.measured import Advance, describe_measured, find_measure
from attnflow.pipeline.source import LOGIT
from attnflow.records import Attribution, FloatArray, Selection
from attnflow.records.arrays import ratio, to_numpy
from attnflow.records.selection import Groups
from attnflow.records.words import merge_words

if TYPE_CHECKING:
    from attnflow.pipeline.session import Session


def attribute(
    session: Session,
    method: str | None = None,
    advance: Advance = no_progress,
    *,
    only_asked: bool = False,
) -> Attribution:
    """The scores that the configuration selects, of its method or another.

    ``advance`` is called with the share of the work that is done, where it may take long. Where
    scores of all positions come at once they are all kept, unless ``only_asked``.
    """
    config = session.config
    method = config.method if method is None else method
    session.check()
    measure = find_measure(method)
    if measure is not None:
        return _measured_attribution(session, measure, advance)
    groups = session.groups if config.words else None
    if config.source == LOGIT:
        return _logit_attribution(session, method, groups)
    layers, layer = config.resolve_layers(session.depth)
    if session.starts_at_target(method):
        layers = (layer,)
    at_once = find_edge_method(method).cost == "matrix" and not only_asked
    alone = session.towards_query or session.starts_at_target(method)
    everywhere = config.query == "all" or (at_once and not alone)
    queries = tuple(range(session.size)) if everywhere else _explained(session, groups)
    each = config.heads == "each"
    scores = session.scores(method, layers, queries, words=config.words, each_head=each)
    return make_attribution(
        session,
        scores,
        groups,
        layers=layers,
        queries=queries,
        layer=layer,
        query=session.query,
        pooled=session.forward.pooled,
        method=method,
        options=session.describe(method),
    )


def logit_scores(session: Session, method: str, groups: Groups | None) -> Scores:
    """The scores from the target's logit, ``[layer, query, key]`` of one layer and position."""
    parts, member = session.logit_parts, find_edge_method(method)
    graph = session.logit_graph(method)
    keys = range(session.size if groups is None else len(groups))
    selection = Selection((graph.depth,), (session.size,), tuple(keys), groups=groups)
    scores = member.apply(graph, selection, session.config.execution)
    statistics = {**graph.statistics, **scores.statistics, **parts.statistics}
    return Scores(np.array(to_numpy(scores.values)), statistics)


def _logit_attribution(session: Session, method: str, groups: Groups | None) -> Attribution:
    position = session.logit_parts.position
    return make_attribution(
        session,
        logit_scores(session, method, groups),
        groups,
        layers=(session.depth,),
        queries=(position,),
        layer=session.depth,
        query=position,
        method=method,
        options=session.describe(method),
    )


def _measured_attribution(session: Session, measure: Method, advance: Advance) -> Attribution:
    found = session.measured(measure, words=session.config.words, advance=advance)
    return make_attribution(
        session,
        Scores(found.values[None, None], found.statistics),
        session.groups if session.config.words else None,
        layers=(session.depth,),
        queries=(session.target.position,),
        layer=session.depth,
        query=session.target.position,
        method=measure.name,
        options=describe_measured(session),
    )


def make_attribution(
    session: Session, scores: Scores, groups: Groups | None, **parts: Any
) -> Attribution:
    """The record of scores ``[layer, query, key]``."""
    values, tokens = scores.values, session.tokens
    if session.config.normalize:
        values = ratio(values, values.sum(-1, keepdims=True))
    read: dict[str, Any] = {} if tokens.answer is None else {"answer": tokens.answer}
    if tokens.pair is not None:
        read["pair"] = list(tokens.pair)
    model = {**session.adapter.description, "causal": session.causal}
    warnings = {"warnings": list(session.warnings)} if session.warnings else {}
    attribution = Attribution(
        **{**parts, "options": parts["options"] | read},
        tokens=tokens.names,
        scores=values if groups is None else _spread(values, groups),
        depth=session.depth,
        model=session.adapter.name,
        text=tokens.text,
        prediction=session.prediction,
        statistics={**scores.statistics, "model": model, **warnings},
        word_ids=tokens.word_ids,
        word_texts=tokens.word_texts,
        segments=tokens.segments,
        grid=tokens.grid,
    )
    return attribution if groups is None else merge_words(attribution, values)


def _explained(session: Session, groups: Groups | None) -> tuple[int, ...]:
    """The positions that are explained; with words, all tokens of their words."""
    asked = session.forward.pooled or (session.query,)
    if groups is None:
        return tuple(sorted(asked))
    return tuple(at for group in groups if not set(asked).isdisjoint(group) for at in group)


def _spread(scores: FloatArray, groups: Groups) -> FloatArray:
    """Every token with its word's score."""
    return np.repeat(scores, [len(group) for group in groups], axis=-1)
