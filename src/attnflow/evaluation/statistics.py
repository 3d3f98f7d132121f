"""Intervals over texts, and differences between methods on the same texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from attnflow.records import FloatArray

DRAWS = 2000
FLIPS = 9999
TOGETHER = 256  # pairs, which takes 20 MB
EXACT = 13  # texts up to which all ways to flip signs are tried


def interval(values: FloatArray, *, seed: int = 0, level: float = 0.95) -> tuple[float, float]:
    """The bootstrap interval of the mean of the defined values: percentiles of resampled means.

    Of few texts, resampled means vary less than means do, and 95 % of them would hold the true mean
    in 90 % of all cases. So the percentiles are those of a t interval (Hesterberg's expanded
    percentiles, 2015).
    """
    defined = values[~np.isnan(values)]
    if len(defined) < 2:
        return float("nan"), float("nan")
    chance = np.random.default_rng(seed)
    drawn = defined[chance.integers(0, len(defined), (DRAWS, len(defined)))].mean(1)
    out = _tail(len(defined), (1 - level) / 2)
    low, high = np.quantile(drawn, [out, 1 - out])
    return float(low), float(high)


def _tail(count: int, share: float) -> float:
    """The share of resampled means that lies beyond where a t interval of ``count`` texts ends."""
    normal, free = NormalDist(), count - 1
    z = normal.inv_cdf(1 - share)
    t = z + (z**3 + z) / (4 * free)  # Cornish and Fisher's expansion
    t += (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    t += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
    return normal.cdf(-t * math.sqrt(count / free))


def all_paired_p(differences: FloatArray, *, seed: int = 0) -> list[float]:
    """How likely mean differences of this size are if the signs of differences were random.

    ``differences`` are ``[pair, text]``. Texts on which one of a pair is undefined are left out;
    where that is all of them, the result is NaN. All ways to flip the signs are tried where there
    are few texts; otherwise some are drawn, and where none of these reaches the difference,
    Hoeffding's bound says how seldom any would: many pairs need p-values smaller than one in those
    drawn.
    """
    found = np.full(len(differences), np.nan)
    undefined = np.isnan(differences)
    alike: dict[bytes, list[int]] = {}
    for pair, row in enumerate(undefined):
        alike.setdefault(row.tobytes(), []).append(pair)
    for pairs in alike.values():
        left = differences[pairs][:, ~undefined[pairs[0]]]
        if left.shape[1]:
            found[pairs] = _flipped(left, seed)
    return [float(each) for each in found]


def _flipped(differences: FloatArray, seed: int) -> FloatArray:
    """The p-values of pairs that are defined on the same texts."""
    count = differences.shape[1]
    if count <= EXACT:
        signs = 1.0 - 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    else:
        signs = np.random.default_rng(seed).integers(0, 2, (FLIPS, count)) * 2.0 - 1
    found = np.empty(len(differences))
    for start in range(0, len(differences), TOGETHER):
        part = differences[start : start + TOGETHER].T
        observed = np.abs(part.sum(0)) * (1 - 1e-12)
        more = (np.abs(signs @ part) >= observed).sum(0)
        if count <= EXACT:
            found[start : start + TOGETHER] = more / len(signs)
            continue
        p = (more + 1) / (FLIPS + 1)  # what was observed counts as one of those drawn
        squares = np.maximum((part**2).sum(0), np.finfo(float).tiny)
        bound = 2 * np.exp(-(observed**2) / (2 * squares))
        found[start : start + TOGETHER] = np.where(more == 0, np.minimum(p, bound), p)
    return found


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
