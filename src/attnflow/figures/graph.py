"""Figure 1 of the paper: the attention graph, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attnflow.errors import InputError
from attnflow.figures import axes
from attnflow.figures.style import Scale, Theme
from attnflow.records import Attribution, FloatArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

EDGES_A_TOKEN = 3  # of each layer, on average: what still reads as lines and not as a smear


def draw(
    ax: Axes,
    attribution: Attribution,
    theme: Theme,
    *,
    threshold: float | None = None,
    focus: bool = True,
) -> None:
    """Layers from left to right, tokens from top to bottom; edges as wide and dark as their weight.

    As in the paper, an edge from a position of layer l ends at the column to its left; for rollout
    and flow its weight is what that position takes from the *input* token of that row. Edges below
    ``threshold`` are left out; by default so many stay that the graph can be read. ``focus`` gives
    the method's colour only to the edges of the position asked about.
    """
    if attribution.scores.ndim == 4:
        msg = "a graph shows merged heads, and this attribution has single heads; use kind 'heads'"
        raise InputError(msg)
    least = readable_threshold(attribution.scores) if threshold is None else threshold
    nodes(ax, len(attribution.layers) + 1, len(attribution.tokens), theme)
    alone = not focus or len(attribution.queries) == 1
    for queries, colour, order in (
        ([q for q in attribution.queries if q != attribution.query], theme.muted, 2),
        ([attribution.query], theme.method(attribution.method), 3),
    ):
        rows = [attribution.queries.index(query) for query in queries]
        paint = theme.method(attribution.method) if alone else colour
        weights = attribution.scores[:, rows]
        edges(ax, weights, queries, threshold=least, colour=paint, order=order)
    _label(ax, attribution, theme, least)


def _label(ax: Axes, attribution: Attribution, theme: Theme, least: float) -> None:
    axes.token_rows(ax, attribution.tokens, theme, bold=attribution.query)
    first = attribution.layers[0] - 1
    below = f"L{first}" if attribution.method == "raw" and first else "input"
    names = [below, *axes.layer_names(attribution)]
    axes.columns(ax, names, theme, every=axes.thinning(len(names), 10))
    axes.heading(ax, axes.title_of(attribution), theme, attribution.method)
    to = "the layer below" if attribution.method == "raw" else "input tokens"
    axes.note(ax, f"to {to}, edges ≥ {least:.2g}", theme)
    axes.bare(ax, theme)


def readable_threshold(weights: FloatArray) -> float:
    """The weight that leaves, in each layer, at most three edges a token on average.

    >>> readable_threshold(np.full((1, 2, 2), 0.5))
    0.5
    """
    layers, queries, keys = weights.shape
    most = EDGES_A_TOKEN * max(queries, keys // 4, 1) * layers
    ranked = np.sort(weights, axis=None)[::-1]
    least = ranked[min(most, ranked.size) - 1]
    return float(max(least, 0.01))


def nodes(ax: Axes, layers: int, tokens: int, theme: Theme) -> None:
    """A dot for every position of every layer."""
    x, y = np.meshgrid(np.arange(layers), np.arange(tokens))
    dot = (Scale(tokens).row * 72 * 0.28) ** 2
    ax.scatter(x.ravel(), y.ravel(), s=dot, color=theme.rule, linewidths=0, zorder=1)
    ax.set_xlim(-0.25, layers - 0.75)
    ax.set_ylim(tokens - 0.5, -0.5)


def edges(  # noqa: PLR0913 - a line has a place, a colour and a depth
    ax: Axes,
    weights: FloatArray,
    queries: Sequence[int],
    *,
    threshold: float,
    colour: str,
    order: float,
    largest: float | None = None,
) -> None:
    """Lines for the weights ``[layer, query, key]`` from the threshold up."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba_array

    layer, row, key = np.nonzero((weights >= threshold) & (weights > 0))
    if not layer.size:
        return
    weight = weights[layer, row, key]
    rank = np.argsort(weight, kind="stable")  # heavy edges lie on top of light ones
    layer, row, key, weight = layer[rank], row[rank], key[rank], weight[rank]
    share = np.clip(weight / (largest or max(float(weights.max()), 1e-12)), 0, 1)
    start = np.stack([layer + 1, np.asarray(queries)[row]], axis=-1)
    end = np.stack([layer, key], axis=-1)
    paint = np.repeat(to_rgba_array(colour), len(share), axis=0)
    paint[:, 3] = 0.12 + 0.83 * share
    ax.add_collection(
        LineCollection(
            np.stack([start, end], axis=1).astype(float).tolist(),
            colors=paint.tolist(),
            linewidths=(0.3 + 2.9 * share).tolist(),
            capstyle="round",
            zorder=order,
        ),
        autolim=False,
    )


def size(attribution: Attribution) -> tuple[float, float]:
    """Width and height of the drawing in inches, without tokens and title."""
    tokens = len(attribution.tokens)
    wide = 0.4 if tokens <= 12 else 0.5
    return max(2.0, wide * min(len(attribution.layers), 16)), max(1.2, Scale(tokens).height)
