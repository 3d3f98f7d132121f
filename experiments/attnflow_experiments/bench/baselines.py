"""Maximum-flow libraries as baselines, each given the same pairs on the same graph.

Only solving is timed: every library may build its graph beforehand, once per layer.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.records import FloatArray

Pair = tuple[int, int, int]
"""Layer, query, key."""
Solver = Callable[[int, int], float]
"""(source node, sink node) → maximum flow."""

SCALE_32, SCALE_64 = 2**29, 2**50
"""Factors for integer capacities: a flow, at most 1 times the factor, must fit the type."""


@dataclass(frozen=True)
class Baseline:
    """A library: its name, the package that it needs, and its solver for one graph."""

    name: str
    package: str
    prepare: Callable[[FloatArray], Solver]

    @property
    def available(self) -> bool:
        """Whether its package is installed."""
        return importlib.util.find_spec(self.package) is not None

    def run(self, weights: FloatArray, pairs: Sequence[Pair]) -> tuple[float, list[float]]:
        """Solve the pairs; return the seconds taken and the values."""
        size = weights.shape[-1]
        solvers = {layer: self.prepare(weights[:layer]) for layer in {pair[0] for pair in pairs}}
        start = time.process_time()
        values = [solvers[layer](layer * size + query, key) for layer, query, key in pairs]
        return time.process_time() - start, values


def _arcs(weights: FloatArray) -> tuple[Any, Any, FloatArray]:
    """Tails, heads and capacities; node (layer, position) is number layer · size + position."""
    layers, queries, keys = np.nonzero(weights)
    size = weights.shape[-1]
    return (layers + 1) * size + queries, layers * size + keys, weights[layers, queries, keys]


def _scipy(weights: FloatArray) -> Solver:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    tails, heads, capacities = _arcs(weights)
    nodes = (len(weights) + 1) * weights.shape[-1]
    integers = np.round(capacities * SCALE_32).astype(np.int32)
    graph = csr_array((integers, (tails, heads)), shape=(nodes, nodes))
    return lambda source, sink: maximum_flow(graph, source, sink).flow_value / SCALE_32


def _ortools(weights: FloatArray) -> Solver:
    from ortools.graph.python import max_flow

    tails, heads, capacities = _arcs(weights)
    solver = max_flow.SimpleMaxFlow()
    integers = np.round(capacities * SCALE_64).astype(np.int64)
    solver.add_arcs_with_capacity(tails.astype(np.int32), heads.astype(np.int32), integers)

    def solve(source: int, sink: int) -> float:
        solver.solve(source, sink)
        return float(solver.optimal_flow()) / SCALE_64

    return solve


def _igraph(weights: FloatArray) -> Solver:
    import igraph

    tails, heads, capacities = _arcs(weights)
    nodes = (len(weights) + 1) * weights.shape[-1]
    graph = igraph.Graph(nodes, list(zip(tails, heads, strict=True)), directed=True)
    graph.es["capacity"] = capacities.tolist()
    return lambda source, sink: float(graph.maxflow_value(source, sink, "capacity"))


def _networkx(weights: FloatArray) -> Solver:
    import networkx

    tails, heads, capacities = _arcs(weights)
    graph = networkx.DiGraph()
    for tail, head, capacity in zip(tails.tolist(), heads.tolist(), capacities, strict=True):
        graph.add_edge(tail, head, capacity=float(capacity))
    method = networkx.algorithms.flow.edmonds_karp
    return lambda source, sink: float(
        networkx.maximum_flow_value(graph, source, sink, flow_func=method)
    )


LIBRARIES = (
    Baseline("SciPy (int32)", "scipy", _scipy),
    Baseline("OR-Tools (int64)", "ortools", _ortools),
    Baseline("igraph", "igraph", _igraph),
)
AUTHORS = Baseline("networkx Edmonds–Karp", "networkx", _networkx)
