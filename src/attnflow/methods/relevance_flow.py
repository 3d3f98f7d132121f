"""Flow on relevance: how much of the target's logit can have come from each input token.

An edge's capacity is the relevance that passed over it. The maximum flow over what speaks for the
target, less the maximum flow over what speaks against it, is a token's score: signed, in logits.
A token keeps what it has, so that flow passes from a position to itself without limit.

The target is read at some positions of the top layer, and flow starts at all of them. From such a
position to its own token nothing limits the flow; its score is what arrived there (its layer-wise
relevance), and other tokens of a group with it have the flow to them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnflow.errors import InputError
from attnflow.methods.method import Scores, merge_statistics
from attnflow.records import (
    Array,
    Edge,
    FlowTrace,
    LayeredGraph,
    Pair,
    Relevances,
    Route,
    Selection,
)
from attnflow.records.arrays import on_cpu, to_numpy
from attnflow.solvers.execution import Execution
from attnflow.solvers.temporal import TemporalNetwork, prepare

if TYPE_CHECKING:
    from attnflow.solvers.bounded import BoundedNetwork

FOR, AGAINST = 1.0, -1.0
LARGE = 1 << 27  # bytes of relevance; less is solved exactly on the CPU


def score(
    graph: LayeredGraph, relevance: Relevances, selection: Selection, execution: Execution
) -> Scores:
    """For minus against, ``[1, query, key]``: the target is one, whichever position is asked."""
    check_start(graph, relevance, selection.layers, selection.queries)
    sources = read_at(relevance, selection.queries)
    groups = selection.groups or tuple((key,) for key in range(graph.size))
    asked = [groups[key] for key in selection.keys]
    taken = frozenset(sources)
    others = [
        group if taken.isdisjoint(group) else tuple(sorted(set(group) - taken)) for group in asked
    ]
    places = [place for place, group in enumerate(others) if group]
    values = np.zeros(len(asked))
    statistics = []
    bounded = stays_on_device(graph)
    made = _bounded if bounded else _network
    for sign in (FOR, AGAINST):
        if places:
            network = made(graph, sources, sign, selection.to_layer)
            found = network.solve([others[place] for place in places], execution)
            # Of two bounds the upper one, a cut, is mostly the maximum.
            values[places] += sign * (found.upper if bounded else found.values)
            statistics.append(found.statistics)
    own = to_numpy(arrived(relevance, selection.to_layer))
    for place, group in enumerate(asked):
        if not taken.isdisjoint(group):
            values[place] += sum(float(own[at]) for at in set(group) & taken)
    shape = (1, len(selection.queries), len(asked))
    return Scores(np.broadcast_to(values, shape).copy(), merge_statistics(statistics))


def trace(graph: LayeredGraph, relevance: Relevances, pair: Pair) -> FlowTrace:
    """One flow in full: what speaks for the target, or against it where that is more."""
    check_start(graph, relevance, (pair.layer,), (pair.query,))
    sources, size = read_at(relevance, (pair.query,)), graph.size
    if len(sources) == size:
        msg = (
            f"the target is read at all {size} positions, and routes start at those where it "
            "is read: give one with query= (--query) and edges='attention'"
        )
        raise InputError(msg)
    if pair.key in sources:
        msg = (
            f"the target is read at position {pair.key} itself, and what it keeps takes no routes: "
            "trace another token"
        )
        raise InputError(msg)
    flows = {
        sign: _network(graph, sources, sign, pair.to_layer).solve_value(pair.key)
        for sign in (FOR, AGAINST)
    }
    sign = max(flows, key=lambda each: flows[each].value)
    found = flows[sign].in_full()
    assert found.carries_from is not None  # columns are free
    edges = found.edges.dense(pair.layer - pair.to_layer, size)
    return FlowTrace.of(
        pair,
        sign * found.value,
        edges,
        cut=tuple(
            Edge(int(layer) + pair.to_layer, int(query), int(key), float(amount))
            for layer, query, key, amount in zip(*found.cut, strict=True)
        ),
        gap=found.gap,
        routes=tuple(Route(path, amount) for path, amount in found.routes),
        method="flow",
        sources=sources,
        opposed=flows[-sign].value,
        carries_from=tuple(int(each) + pair.to_layer for each in found.carries_from),
    )


def read_at(relevance: Relevances, queries: Sequence[int]) -> tuple[int, ...]:
    """The positions of the top layer where the target is read."""
    return relevance.read_at or tuple(queries)


def check_start(
    graph: LayeredGraph, relevance: Relevances, layers: Sequence[int], queries: Sequence[int]
) -> None:
    """Refuse scores that start elsewhere than at the target, and those of single heads."""
    depth = graph.depth
    if tuple(layers) != (depth,):
        msg = (
            f"relevance starts at the target, above layer {depth}; what starts at layers "
            f"{list(layers)} is not known. Leave layer and layers out, or use method='raw'"
        )
        raise InputError(msg)
    if graph.heads is not None:
        msg = "all heads of edges='relevance' are added up here; leave heads='each' out"
        raise InputError(msg)
    if relevance.read_at and set(relevance.read_at).isdisjoint(queries):
        read = ", ".join(map(str, relevance.read_at[:5]))
        msg = (
            f"the target is read at position {read}, and not at {list(queries)}: relevance starts "
            "where it is read; leave query out"
        )
        raise InputError(msg)


def arrived(relevance: Relevances, to_layer: int) -> Array:
    """What arrives from the target at each position of a layer, over all paths."""
    if not to_layer:
        return relevance.inputs
    if relevance.streams is None:
        msg = f"the relevance of layer {to_layer} is not known: the model's layers were not found"
        raise InputError(msg)
    return relevance.streams[to_layer]


def _network(
    graph: LayeredGraph, sources: tuple[int, ...], sign: float, to_layer: int
) -> TemporalNetwork:
    """What passed for the target, or against it, ready to be solved; made once."""
    key = ("flow", sources, sign, to_layer)
    if key not in graph.cache:
        weights = to_numpy(graph.weights[to_layer:])
        graph.cache[key] = prepare(np.maximum(sign * weights, 0.0), sources)
    network: TemporalNetwork = graph.cache[key]
    return network


def stays_on_device(graph: LayeredGraph) -> bool:
    """Whether flow is bounded where the relevance is: it is large, and not where NumPy is."""
    if graph.relevance is None or on_cpu(graph.made[0]):
        return False
    return int(graph.weights.nbytes) > LARGE


def _bounded(
    graph: LayeredGraph, sources: tuple[int, ...], sign: float, to_layer: int
) -> BoundedNetwork:
    """The same, where the relevance is; made once."""
    from attnflow.solvers.bounded import BoundedNetwork  # importing torch is slow

    key = ("bounded flow", sources, sign, to_layer)
    if key not in graph.cache:
        graph.cache[key] = BoundedNetwork(
            graph.made[to_layer:], sources, sign, without_first=graph.without_first
        )
    network: BoundedNetwork = graph.cache[key]
    return network
