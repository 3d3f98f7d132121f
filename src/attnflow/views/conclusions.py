"""Last lines: which methods agree, and what a trace comes to."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

import numpy as np

from attnflow.evaluation.agreement import agreement, spearman
from attnflow.records import Attribution, FloatArray, FlowTrace
from attnflow.records.rounding import round_scores
from attnflow.views.cuts import cut_sentence
from attnflow.views.labels import distinct_labels
from attnflow.views.methods import name_of
from attnflow.views.numbers import as_sentence, correlation, join_names
from attnflow.views.routes import carried, place_of_cut

AGREES, PARTLY = 0.5, 0.2
LONGEST = 40  # cells of a label
WORTH_NAMING = 0.05  # of a flow
MOST_NAMED = 2  # tokens that it passes through


def agreement_sentence(
    reference: Attribution,
    others: Sequence[Attribution],
    name: str = "",
    places: Sequence[int] | None = None,
) -> str:
    """Which methods rank tokens as a reference does; empty where nothing can be compared.

    ``name`` is what the reference is called, where that is not its method; ``places`` are the
    tokens that are compared, where these are not all but special ones.

    >>> import attnflow
    >>> asked = "the keys to the cabinet", "verbs"
    >>> one = attnflow.explain(*asked, method="rollout")
    >>> agreement_sentence(attnflow.explain(*asked, method="flow"), [one])
    'Flow agrees with rollout (ρ .87).'
    """

    def compare(other: Attribution) -> float:
        if places is None:
            return agreement(reference, other, special=False)
        return spearman(*(round_scores(each.values[list(places)]) for each in (reference, other)))

    pairs = [(name_of(other), compare(other)) for other in others]
    found = sorted((pair for pair in pairs if not isnan(pair[1])), key=lambda pair: -pair[1])
    if not found:
        return ""
    parts: list[str] = []
    for words, low, high in (
        ("agrees with", AGREES, 2.0),
        ("in part with", PARTLY, AGREES),
        ("not with", -2.0, PARTLY),
    ):
        named = [(other, rho) for other, rho in found if low <= rho < high]
        if named:
            alone = {"in part with": "agrees in part with", "not with": "does not agree with"}
            verb = words if parts else alone.get(words, words)
            each = [f"{other} (ρ {correlation(rho)})" for other, rho in named]
            parts.append(f"{verb} {join_names(each, 'or' if words == 'not with' else 'and')}")
    return as_sentence(f"{name or name_of(reference)} {', '.join(parts)}")


def steps_between(trace: FlowTrace) -> FloatArray:
    """What each edge carries ``[step, query, key]``, without those on which it stays on a token.

    Where it never leaves its token, all of them.
    """
    same = np.eye(trace.edges.shape[-1], dtype=bool)
    between: FloatArray = np.where(same, 0.0, trace.edges)
    return between if between.any() else trace.edges


def trace_sentence(trace: FlowTrace) -> str:
    """What a trace comes to: the ways that carry it, and where it is narrow."""
    names = [f"“{name}”" for name in distinct_labels(trace.tokens, LONGEST)]
    key, query = names[trace.key], names[trace.query]
    if not trace.value:
        return f"Nothing passes from {key} to {query}."
    if trace.carries_from:
        return cut_sentence(trace, names)
    parts = []
    if not trace.routes and not trace.cut:
        edges = steps_between(trace)
        layer, to, start = np.unravel_index(int(edges.argmax()), edges.shape)
        share = float(edges.max()) / trace.value
        own = start == trace.key and to == trace.query
        ends = "is" if own else f"goes from {names[start]} to {names[to]}"
        where = f"in layer {layer + trace.to_layer + 1}"
        return f"From {key} to {query}, the step that carries most, {share:.0%}, {ends} {where}."
    if trace.routes:
        direct, through = carried(trace, MOST_NAMED)
        named = [(at, share) for at, share in through if share >= WORTH_NAMING]
        ways = [f"{share:.0%} through {names[at]}" for at, share in named]
        # What also passes the first token is counted there.
        ways[1:] = [f"another {way}" for way in ways[1:]]
        if direct >= WORTH_NAMING or not ways:
            ways.insert(0, f"{direct:.0%} goes directly")
        parts.append(f"from {key} to {query}, {join_names(ways)}")
    where = {
        "source": f"the bottleneck is at {query}: all edges into it that {key} can reach are full",
        "input": f"the bottleneck is at {key}: all edges out of it that lead to {query} are full",
        "between": "the bottleneck lies between them",
        "": "",
    }[place_of_cut(trace)]
    said = "; ".join(filter(None, [*parts, where]))
    return as_sentence(said) if said else ""
