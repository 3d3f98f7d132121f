"""One maximum flow in full: through which tokens it came, and where attention is narrow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnflow.edges import EDGES, EdgeOptions
from attnflow.edges.checks import Attention, check_probabilities, split_layers
from attnflow.edges.options import Heads
from attnflow.errors import InputError
from attnflow.records import Activations, FloatArray, LayeredGraph
from attnflow.records.arrays import to_numpy
from attnflow.records.selection import resolve


@dataclass(frozen=True)
class Edge:
    """The edge from (layer, query) to (layer − 1, key)."""

    layer: int
    query: int
    key: int
    capacity: float


@dataclass(frozen=True)
class Route:
    """A path that carries flow: its positions from the source's layer down, and the amount."""

    positions: tuple[int, ...]
    amount: float


@dataclass(frozen=True, eq=False, repr=False)
class FlowTrace:
    """A maximum flow from (layer, query) to the input token ``key``, with its proof.

    Attributes:
        layer: The layer of the source.
        query: The position of the source.
        key: The token the flow goes to.
        to_layer: The layer of the token; 0 is the input.
        value: The maximum flow.
        edges: The flow on every edge, ``[layer, query, key]``, from ``to_layer`` + 1 up.
        cut: The edges of a minimum cut: together they carry no more than ``value``.
        gap: The capacity of the cut less the value: how far the flow can be from the optimum.
        routes: The flow as paths, the largest first; their amounts sum to ``value``.
    """

    layer: int
    query: int
    key: int
    to_layer: int
    value: float
    edges: FloatArray
    cut: tuple[Edge, ...]
    gap: float
    routes: tuple[Route, ...]

    def __repr__(self) -> str:
        return (
            f"<FlowTrace: {self.value:.4g} from {self.query} of layer {self.layer} to {self.key} "
            f"of layer {self.to_layer}; {len(self.routes)} routes, {len(self.cut)} edges cut>"
        )


def trace(  # noqa: PLR0913 - one keyword an option, the same words as everywhere
    attention: Attention,
    *,
    key: int,
    query: int = 0,
    layer: int = -1,
    residual: float = 0.5,
    heads: Heads = "mean",
    discard: float = 0.0,
    to_layer: int = 0,
    head: int | None = None,
) -> FlowTrace:
    """One maximum flow in full, from position ``query`` of ``layer`` to the input token ``key``.

    Args:
        attention: As for `attnflow.flow`.
        key: The token the flow goes to.
        query: The position it comes from.
        layer: The layer it comes from: 1 … L, negatives from the top.
        residual: As for `attnflow.flow`.
        heads: As for `attnflow.flow`.
        discard: As for `attnflow.flow`.
        to_layer: As for `attnflow.flow`.
        head: Only this head in the source's layer, on top of the merged layers below (App. A.1).

    Example:
        >>> import numpy as np, attnflow
        >>> attention = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 2, 4))
        >>> found = attnflow.trace(attention, key=2)
        >>> round(sum(route.amount for route in found.routes) - found.value, 9)
        0.0
    """
    layers = split_layers(attention, batched=False)
    depth, size = len(layers), layers[0].shape[-1]
    target = resolve("to_layer", to_layer, 0, depth - 1, depth + 1)
    at = resolve("layer", layer, target + 1, depth, depth + 1)
    of = resolve("query", query, 0, size - 1, size)
    to = resolve("key", key, 0, size - 1, size)
    if head is not None and layers[0].ndim == 2:
        msg = f"head={head} needs attention with a head axis; here the heads are already fused"
        raise InputError(msg)
    check_probabilities(layers)
    options = EdgeOptions(residual, heads if head is None else "each", discard)
    graph = EDGES["attention"](Activations(layers), options)
    return trace_graph(graph, at, of, to, target, head)


def trace_graph(
    graph: LayeredGraph,
    layer: int,
    query: int,
    key: int,
    to_layer: int = 0,
    head: int | None = None,
) -> FlowTrace:
    """As `trace`, on a graph; all numbers are those of its layers and nodes, none negative."""
    from attnflow.solvers.cpu.pair import solve_pair
    from attnflow.solvers.cpu.routes import decompose

    top = graph.weights if head is None else _heads(graph, head)
    weights = to_numpy(graph.weights[to_layer : layer - 1])
    edges = to_numpy(top[layer - 1][query])
    flow, cut = solve_pair(weights, edges, query, key)
    capacity = np.concatenate([weights, np.zeros((1, len(edges), len(edges)))])
    capacity[-1, query] = edges
    value = float(flow[0, :, key].sum())
    positions, amounts = decompose(flow, query, key)
    return FlowTrace(
        layer=layer,
        query=query,
        key=key,
        to_layer=to_layer,
        value=value,
        edges=flow,
        cut=tuple(
            Edge(int(at) + to_layer + 1, int(i), int(j), float(capacity[at, i, j]))
            for at, i, j in np.argwhere(cut)
        ),
        gap=float(capacity[cut].sum()) - value,
        routes=tuple(
            Route(tuple(int(p) for p in path), float(amount))
            for path, amount in zip(positions, amounts, strict=True)
        ),
    )


def _heads(graph: LayeredGraph, head: int) -> FloatArray:
    count = 0 if graph.heads is None else graph.heads.shape[1]
    if graph.heads is None or not -count <= head < count:
        msg = f"head={head} does not exist; there are {count}, 0 to {count - 1}"
        raise InputError(msg)
    edges: FloatArray = graph.heads[:, head]
    return edges
