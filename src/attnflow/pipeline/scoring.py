"""Scores of a session's graph for any selection, long work in short pieces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from attnflow.methods import Scores, find_edge_method
from attnflow.methods.method import merge_statistics
from attnflow.records import LayeredGraph, Selection
from attnflow.records.arrays import ratio, to_numpy

if TYPE_CHECKING:
    from attnflow.pipeline.measured import Check
    from attnflow.pipeline.session import Session

PIECE = 10**8  # edges that flow passes between two calls of a check: some tenths of a second


def score(
    session: Session, method: str, selection: Selection, *, each_head: bool, check: Check | None
) -> Scores:
    """``[layer, query, key]``, or ``[layer, head, query, key]`` with ``each_head``.

    ``check`` is called before each piece of work.
    """
    count = len(selection.keys)
    whole = check is None or find_edge_method(method).cost != "pair"
    sources = len(selection.layers) * len(selection.queries) * (session.heads if each_head else 1)
    most = count if whole else _keys_per_piece(session, sources)
    parts = []
    for start in range(0, count, most):
        if check is not None:
            check()
        piece = replace(selection, keys=selection.keys[start : start + most])
        parts.append(_solve(session, method, piece, each_head=each_head))
    values = np.concatenate([part.values for part in parts], axis=-1)  # never the graph itself
    statistics = merge_statistics([part.statistics for part in parts])
    graph = session.graph(method, each_head=each_head)
    return Scores(values, {**graph.statistics, **statistics})


def _solve(session: Session, method: str, selection: Selection, *, each_head: bool) -> Scores:
    execution, member = session.config.execution, find_edge_method(method)

    def solve(graph: LayeredGraph) -> Scores:
        return member.apply(graph, selection, execution)

    return corrected(session, method, solve, each_head=each_head)


def corrected(
    session: Session,
    method: str,
    solve: Callable[[LayeredGraph], Scores],
    *,
    each_head: bool = False,
) -> Scores:
    """What ``solve`` makes of a method's graph; under ``"uniform"``, against that of chance."""
    scores = solve(session.graph(method, each_head=each_head))
    values = to_numpy(scores.values)
    if session.correction(method) == "uniform":
        even = solve(session.graph(method, each_head=each_head, chance=True))
        values = ratio(values, to_numpy(even.values))
    return Scores(values, scores.statistics)


def _keys_per_piece(session: Session, sources: int) -> int:
    """How many keys make a short piece of work, whatever the size."""
    edges = len(session.activations.attention) * session.size**2
    return max(1, PIECE // (sources * edges))
