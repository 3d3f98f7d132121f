"""Intervals of shares."""

from __future__ import annotations

import math

Z = 1.96  # of a normal distribution: 95 %


def wilson(hits: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate; a tie may count as part of a hit."""
    middle = (hits + Z**2 / 2) / (count + Z**2)
    half = Z / (count + Z**2) * math.sqrt(hits * (count - hits) / count + Z**2 / 4)
    return max(0.0, middle - half), min(1.0, middle + half)
