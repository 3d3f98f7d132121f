"""Batches with padding: every item gets what it would get alone.

Items with the same padding are cut to their tokens and answered together, so no arithmetic ever
sees padding; results go back to their places among zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from attnflow.aggregation.scores import Scores, merge_statistics
from attnflow.errors import InputError
from attnflow.pipeline.task import Task
from attnflow.records import Array
from attnflow.records.arrays import empty, to_numpy

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]


def real_tokens(mask: Array | None, lengths: Sequence[int] | None) -> BoolArray | None:
    """``[batch, position]``, true for tokens; None when there is no batch.

    The width of ``lengths`` is their maximum until the attention's own width is known.
    """
    if mask is not None and lengths is not None:
        msg = "mask and lengths say the same thing; give one of them"
        raise InputError(msg)
    if mask is not None:
        valid: BoolArray = to_numpy(mask) != 0
        if valid.ndim != 2:
            msg = f"mask has {valid.ndim} axes; it must be [batch, position]"
            raise InputError(msg)
    elif lengths is not None:
        counts = np.asarray(lengths)
        if counts.ndim != 1 or counts.dtype.kind not in "iu":
            msg = f"lengths={lengths!r} must be a list of whole numbers, one an item"
            raise InputError(msg)
        valid = np.arange(counts.max(initial=0)) < counts[:, None]
    else:
        return None
    if not valid.any(1).all():
        msg = f"item {int(np.argmin(valid.any(1)))} of the batch has no token"
        raise InputError(msg)
    return valid


def solve_batch(task: Task, layers: tuple[Array, ...], valid: BoolArray) -> Scores:
    """Scores for layers of ``[batch, head, query, key]``, with the batch after ``layer``."""
    batch, size = layers[0].shape[0], layers[0].shape[-1]
    missing = size - valid.shape[1]
    if len(valid) != batch or missing < 0:
        msg = (
            f"mask or lengths describe {len(valid)} items of up to {valid.shape[1]} positions; "
            f"attention has {batch} items of {size}"
        )
        raise InputError(msg)
    valid = np.pad(valid, ((0, 0), (0, missing)))
    asked = task.question
    queries, keys = np.array(asked.queries), np.array(asked.keys)
    result = None
    statistics = []
    for items, tokens in _groups(valid):
        rows, columns = np.isin(queries, tokens), np.isin(keys, tokens)
        if not (rows.any() and columns.any()):
            continue
        question = replace(
            asked,
            queries=tuple(np.searchsorted(tokens, queries[rows]).tolist()),
            keys=tuple(np.searchsorted(tokens, keys[columns]).tolist()),
        )
        answer = replace(task, question=question)(tuple(_cut(a, items, tokens) for a in layers))
        if len(items) == batch and len(tokens) == size:
            return answer
        if result is None:
            shape = (len(answer.scores), batch, *answer.scores.shape[2:-2], len(queries), len(keys))
            result = empty(shape, answer.scores)
            result[:] = 0
        into = np.ix_(np.flatnonzero(rows), np.flatnonzero(columns))
        for at, item in enumerate(items):
            result[:, item][(..., *into)] = answer.scores[:, at]
        statistics.append(answer.statistics)
    if result is None:
        msg = f"queries={asked.queries} and keys={asked.keys} are padding in every item"
        raise InputError(msg)
    return Scores(result, merge_statistics(statistics))


def _groups(valid: BoolArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Items with the same padding, and the positions of their tokens."""
    patterns, members = np.unique(valid, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield np.flatnonzero(members.ravel() == number), np.flatnonzero(pattern)


def _cut(layer: Array, items: IntArray, tokens: IntArray) -> Array:
    """The tokens of these items; nothing is copied where that is everything."""
    if len(items) < layer.shape[0]:
        layer = layer[items]
    if len(tokens) < layer.shape[-1]:
        layer = layer[..., tokens, :][..., tokens]
    return layer
