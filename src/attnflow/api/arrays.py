"""`raw`, `rollout` and `flow` on arrays: attention in, scores of input tokens out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnflow.aggregation import Execution, Scores
from attnflow.edges import EdgeOptions
from attnflow.edges.checks import Attention, split_layers
from attnflow.edges.options import Heads
from attnflow.errors import InputError
from attnflow.pipeline.batches import BoolArray, real_tokens, solve_batch
from attnflow.pipeline.task import Task
from attnflow.records import Array
from attnflow.records.arrays import like
from attnflow.records.selection import Indices, ask


def raw(
    attention: Attention,
    *,
    residual: float = 0.0,
    heads: Heads = "mean",
    discard: float = 0.0,
    mask: Array | None = None,
    lengths: Sequence[int] | None = None,
) -> Array:
    """Raw attention of every position of every layer: heads fused, nothing else.

    The residual is off by default, as in the paper; see `rollout` for the arguments.
    """
    run = _Run("raw", EdgeOptions(residual, heads, discard), real_tokens(mask, lengths))
    return like(run(attention).scores, attention[0])


def rollout(  # noqa: PLR0913 - one keyword an option, the same words as everywhere
    attention: Attention,
    *,
    residual: float = 0.5,
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
        residual: The share of the identity in A = (1 − residual)·W + residual·I.
        heads: ``"mean"``, ``"max"``, ``"min"``, head numbers, head weights, or ``"each"`` for
            single heads on top of the merged layers below (Appendix A.1).
        discard: The ratio of smallest attention weights set to zero in each layer.
        to_layer: The layer attended to; 0 is the input.
        mask: For a batch, ``[batch, position]``: true (or 1) for tokens, false (or 0) for padding.
        lengths: For a batch, the number of tokens of each item, padding after them.

    Returns:
        ``[layer, query, key]`` for the layers above ``to_layer`` (``[layer, head, query, key]`` for
        ``heads="each"``; with a batch axis after ``layer`` for a batch), of the input's kind,
        precision and device. Padding has zeros.

    Example:
        >>> import numpy as np, attnflow
        >>> attention = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 2, 4))
        >>> attnflow.rollout(attention).shape
        (3, 4, 4)
    """
    run = _Run("rollout", EdgeOptions(residual, heads, discard), real_tokens(mask, lengths))
    return like(run(attention, to_layer=to_layer).scores, attention[0])


def flow(  # noqa: PLR0913 - one keyword an option, the same words as everywhere
    attention: Attention,
    *,
    residual: float = 0.5,
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
    progress: bool = False,
    statistics: bool = False,
) -> Array:
    """Attention flow (Abnar & Zuidema 2020): exact maximum flows, with capacities A.

    Each value is the maximum flow from one position of one layer to one input token. Whatever the
    kind of ``attention``, flow is computed on the CPU in float64; the result goes back to its kind,
    precision and device.

    Args:
        attention: As for `rollout`.
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
        threads: How many threads work; None is one a core.
        progress: Show a progress bar.
        statistics: Return ``(result, statistics)``: how the flows were found and, as
            ``largest_gap``, how far any of them can be from the optimum.

    Returns:
        ``[layer, query, key]``, only the asked ones along each axis (``[layer, head, query, key]``
        for ``heads="each"``; a batch axis after ``layer`` for a batch).

    Example:
        >>> import numpy as np, attnflow
        >>> attention = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 2, 4))
        >>> attnflow.flow(attention, layers=-1, queries=0).shape
        (1, 1, 4)
    """
    run = _Run(
        "flow",
        EdgeOptions(residual, heads, discard),
        real_tokens(mask, lengths),
        Execution(threads, progress),
    )
    answer = run(attention, to_layer=to_layer, layers=layers, queries=queries, keys=keys)
    scores = answer.scores
    if normalize:
        sums = scores.sum(-1, keepdims=True)
        scores = scores / (sums + (sums == 0))
    result = like(scores, attention[0])
    return (result, dict(answer.statistics)) if statistics else result


@dataclass(frozen=True)
class _Run:
    """A method with its options, ready for attention: checks it and splits it into layers."""

    method: str
    options: EdgeOptions
    tokens: BoolArray | None
    effort: Execution = Execution()  # noqa: RUF009 - frozen

    def __call__(self, attention: Attention, **selection: Any) -> Scores:
        layers = split_layers(attention, batched=self.tokens is not None)
        if layers[0].ndim == (2 if self.tokens is None else 3):
            if self.options.heads == "each":
                msg = "heads='each' needs attention with a head axis; here the heads are fused"
                raise InputError(msg)
            layers = tuple(layer[..., None, :, :] for layer in layers)
        question = ask(len(layers), layers[0].shape[-1], **selection)
        task = Task(self.method, self.options, question, self.effort)
        return task(layers) if self.tokens is None else solve_batch(task, layers, self.tokens)
