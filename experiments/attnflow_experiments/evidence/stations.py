"""Flow on relevance whose columns are limited: the method `stations`, for comparison with `flow`.

In `flow` a token keeps what it has, and its column is free. Here what passes a position of the
layers in between is limited by the relevance of its residual stream there.
"""

from __future__ import annotations

import numpy as np

from attnflow.errors import InputError
from attnflow.methods import METHODS
from attnflow.methods.method import Method, Scores
from attnflow.methods.relevance_flow import AGAINST, FOR, arrived, read_at
from attnflow.records import LayeredGraph, Selection
from attnflow.records.arrays import to_numpy
from attnflow.solvers.execution import Execution
from attnflow.solvers.temporal import prepare


def score(graph: LayeredGraph, selection: Selection, execution: Execution) -> Scores:
    """For minus against, ``[1, query, key]``, of single tokens or of groups."""
    relevance = graph.relevance
    if relevance is None or relevance.streams is None:
        msg = "method='stations' needs edges='relevance' and the relevance of every layer"
        raise InputError(msg)
    sources = read_at(relevance, selection.queries)
    groups = selection.groups or tuple((key,) for key in range(graph.size))
    asked = [groups[key] for key in selection.keys]
    others = [tuple(sorted(set(group) - set(sources))) for group in asked]
    places = [place for place, group in enumerate(others) if group]
    own = to_numpy(arrived(relevance, 0))
    values = np.array([sum(own[at] for at in set(group) & set(sources)) for group in asked], float)
    weights, streams = to_numpy(graph.weights), to_numpy(relevance.streams).astype(float)
    for sign in (FOR, AGAINST):
        limits = np.maximum(sign * streams[1:-1], 0.0)
        network = prepare(np.maximum(sign * weights, 0.0), sources, limits)
        values[places] += sign * network.solve([others[at] for at in places], execution).values
    shape = (1, len(selection.queries), len(asked))
    return Scores(np.broadcast_to(values, shape).copy())


MEMBER = Method(
    name="stations",
    title="Flow with stations",
    summary="Flow on relevance, limited by the relevance of the streams that it passes.",
    score=score,
    amounts="conserved",
    cost="pair",
    edges="relevance",
    shown_by_default=False,
)


def register() -> None:
    """Make the method known, once."""
    if MEMBER.name not in METHODS:
        METHODS.register(MEMBER)
