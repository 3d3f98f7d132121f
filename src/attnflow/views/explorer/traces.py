"""The trace of one score, as the page draws it: the edges that carry it, the strongest first."""

from __future__ import annotations

import numpy as np

from attnflow.pipeline.session import Session
from attnflow.records import FlowTrace
from attnflow.views.explorer.schema import Trace, tidy
from attnflow.views.wording.traces import trace_sentence

MOST_EDGES = 1500  # more would blur a graph of 512 tokens
MOST_ROUTES = 12
NEGLIGIBLE = 1e-3  # of the value: thinner than any line


def trace_path(session: Session, method: str, layer: int, query: int, key: int) -> Trace:
    """The trace of one score of a session."""
    return to_trace(session.trace(method, layer, query, key))


def to_trace(trace: FlowTrace) -> Trace:
    """A trace as plain data, without edges too thin to be seen."""
    steps, queries, keys = np.nonzero(trace.edges > NEGLIGIBLE * trace.value)
    amounts = trace.edges[steps, queries, keys]
    strongest = np.argsort(-amounts, kind="stable")[:MOST_EDGES]
    return {
        "method": trace.method,
        "layer": trace.layer,
        "query": trace.query,
        "key": trace.key,
        "value": tidy(trace.value),
        "gap": tidy(trace.gap),
        "edges": [
            [int(steps[i]) + 1, int(queries[i]), int(keys[i]), tidy(amounts[i])] for i in strongest
        ],
        "all_edges": len(amounts),
        "cut": [[edge.layer, edge.query, edge.key, tidy(edge.capacity)] for edge in trace.cut],
        "routes": [
            {"positions": list(route.positions), "amount": tidy(route.amount)}
            for route in trace.routes[:MOST_ROUTES]
        ],
        "all_routes": len(trace.routes),
        "sentence": trace_sentence(trace),
    }
