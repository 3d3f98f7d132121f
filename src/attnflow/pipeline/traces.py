"""How one score of a session came about, with all that is known of the input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from attnflow.methods import find_trace
from attnflow.pipeline.source import LOGIT
from attnflow.records import FlowTrace, Pair
from attnflow.records.selection import resolve

if TYPE_CHECKING:
    from attnflow.pipeline.session import Session


def trace_score(session: Session, method: str, layer: int, query: int, key: int) -> FlowTrace:
    """How much a method carried over which edges.

    The correction ``"uniform"`` divides scores by those of chance and changes no edge: there a
    trace has the value before the division.
    """
    session.check()
    trace_of = find_trace(method)
    source = resolve("query", query, 0, session.size - 1, session.size)
    sink = resolve("key", key, 0, session.size - 1, session.size)
    names, graph = session.tokens.names, None
    if session.config.source == LOGIT:  # which is one more position
        graph, source = session.logit_graph(method), session.size
        names = (*names, f"logit of {session.named_objective['target']}")
    pair = Pair(session.step(layer), source, sink)
    trace = trace_of(graph or session.graph(method), pair)
    return replace(
        trace,
        layer=resolve("layer", layer, 1, session.depth, session.depth + 1),
        tokens=names,
        text=session.tokens.text,
        model=session.adapter.name,
        prediction=session.prediction,
        causal=session.causal,
        options=session.describe(method),
        warnings=session.warnings,
    )
