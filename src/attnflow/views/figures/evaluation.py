"""Figures of an evaluation: curves with bands, and ranks with what can't be told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attnflow.errors import InputError
from attnflow.evaluation.metrics import METRICS
from attnflow.evaluation.result import Evaluation
from attnflow.evaluation.statistics import interval
from attnflow.evaluation.tables import SURE
from attnflow.records import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("deletion", "insertion")
WIDTH = 6.4


def curves(of: Evaluation, filler: str | None = None) -> Figure:
    """The probability while tokens are removed and put back, with 95 % bands over texts."""
    from matplotlib.figure import Figure

    chosen = next(iter(of.curves)) if filler is None else filler
    if chosen not in of.curves:
        msg = f"filler={chosen!r} was not evaluated; allowed: {', '.join(of.curves)}"
        raise InputError(msg)
    figure = Figure(figsize=(2 * WIDTH, 4.2), layout="constrained")
    for number, (kind, axes) in enumerate(
        zip(KINDS, figure.subplots(1, 2, sharey=True), strict=True)
    ):
        for place, explainer in enumerate(of.explainers):
            values = of.curves[chosen][number, place]
            shares = np.linspace(0, 1, values.shape[1])
            bands = np.array([interval(values[:, step]) for step in range(values.shape[1])])
            style = "--" if explainer.baseline else "-"
            (line,) = axes.plot(shares, np.nanmean(values, 0), style, lw=1.4, label=explainer.label)
            if not np.isnan(bands).all():
                axes.fill_between(shares, *bands.T, color=line.get_color(), alpha=0.12, lw=0)
        removed = "removed" if kind == "deletion" else "put back"
        axes.set_xlabel(f"share of tokens {removed}, the highest first ({chosen})")
        axes.set_title(METRICS[kind].title)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("probability of the target")
    figure.axes[1].legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def ranks(of: Evaluation, metric: str, against: str | None = None) -> Figure:
    """Mean ranks over texts, the best on the left; bars join what is not significantly different.

    Significance is of paired differences, corrected for all pairs (Holm).
    """
    from matplotlib.figure import Figure

    column = _find(of, metric, against)
    means = mean_ranks(of, column)
    order = np.argsort(means, kind="stable")
    figure = Figure(figsize=(WIDTH, 0.9 + 0.3 * len(order)), layout="constrained")
    axes = figure.subplots()
    for line, place in enumerate(order):
        axes.plot(means[place], -line, "o", color="black", ms=4)
        axes.annotate(
            f"{of.explainers[place].label}  {means[place]:.2f}",
            (means[place], -line),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    pairs = of.pairs(column)
    for first, last in joined(order.tolist(), pairs):
        at = means[order[first]]
        axes.plot([at - 0.06, at - 0.06], [-first, -last], color="tab:blue", lw=2.5, alpha=0.6)
    axes.set_yticks([])
    axes.set_xlim(0.5, len(order) + 2.5)
    axes.set_xlabel("mean rank over texts; 1 is best")
    title = (
        f"{METRICS[metric].title}, {of.columns[column].against}: bars join what can't be told apart"
    )
    axes.set_title(title, fontsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


def mean_ranks(of: Evaluation, column: int) -> FloatArray:
    """The mean rank of each explainer over texts where all are defined; ties share their ranks."""
    from attnflow.evaluation.agreement import ranks as rank

    values = of.values[:, column]
    values = values[:, ~np.isnan(values).any(0)]
    if not values.shape[1]:
        msg = f"{of.columns[column].metric} is defined for all explainers on no text"
        raise InputError(msg)
    sign = -1 if METRICS[of.columns[column].metric].higher else 1
    found: FloatArray = np.mean([rank(sign * values[:, at]) for at in range(values.shape[1])], 0)
    return found


def joined(order: list[int], pairs: dict[tuple[int, int], float]) -> list[tuple[int, int]]:
    """The longest stretches of the order in which no pair differs significantly."""
    found: list[tuple[int, int]] = []
    for first in range(len(order)):
        last = first
        while last + 1 < len(order) and all(
            pairs[min(order[each], order[last + 1]), max(order[each], order[last + 1])] >= SURE
            for each in range(first, last + 1)
        ):
            last += 1
        if last > first and not any(a <= first and last <= b for a, b in found):
            found.append((first, last))
    return found


def _find(of: Evaluation, metric: str, against: str | None) -> int:
    for at, column in enumerate(of.columns):
        if column.metric == metric and against in (None, column.against):
            return at
    known = ", ".join(dict.fromkeys(column.metric for column in of.columns))
    msg = f"metric={metric!r} was not evaluated; allowed: {known}"
    raise InputError(msg)
