"""`raw`, `rollout` and `flow` on arrays: attention in, scores of input tokens out."""

from __future__ import annotations

from collections.abc import Sequence

from attnflow.edges.checks import Attention
from attnflow.edges.graph import Heads
from attnflow.io.keywords import known_keywords
from attnflow.pipeline.arrays import opened, real_tokens, score_arrays
from attnflow.pipeline.request import Request
from attnflow.records import Array
from attnflow.records.arrays import like
from attnflow.records.checks import check_flag
from attnflow.records.selection import Indices


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
