"""Intervals over texts, and differences between methods on the same texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnflow.records import FloatArray

DRAWS = 2000
FLIPS = 9999
EXACT = 13  # texts up to which all ways to flip signs are tried


def interval(values: FloatArray, *, seed: int = 0, level: float = 0.95) -> tuple[float, float]:
    """The bootstrap interval of the mean of the defined values: percentiles of resampled means."""
    defined = values[~np.isnan(values)]
    if len(defined) < 2:
        return float("nan"), float("nan")
    chance = np.random.default_rng(seed)
    drawn = defined[chance.integers(0, len(defined), (DRAWS, len(defined)))].mean(1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired_p(first: FloatArray, second: FloatArray, *, seed: int = 0) -> float:
    """How likely a mean difference of this size is if signs of differences were drawn by lot.

    Texts on which one of the two is undefined are left out. All ways to flip the signs are tried
    where there are few texts; otherwise some are drawn.
    """
    differences = first - second
    differences = differences[~np.isnan(differences)]
    count = len(differences)
    if not count:
        return float("nan")
    observed = abs(differences.sum()) * (1 - 1e-12)
    if count <= EXACT:
        bits = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        return float((np.abs((1 - 2 * bits) @ differences) >= observed).mean())
    signs = np.random.default_rng(seed).integers(0, 2, (FLIPS, count)) * 2 - 1
    return float(((np.abs(signs @ differences) >= observed).sum() + 1) / (FLIPS + 1))


def smallest_p(texts: int, pairs: int) -> float:
    """The least that `paired_p` can be on so many texts, after Holm's correction for all pairs.

    >>> smallest_p(5, 1), smallest_p(3, 10)
    (0.0625, 1.0)
    """
    least = 2.0**-texts * 2 if texts <= EXACT else 1 / (FLIPS + 1)
    return min(1.0, least * pairs)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the chance of one false discovery among all stays below the level."""
    given = np.array(p_values, dtype=np.float64)
    adjusted = np.full(len(given), np.nan)
    known = np.flatnonzero(~np.isnan(given))
    largest = 0.0
    for rank, place in enumerate(known[np.argsort(given[known], kind="stable")]):
        largest = max(largest, min(1.0, float(given[place]) * (len(known) - rank)))
        adjusted[place] = largest
    return [float(each) for each in adjusted]
