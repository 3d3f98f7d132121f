"""`raw`, `rollout`, `flow` and `trace` on arrays: attention in, scores of input tokens out."""

from __future__ import annotations

from collections.abc import Sequence

from attnflow.edges.checks import Attention, check_probabilities, split_layers
from attnflow.edges.graph import Heads, build_graph
from attnflow.errors import InputError, shown
from attnflow.io.keywords import known_keywords
from attnflow.methods import find_trace
from attnflow.pipeline.arrays import check_arrays_suffice, opened, real_tokens, score_arrays
from attnflow.pipeline.request import Request
from attnflow.records import Activations, Array, FlowTrace, Pair
from attnflow.records.arrays import like
from attnflow.records.checks import check_flag
from attnflow.records.selection import Indices, resolve


@known_keywords()
def raw(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    attention: Attention,
    *,
    edges: str = "attention",
    residual: float | None = None,
    heads: Heads = "mean",
    discard: float = 0.0,
    mask: Array | None = None,
    lengths: Sequence[int] | None = None,
) -> Array:
    """Raw attention of every position of every layer: heads fused, nothing else.

    The residual is off by default, as in the paper; see `rollout` for the arguments.

    Examples:
        >>> import numpy as np, attnflow
        >>> attention = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 2, 4))
        >>> bool(np.allclose(attnflow.raw(attention), attention.mean(1)))
        True
    """
    config = Request(
        method="raw",
        edges=edges,
        heads=heads,
        residual=residual,
        discard=discard,
        correction=None,
    )
    attention = opened(attention)
    scores = score_arrays(attention, config, real_tokens(mask, lengths))
    return like(scores.values, attention[0])


@known_keywords()
def rollout(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    attention: Attention,
    *,
    edges: str = "attention",
    residual: float | None = None,
    heads: Heads = "mean",
    discard: float = 0.0,
    to_layer: int = 0,
    mask: Array | None = None,
    lengths: Sequence[int] | None = None,
) -> Array:
    """Attention rollout (Abnar & Zuidema 2020) of every position of every layer.

    Args:
        attention: ``[layer, head, query, key]``, or ``[layer, query, key]`` with heads fused, or a
            sequence of such layers; NumPy or torch. A batch has its axis after ``layer``, as in the
            ``attentions`` of Hugging Face models, and needs ``mask`` or ``lengths``.
        edges: The edge rule, of those that need nothing but attention.
        residual: The share of the identity in A = (1 − residual)·W + residual·I; ``None`` is 0.5.
        heads: ``"mean"``, head numbers, head weights, or ``"each"`` for single heads on top of the
            merged layers below (Appendix A.1).
        discard: The ratio of smallest attention weights set to zero in each layer.
        to_layer: The layer attended to; 0 is the input.
        mask: For a batch, ``[batch, position]``: true (or 1) for tokens, false (or 0) for padding.
        lengths: For a batch, the number of tokens of each item, padding after them.

    Returns:
        ``[layer, query, key]`` for the layers above ``to_layer`` (``[layer, head, query, key]`` for
        ``heads="each"``; with a batch axis after ``layer`` for a batch), of the input's kind,
        precision and device. Padding has zeros.

    Examples:
        >>> import numpy as np, attnflow
        >>> attention = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 2, 4))
        >>> attnflow.rollout(attention).shape
        (3, 4, 4)
    """
    config = Request(
        method="rollout",
        edges=edges,
        heads=heads,
        residual=residual,
        discard=discard,
        correction=None,
    )
    attention = opened(attention)
    scores = score_arrays(attention, config, real_tokens(mask, lengths), to_layer=to_layer)
    return like(scores.values, attention[0])


@known_keywords()
def flow(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    attention: Attention,
    *,
    edges: str = "attention",
    residual: float | None = None,
    heads: Heads = "mean",
    discard: float = 0.0,
    to_layer: int = 0,
    layers: Indices = None,
    queries: Indices = None,
    keys: Indices = None,
    normalize: bool = False,
    mask: Array | None = None,
    lengths: Sequence[int] | None = None,
    threads: int | None = None,
    device: str = "auto",
    progress: bool = False,
    statistics: bool = False,
) -> Array:
    """Attention flow (Abnar & Zuidema 2020): exact maximum flows, with capacities A.

    Each value is the maximum flow from one position of one layer to one input token, computed in
    float64; the result has the kind, precision and device of ``attention``.

    Args:
        attention: As for `rollout`.
        edges: As for `rollout`.
        residual: As for `rollout`.
        heads: As for `rollout`.
        discard: As for `rollout`.
        to_layer: As for `rollout`.
        layers: Solve only these layers: numbers 1 … L, negatives from the top. None is all.
        queries: Solve only these positions. None is all.
        keys: Solve only these input tokens. None is all.
        normalize: Divide each source's flows by their sum, as the authors' code does.
        mask: As for `rollout`.
        lengths: As for `rollout`.
        threads: How many threads work; ``None`` is one per core.
        device: Where flow is solved: ``"cpu"``, ``"cuda"`` (a GPU, with ``attnflow[cuda]``) or
            ``"auto"``: the GPU if there is one and the attention is on it or the work is long.
        progress: Show a progress bar.
        statistics: Return ``(result, statistics)``: how the flows were found and, as
            ``largest_gap``, how far any of them can be from the optimum.

    Returns:
        ``[layer, query, key]`` of what is selected (``[layer, head, query, key]`` for
        ``heads="each"``; a batch axis after ``layer`` for a batch).

    Raises:
        CertificateError: A flow is not proven to be the maximum.

    Examples:
        >>> import numpy as np, attnflow
        >>> attention = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 2, 4))
        >>> attnflow.flow(attention, layers=-1, queries=0).shape
        (1, 1, 4)
    """
    check_flag("normalize", normalize)
    check_flag("statistics", statistics)
    config = Request(
        method="flow",
        edges=edges,
        heads=heads,
        residual=residual,
        discard=discard,
        correction=None,
        threads=threads,
        progress=progress,
        solver=device,
    )
    selection = {"to_layer": to_layer, "layers": layers, "queries": queries, "keys": keys}
    attention = opened(attention)
    scores = score_arrays(attention, config, real_tokens(mask, lengths), **selection)
    values = scores.values
    if normalize:
        sums = values.sum(-1, keepdims=True)
        values = values / (sums + (sums == 0))
    result = like(values, attention[0])
    return (result, dict(scores.statistics)) if statistics else result


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
