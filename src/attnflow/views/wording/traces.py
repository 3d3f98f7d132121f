"""What a trace comes to, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnflow.records import FloatArray, FlowTrace
from attnflow.views.routes import carried, place_of_cut
from attnflow.views.wording.cuts import cut_sentence
from attnflow.views.wording.labels import LONGEST, distinct_labels
from attnflow.views.wording.numbers import as_sentence, join_names, share

WORTH_NAMING = 0.05  # of a flow
MOST_NAMED = 2  # tokens that it passes through


def steps_between(trace: FlowTrace) -> FloatArray:
    """What each edge carries ``[step, query, key]``, without those on which it stays on a token.

    Where it never leaves its token, all of them.
    """
    same = np.eye(trace.edges.shape[-1], dtype=bool)
    between: FloatArray = np.where(same, 0.0, trace.edges)
    return between if between.any() else trace.edges


def trace_names(trace: FlowTrace) -> list[str]:
    """The names of its tokens, in quotation marks."""
    return [f"“{name}”" for name in distinct_labels(trace.tokens, LONGEST)]


def trace_sentence(trace: FlowTrace, names: Sequence[str] = ()) -> str:
    """What a trace comes to: the ways that carry it, and where it is narrow.

    ``names`` are its `trace_names`, which many traces share.
    """
    names = list(names) or trace_names(trace)
    key, query = names[trace.key], names[trace.query]
    if not trace.value and trace.key == 0 and trace.options.get("correction") == "sink":
        return f"{key}, the first token, is left out (correction sink), so nothing is traced to it."
    if not trace.value:
        return f"Nothing passes from {key} to {query}."
    if trace.carries_from:
        return cut_sentence(trace, names)
    parts = []
    if not trace.routes and not trace.cut:
        edges = steps_between(trace)
        layer, to, start = np.unravel_index(int(edges.argmax()), edges.shape)
        carries = share(float(edges.max()) / trace.value)
        own = start == trace.key and to == trace.query
        ends = "is" if own else f"goes from {names[start]} to {names[to]}"
        where = f"in layer {layer + trace.to_layer + 1}"
        return f"From {key} to {query}, the step that carries most, {carries}, {ends} {where}."
    if trace.routes:
        direct, through = carried(trace, MOST_NAMED)
        named = [(at, part) for at, part in through if part >= WORTH_NAMING]
        ways = [f"{share(part)} through {names[at]}" for at, part in named]
        # What also passes the first token is counted there.
        ways[1:] = [f"another {way}" for way in ways[1:]]
        if direct >= WORTH_NAMING or not ways:
            ways.insert(0, f"{share(direct)} goes directly")
        parts.append(f"from {key} to {query}, {join_names(ways)}")
    where = {
        "source": f"the bottleneck is at {query}: all edges into it that {key} can reach are full",
        "input": f"the bottleneck is at {key}: all edges out of it that lead to {query} are full",
        "between": "the bottleneck lies between them",
        "": "",
    }[place_of_cut(trace)]
    sentence = "; ".join(filter(None, [*parts, where]))
    return as_sentence(sentence) if sentence else ""
