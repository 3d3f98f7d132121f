"""How one score came about, as the page draws it: what carried it, the strongest edges first."""

from __future__ import annotations

import numpy as np

from attnflow.pipeline.session import Session
from attnflow.records import FlowTrace
from attnflow.views.explorer.schema import Trace, tidy

MOST_EDGES = 1500  # what a graph of 512 tokens still shows as lines
MOST_ROUTES = 12
NEGLIGIBLE = 1e-3  # of the value: thinner than any line


def trace_path(session: Session, method: str, layer: int, query: int, key: int) -> Trace:
    """The trace of one score of a session."""
    return to_trace(session.trace(method, layer, query, key))


def to_trace(found: FlowTrace) -> Trace:
    """A trace as plain data, without what can't be seen."""
    steps, queries, keys = np.nonzero(found.edges > NEGLIGIBLE * found.value)
    amounts = found.edges[steps, queries, keys]
    strongest = np.argsort(-amounts, kind="stable")[:MOST_EDGES]
    return {
        "method": found.method,
        "layer": found.layer,
        "query": found.query,
        "key": found.key,
        "value": tidy(found.value),
        "gap": tidy(found.gap),
        "edges": [
            [int(steps[i]) + 1, int(queries[i]), int(keys[i]), tidy(amounts[i])] for i in strongest
        ],
        "all_edges": len(amounts),
        "cut": [[edge.layer, edge.query, edge.key, tidy(edge.capacity)] for edge in found.cut],
        "routes": [
            {"positions": list(route.positions), "amount": tidy(route.amount)}
            for route in found.routes[:MOST_ROUTES]
        ],
        "all_routes": len(found.routes),
    }
