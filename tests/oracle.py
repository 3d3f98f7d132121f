"""Slow, obvious definitions that judge the fast paths."""

from __future__ import annotations

import networkx as nx
import numpy as np


def edges(attention, residual=0.5):
    """A = (1 − r)·mean over heads of W + r·I, written out."""
    fused = np.asarray(attention, dtype=np.float64)
    if fused.ndim == 4:
        fused = fused.mean(axis=1)
    mixed = (1 - residual) * fused + residual * np.eye(fused.shape[-1])
    return mixed / mixed.sum(axis=-1, keepdims=True)


def rollout(weights, layer, to_layer=0):
    rolled = np.eye(weights.shape[-1])
    for step in range(to_layer, layer):
        rolled = weights[step] @ rolled
    return rolled


def network(weights):
    """The explicit graph: nodes are (layer, position)."""
    graph = nx.DiGraph()
    for (step, query, key), weight in np.ndenumerate(weights):
        if weight > 0:
            graph.add_edge((step + 1, query), (step, key), capacity=float(weight))
    return graph


def max_flow(weights, layer, query, key, to_layer=0):
    graph = network(weights)
    source, sink = (layer, query), (to_layer, key)
    if source not in graph or sink not in graph:
        return 0.0
    return nx.maximum_flow_value(graph, source, sink, flow_func=nx.algorithms.flow.edmonds_karp)


def linear_program(weights, layer, query, key):
    """The same maximum as a linear program, solved by HiGHS."""
    from scipy.optimize import linprog

    arcs = [(step, i, j) for (step, i, j), w in np.ndenumerate(weights[:layer]) if w > 0]
    inner = [(at, i) for at in range(1, layer) for i in range(weights.shape[-1])]
    row = {node: number for number, node in enumerate(inner)}
    balance = np.zeros((len(inner), len(arcs)))
    gain = np.zeros(len(arcs))
    for column, (step, i, j) in enumerate(arcs):
        if (step + 1, i) in row:
            balance[row[step + 1, i], column] -= 1
        if (step, j) in row:
            balance[row[step, j], column] += 1
        elif (step, j) == (0, key):
            gain[column] = -1
    bounds = [
        (0, 0 if step + 1 == layer and i != query else weights[step, i, j]) for step, i, j in arcs
    ]
    limits = {} if not inner else {"A_eq": balance, "b_eq": np.zeros(len(inner))}
    exact = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return -linprog(gain, bounds=bounds, method="highs", options=exact, **limits).fun
