"""How far two explanations agree: Spearman's rank correlation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnflow.errors import InputError, shown
from attnflow.io.keywords import known_keywords
from attnflow.records import Attribution, FloatArray
from attnflow.records.arrays import round_scores
from attnflow.records.checks import check_flag


def spearman(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Rank correlation of two lists of scores; equal scores have the mean of their ranks.

    NaN where it is undefined: fewer than two scores, all of one list equal, or NaN among them.

    Examples:
        >>> spearman([0.1, 0.5, 0.4], [1, 3, 2])
        1.0
    """
    try:
        x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        msg = f"agreement needs two lists of numbers, not {shown(first)} and {shown(second)}"
        raise InputError(msg) from None
    if x.shape != y.shape or x.ndim != 1:
        msg = f"agreement needs two lists of the same length, not shapes {x.shape} and {y.shape}"
        raise InputError(msg)
    if np.isnan(x).any() or np.isnan(y).any():
        return float("nan")
    a, b = (ranks(values) - (len(x) + 1) / 2 for values in (x, y))
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else float("nan")


def ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1, the smallest value's; equal values have the mean of their ranks.

    Examples:
        >>> ranks(np.array([0.2, 0.7, 0.2])).tolist()
        [1.5, 3.0, 1.5]
    """
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    mean: FloatArray = (last - (count - 1) / 2)[place.reshape(-1)]
    return mean


@dataclass(frozen=True)
class Agreement:
    """Rank correlations of many pairs of explanations.

    Attributes:
        mean: Of the defined ones.
        std: Of the defined ones, about their mean (divided by their number).
        count: How many are defined.
        undefined: How many are not: one of the two is constant, or has one token.
    """

    mean: float
    std: float
    count: int
    undefined: int


@known_keywords()
def agreement(
    first: Attribution,
    second: Attribution,
    layer: int | None = None,
    *,
    special: bool = True,
) -> float:
    """Spearman's rank correlation of two explanations of the same tokens; NaN where undefined.

    Args:
        first: An explanation, of any method.
        second: Another, of the same position.
        layer: The layer compared: 1 … L, negatives from the top. An explanation with a
            single layer, such as `attnflow.blank_out` gives, is compared by that one. ``None``
            compares the layers that they explain.
        special: Whether special tokens such as CLS count, too, as in the paper. They are sinks, on
            which methods differ whatever the text is; what is said on screen leaves them out.

    Examples:
        >>> import attnflow
        >>> asked = "the keys to the cabinet", "verbs"
        >>> attnflow.agreement(attnflow.explain(*asked), attnflow.blank_out(*asked)) > 0
        True
    """
    both = (first, second)
    for one in both:
        if not isinstance(one, Attribution):
            msg = f"agreement compares two attributions, and {shown(one)} is not one"
            raise InputError(msg)
    check_flag("special", special)
    _check_comparable(*both)
    several = any(len(one.layers) > 1 for one in both)
    rows = [
        one.values if layer is None or (several and len(one.layers) == 1) else one.row(layer)
        for one in both
    ]
    places = range(len(first.tokens)) if special else compared_positions(first)
    return spearman(*(round_scores(row)[list(places)] for row in rows))


def compared_positions(of: Attribution) -> list[int]:
    """The tokens that are shown, and compared by default: no special ones."""
    return of.ordinary


def _check_comparable(first: Attribution, second: Attribution) -> None:
    if first.tokens != second.tokens:
        msg = (
            f"the explanations are of different tokens: {' '.join(first.tokens)!r} and "
            f"{' '.join(second.tokens)!r}"
        )
        raise InputError(msg)
    # A label has no position: where both explain the model's decision, positions may differ.
    chosen = any(one.options.get("query") not in (None, "all") for one in (first, second))
    if chosen and first.query != second.query:
        msg = (
            f"the explanations are of different positions: query={first.query} and "
            f"query={second.query}; explain the same one, by query= or with .at(query=…)"
        )
        raise InputError(msg)
    if first.scores.ndim == 4 or second.scores.ndim == 4:
        msg = (
            "agreement needs one score per token, and heads='each' has one per head; explain with "
            "heads='mean', or with heads=[3] for a single head"
        )
        raise InputError(msg)


def summarize(correlations: Iterable[float]) -> Agreement:
    """Mean ± standard deviation; undefined correlations are counted, never taken as 0."""
    values = np.array(list(correlations), dtype=np.float64)
    defined = values[~np.isnan(values)]
    mean, std = (defined.mean(), defined.std()) if len(defined) else (np.nan, np.nan)
    return Agreement(float(mean), float(std), len(defined), len(values) - len(defined))
