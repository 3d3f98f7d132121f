"""Flow on relevance by its definition: the explicit graph, and all cuts of small ones."""

from __future__ import annotations

from itertools import product

import networkx as nx
import numpy as np


def explicit_graph(capacities, sources, sinks, stations=None):
    """Every node, in two halves, and every edge; those without a capacity have no limit."""
    depth, size, _ = capacities.shape
    graph = nx.DiGraph()
    graph.add_nodes_from(["source", "sink"])
    for layer in range(depth + 1):
        for i in range(size):
            limit = {}
            if stations is not None and 0 < layer < depth:
                limit = {"capacity": stations[layer - 1][i]}
            graph.add_edge((layer, i, "in"), (layer, i, "out"), **limit)
            if layer:
                graph.add_edge((layer, i, "out"), (layer - 1, i, "in"))
                for j in range(size):
                    if i != j and capacities[layer - 1, i, j] > 0:
                        capacity = capacities[layer - 1, i, j]
                        graph.add_edge((layer, i, "out"), (layer - 1, j, "in"), capacity=capacity)
    for i in sources:
        graph.add_edge("source", (depth, i, "in"))
    for j in sinks:
        graph.add_edge((0, j, "out"), "sink")
    return graph


def max_flow(capacities, sources, sinks, stations=None):
    """By networkx; integers of any size are exact."""
    graph = explicit_graph(capacities, sources, sinks, stations)
    method = nx.algorithms.flow.edmonds_karp
    try:
        return nx.maximum_flow_value(graph, "source", "sink", flow_func=method)
    except nx.NetworkXUnbounded:
        return np.inf


def scipy_max_flow(capacities, sources, sinks, stations=None):
    """By SciPy, of capacities that are small integers."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    graph = explicit_graph(capacities, sources, sinks, stations)
    number = {node: at for at, node in enumerate(graph)}
    arcs = [
        (number[a], number[b], data.get("capacity", 2**30)) for a, b, data in graph.edges.data()
    ]
    tails, heads, limits = (np.array(each, np.int32) for each in zip(*arcs, strict=True))
    matrix = csr_array((limits, (tails, heads)), shape=(len(number),) * 2)
    return maximum_flow(matrix, number["source"], number["sink"]).flow_value


def cuts(capacities, sources, sinks):
    """Every cut of free columns, by the layer from which on each position is on the sinks' side."""
    depth, size, _ = capacities.shape
    others = [i for i in range(size) if i not in sources and i not in sinks]
    for layers in product(range(1, depth + 1), repeat=len(others)):
        first = np.full(size, depth + 1)
        first[sinks] = 0
        first[others] = layers
        yield (
            first,
            sum(
                float(capacities[layer - 1, i, j])
                for layer in range(1, depth + 1)
                for i in range(size)
                for j in range(size)
                if i != j and first[j] < layer < first[i]
            ),
        )


def reached(capacities, sources):
    """Which nodes the sources reach at all, ``[layer, position]``, with free columns."""
    depth, size, _ = capacities.shape
    found = np.zeros((depth + 1, size), bool)
    found[depth, sources] = True
    for layer in range(depth, 0, -1):
        found[layer - 1] = found[layer]
        for i in np.flatnonzero(found[layer]):
            found[layer - 1] |= capacities[layer - 1, i] > 0
    return found


def only_what_leads_to_sinks(capacities, sources, first):
    """A cut's first layers, without nodes that nothing reaches or that lead to no sink there."""
    depth, size, _ = capacities.shape
    usable = reached(capacities, sources) & (np.arange(depth + 1)[:, None] >= first)
    leading = np.zeros((depth + 1, size), bool)
    leading[:, first == 0] = True
    for layer in range(1, depth):
        for i in np.flatnonzero(usable[layer] & (first > 0)):
            below = leading[layer - 1] & ((capacities[layer - 1, i] > 0) | (np.arange(size) == i))
            leading[layer, i] = below.any()
    return np.where(leading.any(0), leading.argmax(0), depth + 1)


def smallest_cut_with_stations(capacities, sources, sinks, stations):
    """The smallest of all cuts, each half of every inner node on either side."""
    depth, size, _ = capacities.shape
    inner = [(layer, i) for layer in range(1, depth) for i in range(size)]
    smallest = np.inf
    for sides in product((False, True), repeat=2 * len(inner)):
        enters, leaves = {}, {}  # whether a half is on the sinks' side
        for at, node in enumerate(inner):
            enters[node], leaves[node] = sides[2 * at], sides[2 * at + 1]
        for i in range(size):
            leaves[depth, i] = i not in sources  # nothing else is reached in the top layer
            enters[0, i] = i in sinks
        total = sum(
            float(stations[layer - 1][i])
            for layer, i in inner
            if leaves[layer, i] and not enters[layer, i]
        )
        for layer in range(1, depth + 1):
            for i in range(size):
                for j in range(size):
                    if not leaves[layer, i] and enters[layer - 1, j]:
                        total += np.inf if i == j else float(capacities[layer - 1, i, j])
        smallest = min(smallest, total)
    return smallest
