"""The trace of one score, as the page draws it: the edges that carry it, the strongest first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnflow.pipeline.knockouts import knock_out_of, verified
from attnflow.pipeline.session import Session
from attnflow.records import FlowTrace
from attnflow.records.knockout import Edges
from attnflow.views.explorer.parts import method_id, predictions, written_labels
from attnflow.views.explorer.schema import KnockedOut, Trace
from attnflow.views.wording.numbers import as_sentence
from attnflow.views.wording.traces import Told, tell

MOST_EDGES = 1500  # more would blur a graph of 512 tokens
MOST_ROUTES = 12
NEGLIGIBLE = 1e-3  # of the value: thinner than any line


def trace_path(
    session: Session, method: str, layer: int, query: int, key: int, *, verify: bool = False
) -> Trace:
    """The trace of one score of a session; with ``verify`` its cut is removed from the model."""
    trace = session.trace(method, layer, query, key)
    found = verified(session, [trace], verify=True) if verify else [trace]
    return to_traces(found, written_labels(session.tokens.names, session.tokens))[0]


def knocked_out(session: Session, edges: Sequence[Edges], random: int) -> KnockedOut:
    """What a session's model says without all of these edges, and without as many random ones."""
    (found,) = knock_out_of(session, {"": list(edges)}, random).values()
    return {
        "removed": found.removed,
        "total": found.total,
        "target": found.target,
        "before": found.before.probability,
        "after": found.after.probability,
        "random": [each.probability for each in found.random],
        "said": predictions(found.after.prediction),
        "sentence": as_sentence(found.summary),
    }


def to_traces(traces: Sequence[FlowTrace], labels: Sequence[str]) -> list[Trace]:
    """Traces of one method as plain data, without edges too thin to be seen.

    ``labels`` are those that the page has for tokens.
    """
    if not traces:
        return []
    first = traces[0]
    name = method_id(first.method, str(first.options.get("edges", "attention")))
    return [
        _to_trace(each, name, told) for each, told in zip(traces, tell(traces, labels), strict=True)
    ]


def _to_trace(trace: FlowTrace, name: str, told: Told) -> Trace:
    everything = trace.edges > NEGLIGIBLE * abs(trace.value)
    steps, queries, keys = np.nonzero(everything if told.carrying is None else told.carrying)
    amounts = trace.edges[steps, queries, keys]
    strongest = np.argsort(-amounts, kind="stable")[:MOST_EDGES]
    found: Trace = {
        "method": name,
        "layer": trace.layer,
        "query": trace.query,
        "key": trace.key,
        "value": tidy(trace.value),
        "opposed": tidy(trace.opposed),
        "gap": tidy(trace.gap),
        "edges": [
            [int(steps[i]) + 1, int(queries[i]), int(keys[i]), tidy(amounts[i])] for i in strongest
        ],
        "all_edges": int(np.count_nonzero(everything)),
        "cut": [[edge.layer, edge.query, edge.key, tidy(edge.capacity)] for edge in told.cut],
        "all_cut": len(trace.cut),
        "routes": [
            {"positions": list(route.positions), "amount": tidy(route.amount)}
            for route in trace.routes[:MOST_ROUTES]
        ],
        "all_routes": len(trace.routes),
        "sentence": told.sentence,
    }
    if trace.knockout is not None:
        found["verified"] = as_sentence(trace.knockout.summary)
    return found


def tidy(value: float) -> float:
    """A number rounded to the digits of float32: shorter in JSON, and more than a page shows."""
    return float(f"{value:.7g}")
