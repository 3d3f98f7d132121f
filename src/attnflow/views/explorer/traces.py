"""How one score came about: the edges that carried it from the position asked about to a token.

Flow has a maximum flow with its routes and its bottleneck; rollout is the share of all walks that
end at the token; raw attention is one edge.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnflow.api.trace import trace_graph
from attnflow.pipeline.session import Session
from attnflow.records import FloatArray
from attnflow.views.explorer.schema import Trace, tidy

MOST_EDGES = 1500  # what a graph of 512 tokens still shows as lines
MOST_ROUTES = 12
NEGLIGIBLE = 1e-3  # of the value: thinner than any line


def trace_path(study: Session, method: str, layer: int, query: int, key: int) -> Trace:
    """The edges that carried the score of one token, the strongest first."""
    step = study.require_pair(method, layer, query, key)
    if method == "flow":
        return _flow(study, layer, step, query, key)
    if method == "rollout":
        carried = carried_by_rollout(study.graph.weights[:step], query, key)
        value = float(carried[0].sum())
    else:
        value = float(study.scores("raw", [layer], [query])[0, 0, key])
        carried = np.zeros((step, study.size, study.size))
        carried[step - 1, query, key] = value
    return _trace(method, (layer, query, key), value, carried)


def carried_by_rollout(weights: FloatArray, query: int, key: int) -> FloatArray:
    """The share of walks from ``query`` to ``key`` over every edge, ``[step, query, key]``.

    The edges of each step sum to the rollout from ``query`` to ``key``.
    """
    depth, size = weights.shape[:2]
    reach = np.zeros((depth + 1, size))  # of each node, the share of its walks that end at the key
    reach[0, key] = 1.0
    for step in range(depth):
        reach[step + 1] = weights[step] @ reach[step]
    carried = np.zeros_like(weights)
    arrived = np.zeros(size)
    arrived[query] = 1.0
    for step in reversed(range(depth)):
        carried[step] = arrived[:, None] * weights[step] * reach[step]
        arrived = arrived @ weights[step]
    return carried


def _flow(study: Session, layer: int, step: int, query: int, key: int) -> Trace:
    found = trace_graph(study.graph, step, query, key)
    drawn = _trace("flow", (layer, query, key), found.value, found.edges)
    return {
        **drawn,
        "gap": tidy(found.gap),
        "cut": [[edge.layer, edge.query, edge.key, tidy(edge.capacity)] for edge in found.cut],
        "routes": [
            {"positions": list(route.positions), "amount": tidy(route.amount)}
            for route in found.routes[:MOST_ROUTES]
        ],
        "all_routes": len(found.routes),
    }


def _trace(method: str, pair: Sequence[int], value: float, carried: FloatArray) -> Trace:
    steps, queries, keys = np.nonzero(carried > NEGLIGIBLE * value)
    amounts = carried[steps, queries, keys]
    strongest = np.argsort(-amounts, kind="stable")[:MOST_EDGES]
    layer, query, key = pair
    return {
        "method": method,
        "layer": layer,
        "query": query,
        "key": key,
        "value": tidy(value),
        "gap": 0.0,
        "edges": [
            [int(steps[i]) + 1, int(queries[i]), int(keys[i]), tidy(amounts[i])] for i in strongest
        ],
        "all_edges": len(amounts),
        "cut": [],
        "routes": [],
        "all_routes": 0,
    }
