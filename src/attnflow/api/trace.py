"""`trace`: attention in, one score in full out."""

from __future__ import annotations

from attnflow.edges.checks import Attention, check_probabilities, split_layers
from attnflow.edges.graph import Heads, build_graph
from attnflow.errors import InputError, shown
from attnflow.io.keywords import known_keywords
from attnflow.methods import find_trace
from attnflow.pipeline.arrays import check_arrays_suffice, opened
from attnflow.pipeline.request import Request
from attnflow.records import Activations, FlowTrace, Pair
from attnflow.records.selection import resolve


@known_keywords()
def trace(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    attention: Attention,
    *,
    key: int,
    query: int = 0,
    layer: int = -1,
    method: str = "flow",
    edges: str = "attention",
    residual: float | None = None,
    heads: Heads | None = None,
    discard: float = 0.0,
    to_layer: int = 0,
    head: int | None = None,
) -> FlowTrace:
    """One score in full, from position ``query`` of ``layer`` to the input token ``key``.

    For flow that is a maximum flow with its routes and its minimum cut.

    Args:
        attention: As for `attnflow.flow`.
        key: The token that the score belongs to.
        query: The position that it comes from.
        layer: The layer that it comes from: 1 … L, negatives from the top.
        method: The method whose score it is.
        edges: As for `attnflow.flow`.
        residual: As for `attnflow.flow`.
        heads: As for `attnflow.flow`, but for ``"each"``; ``None`` is their mean.
        discard: As for `attnflow.flow`.
        to_layer: As for `attnflow.flow`.
        head: Only this head in the source's layer, on top of the merged layers below (App. A.1).

    Examples:
        >>> import numpy as np, attnflow
        >>> attention = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 2, 4))
        >>> found = attnflow.trace(attention, key=2)
        >>> round(sum(route.amount for route in found.routes) - found.value, 9)
        0.0
    """
    fused = _choose_heads(heads, head)
    config = Request(
        method=method,
        edges=edges,
        heads=fused,
        residual=residual,
        discard=discard,
        correction=None,
    )
    check_arrays_suffice(config)
    layers = split_layers(opened(attention), batched=False)
    depth, size = len(layers), layers[0].shape[-1]
    bottom = resolve("to_layer", to_layer, 0, depth - 1, depth + 1)
    pair = Pair(
        resolve("layer", layer, bottom + 1, depth, depth + 1),
        resolve("query", query, 0, size - 1, size),
        resolve("key", key, 0, size - 1, size),
        bottom,
        None if head is None else _check_head(head, layers[0]),
    )
    trace_of = find_trace(method)
    check_probabilities(layers)
    graph = build_graph(
        Activations(layers),
        config.edge_options(method),
        keep_maps=config.edge_method.uses_maps,
    )
    return trace_of(graph, pair)


def _choose_heads(heads: Heads | None, head: int | None) -> Heads:
    """How heads are fused; a single head stands on top of the mean of those below."""
    if head is not None and heads is not None:
        msg = (
            f"head={shown(head)} and heads={shown(heads)} exclude each other: a single head "
            "stands on top of the mean of heads below; leave heads out"
        )
        raise InputError(msg)
    if isinstance(heads, str) and heads == "each":
        msg = (
            "heads='each' does not apply to a trace, which is of one head (head=3) or of merged "
            "heads"
        )
        raise InputError(msg)
    if head is not None:
        return "each"
    return "mean" if heads is None else heads


def _check_head(head: int, layer: object) -> int:
    shape = layer.shape  # type: ignore[attr-defined] # arrays of NumPy or torch
    if len(shape) == 2:
        msg = (
            f"head={shown(head)} needs attention with a head axis; here the heads are already fused"
        )
        raise InputError(msg)
    return resolve("head", head, 0, shape[0] - 1, shape[0])
