"""Figures of an evaluation: curves with bands, and ranks with what can't be told apart."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError, unknown
from attnflow.evaluation.metrics import METRICS
from attnflow.evaluation.result import Evaluation
from attnflow.evaluation.statistics import interval
from attnflow.evaluation.tables import SURE
from attnflow.methods import METHODS
from attnflow.records import FloatArray
from attnflow.views.figures.axes import THEMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("deletion", "insertion")
WIDTH = 6.4  # inches of a panel, its legend included
THEME = THEMES["light"]
STYLES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))


def draw(kind: str, of: Evaluation, **options: Any) -> Figure:
    """The figure of one kind, with the options of its function below."""
    kinds: dict[str, Callable[..., Figure]] = {"curves": curves, "ranks": ranks}
    if kind not in kinds:
        raise InputError(unknown("kind", kind, kinds))
    known = list(signature(kinds[kind]).parameters)[1:]
    for name in options:
        if name not in known:
            msg = f"{name}= is not for {kind}; allowed: {', '.join(known)}"
            raise InputError(msg)
    return kinds[kind](of, **options)


def curves(of: Evaluation, replacement: str | None = None) -> Figure:
    """The probability while tokens are removed and put back.

    Methods have their colours, other baselines are grey; the legend of each panel has the best
    first, with the area below its curves, the mean over texts that the table has. The band is the
    best one's 95 % interval over texts.
    """
    from matplotlib.figure import Figure

    chosen = next(iter(of.curves)) if replacement is None else replacement
    if chosen not in of.curves:
        msg = f"replacement={chosen!r} was not evaluated; allowed: {', '.join(of.curves)}"
        raise InputError(msg)
    high = max(3.4, 1.4 + 0.17 * len(of.explainers))
    figure = Figure(figsize=(2 * WIDTH, high), layout="constrained", facecolor=THEME.paper)
    for number, (kind, axes) in enumerate(
        zip(KINDS, figure.subplots(1, 2, sharey=True), strict=True)
    ):
        values = of.curves[chosen][number]
        areas = _areas(of, kind, chosen, values)
        _draw_curves(axes, of, values, areas, higher=METRICS[kind].higher)
        removed = "removed" if kind == "deletion" else "put back"
        _name(axes, f"share of tokens {removed}, the highest-scored first ({chosen})")
        _head(axes, METRICS[kind].title, "higher is better" if METRICS[kind].higher else "")
        axes.set(xlim=(0, 1))
    figure.axes[0].set_ylabel("probability of the target", color=THEME.muted, fontsize=8.5)
    return figure


def _areas(of: Evaluation, kind: str, filler: str, values: FloatArray) -> FloatArray:
    """The mean area below each explainer's curves ``[explainer, text, step]``.

    It is the table's where the table has it: measured at the shares that a text's own number of
    tokens allows, and not at the steps of the figure, between which curves are interpolated.
    """
    for at, column in enumerate(of.columns):
        if (column.metric, column.against) == (kind, filler):
            return np.asarray(np.nanmean(of.values[:, at], 1))
    shares = np.linspace(0, 1, values.shape[2])
    return np.asarray(np.trapezoid(np.nanmean(values, 1), shares, axis=1))


def _draw_curves(
    axes: Axes, of: Evaluation, values: FloatArray, areas: FloatArray, *, higher: bool
) -> None:
    """The mean curves of values ``[explainer, text, step]``, the best on top."""
    means = np.nanmean(values, 1)
    shares = np.linspace(0, 1, values.shape[2])
    order = np.argsort(-areas if higher else areas, kind="stable")
    looks = _looks(of)
    for rank, place in enumerate(order):
        best = rank == 0
        axes.plot(
            shares,
            means[place],
            lw=2.4 if best else 1.3,
            zorder=len(order) - rank + 2,
            label=f"{areas[place]:.3f}  {of.explainers[place].label}",
            **looks[place],
        )
    bands = np.array([interval(values[order[0], :, step]) for step in range(values.shape[2])])
    if not np.isnan(bands).all():
        axes.fill_between(shares, *bands.T, color=looks[order[0]]["color"], alpha=0.14, lw=0)
    axes.legend(
        fontsize=7.5,
        frameon=False,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        labelcolor=THEME.ink,
        title="area, and what ranks the tokens",
        title_fontsize=7.5,
        alignment="left",
    )


def ranks(of: Evaluation, metric: str | None = None, against: str | None = None) -> Figure:
    """Mean ranks over texts, the best on top; bars join what is not significantly different.

    Significance is of paired differences, corrected for all pairs (Holm).
    """
    from matplotlib.figure import Figure

    column = _find(of, metric or of.columns[0].metric, against)
    means = mean_ranks(of, column)
    order = np.argsort(means, kind="stable")
    figure = Figure(
        figsize=(WIDTH, 1.2 + 0.27 * len(order)), layout="constrained", facecolor=THEME.paper
    )
    axes = figure.subplots()
    looks = _looks(of)
    for line, place in enumerate(order):
        axes.plot([1, means[place]], [line, line], color=THEME.rule, lw=1, zorder=1)
        axes.plot(means[place], line, "o", color=looks[place]["color"], ms=7, zorder=3)
        axes.annotate(
            f"{means[place]:.2f}",
            (means[place], line),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=THEME.ink,
        )
    groups = joined(order.tolist(), of.pairs(column))
    for step, (first, last) in enumerate(groups):
        x = len(order) + 0.9 + 0.35 * step
        axes.plot([x, x], [first - 0.2, last + 0.2], color=THEME.ink, lw=3, solid_capstyle="round")
    axes.set_yticks(range(len(order)), [of.explainers[place].label for place in order])
    axes.set(ylim=(len(order) - 0.4, -0.6), xlim=(0.7, len(order) + 1.2 + 0.35 * len(groups)))
    axes.set_xticks(range(1, len(order) + 1))
    said = told_apart(order.tolist(), of.pairs(column), groups)
    _name(axes, f"mean rank over {of.texts} texts, 1 is best; {said}")
    _head(axes, METRICS[of.columns[column].metric].title, str(of.columns[column].against))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=8.5, colors=THEME.ink)
    return figure


def _looks(of: Evaluation) -> list[dict[str, Any]]:
    """A line for each explainer: a method's colour, a style for each of its edges; others grey.

    Grey lines are never solid: some methods have colours that are nearly grey.
    """
    seen = {THEME.muted: 1}
    looks = []
    for each in of.explainers:
        colour = THEME.method(each.method) if each.method in METHODS else THEME.muted
        style = STYLES[seen.get(colour, 0) % len(STYLES)]
        seen[colour] = seen.get(colour, 0) + 1
        looks.append({"color": colour, "linestyle": style})
    return looks


def _name(axes: Axes, below: str) -> None:
    axes.set_xlabel(below, color=THEME.muted, fontsize=8.5)
    axes.tick_params(labelsize=8, colors=THEME.muted)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(THEME.rule)


def _head(axes: Axes, title: str, more: str) -> None:
    text = f"{title}, {more}" if more else f"{title}, lower is better"
    axes.set_title(text, fontsize=10, fontweight="bold", color=THEME.ink, loc="left")


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


def told_apart(
    order: list[int], pairs: dict[tuple[int, int], float], groups: list[tuple[int, int]]
) -> str:
    """What the bars say, and how many pairs they can't join since others between them differ."""
    place = {explainer: line for line, explainer in enumerate(order)}
    open_pairs = [sorted((place[a], place[b])) for (a, b), p in pairs.items() if p >= SURE]
    left = sum(not any(a <= x and y <= b for a, b in groups) for x, y in open_pairs)
    if not open_pairs:
        return "all of them can be told apart"
    more = (
        f"\n{left} more {'pair' if left == 1 else 'pairs'} can't be told apart either"
        if left
        else ""
    )
    return f"bars join what can't be told apart{more}"


def _find(of: Evaluation, metric: str, against: str | None) -> int:
    for at, column in enumerate(of.columns):
        if column.metric == metric and against in (None, column.against):
            return at
    known = ", ".join(dict.fromkeys(column.metric for column in of.columns))
    msg = f"metric={metric!r} was not evaluated; allowed: {known}"
    raise InputError(msg)
