"""The entries of a layer by rows: all that carry something, or only the largest."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from attnflow.errors import InputError
from attnflow.records.sparse import IntArray, LongArray, SparseLayer
from attnflow.records.types import FloatArray

BINS_PER_OCTAVE = 256  # of the histogram that finds a threshold
LEAST_EXPONENT, OCTAVES = -1100, 2200  # those of float64


class Rows(NamedTuple):
    """The positive entries of a layer off the diagonal, row after row."""

    starts: LongArray  # [query + 1]: where each row begins
    keys: IntArray  # [entry]
    values: FloatArray  # [entry]


def rows_of(layer: Any, number: int) -> Rows:
    """The entries of a layer, dense or sparse, which are checked; the diagonal is ignored."""
    if isinstance(layer, SparseLayer):
        rows, values = layer.queries, np.asarray(layer.values, np.float64)
        off = rows != layer.keys
        counts, sound = _counts_of(rows[off], values[off], layer.size)
    else:
        counts = np.zeros(len(layer), np.int64)
        sound = _count(layer, counts)
    if not sound:
        msg = (
            f"layer {number} of the capacities has entries that are negative, infinite or NaN; "
            "capacities are finite and at least 0: take the positive part of the relevance"
        )
        raise InputError(msg)
    starts = np.concatenate([[0], np.cumsum(counts)])
    if isinstance(layer, SparseLayer):
        used = off & (values > 0)
        return Rows(starts, layer.keys[used].astype(np.int32, copy=False), values[used])
    found = Rows(starts, np.empty(starts[-1], np.int32), np.empty(starts[-1]))
    _fill(layer, found)
    return found


def without_smallest(
    rows: Rows, reach: FloatArray, tolerance: float
) -> tuple[Rows, FloatArray, FloatArray]:
    """The rows without the smallest entries, and the sums of these by query and by key.

    All of them sum to ``tolerance`` at most. No entry counts for more than ``reach``, ``[query]``,
    as no more can arrive at its query.
    """
    size = len(reach)
    queries = np.repeat(np.arange(size, dtype=np.int32), np.diff(rows.starts))
    carried = np.minimum(rows.values, reach[queries])
    kept = (carried >= _threshold(carried, tolerance)) & (carried > 0)
    starts = np.concatenate([[0], np.cumsum(np.bincount(queries[kept], minlength=size))])
    lost = carried[~kept]
    return (
        Rows(starts, rows.keys[kept], rows.values[kept]),
        np.bincount(queries[~kept], lost, size).astype(np.float64, copy=False),
        np.bincount(rows.keys[~kept], lost, size).astype(np.float64, copy=False),
    )


def _counts_of(rows: IntArray, values: FloatArray, size: int) -> tuple[LongArray, bool]:
    """How many positive values each row has, and whether all values are capacities."""
    sound = bool((np.isfinite(values) & (values >= 0)).all())
    return np.bincount(rows[values > 0], minlength=size), sound


@njit(cache=True, nogil=True)
def _count(layer: Any, counts: LongArray) -> bool:
    """Count the positive entries of each row; returns whether all entries are capacities."""
    sound = True
    for query in range(len(layer)):
        for key in range(len(layer)):
            if key != query:
                counts[query] += layer[query, key] > 0
                sound &= 0 <= layer[query, key] < np.inf
    return sound


@njit(cache=True, nogil=True)
def _fill(layer: Any, rows: Rows) -> None:
    """Copy the positive entries."""
    entry = 0
    for query in range(len(layer)):
        for key in range(len(layer)):
            if key != query and layer[query, key] > 0:
                rows.keys[entry], rows.values[entry] = key, layer[query, key]
                entry += 1


@njit(cache=True, nogil=True)
def _threshold(values: FloatArray, tolerance: float) -> float:
    """A value as large as possible; all values below it sum to ``tolerance`` at most."""
    sums = np.zeros(OCTAVES * BINS_PER_OCTAVE)
    for value in values[values > 0]:
        mantissa, exponent = math.frexp(value)  # the mantissa is from 0.5 to 1
        octave = (exponent - LEAST_EXPONENT) * BINS_PER_OCTAVE
        sums[octave + int((mantissa - 0.5) * (2 * BINS_PER_OCTAVE))] += value
    total = 0.0
    for number in range(len(sums)):
        total += sums[number]
        if total > tolerance:
            mantissa = 0.5 + (number % BINS_PER_OCTAVE) / (2 * BINS_PER_OCTAVE)
            return math.ldexp(mantissa, number // BINS_PER_OCTAVE + LEAST_EXPONENT)
    return np.inf
