"""Figure 1 of the paper: the attention graph, layer by layer, and the routes of one flow in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError
from attnflow.records import Attribution, FloatArray
from attnflow.views.colours import sign_colour
from attnflow.views.figures import axes
from attnflow.views.figures.axes import Scale, Theme
from attnflow.views.kinds import Kind
from attnflow.views.wording.labels import written
from attnflow.views.wording.names import (
    has_layers,
    info_of,
    is_signed,
    rule_name,
    signs_note,
    unit_of,
)
from attnflow.views.wording.numbers import number, share
from attnflow.views.wording.traces import carrying

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from attnflow.records import FlowTrace

STRONGEST = 2  # edges of each position: what still reads as lines and not as a smear
BUDGET = 24  # edges of all other positions together, and of all routes but the largest
STRONGEST_IN_FOCUS = 6
WIDEST = 5.0  # inches: three panels of a deep model still fit a wide page


def draw(
    ax: Axes,
    attribution: Attribution,
    theme: Theme,
    *,
    threshold: float | None = None,
    focus: bool = True,
) -> None:
    """Layers from left to right, tokens from top to bottom; edges as wide and dark as their weight.

    As in the paper, an edge into a position of layer l starts at the column to its left; for
    rollout and flow its weight is what that position takes from the *input* token of that row.
    Edges below ``threshold`` are left out; by default the strongest of each position are drawn.
    ``focus`` gives the method's colour only to the edges of the position that is explained.
    """
    if attribution.scores.ndim == 4:
        msg = "a graph shows merged heads, and this attribution has single heads; use kind 'heads'"
        raise InputError(msg)
    if not has_layers(attribution):
        msg = (
            f"a graph shows edges between layers, and {attribution.method} has neither; use kind "
            "'heatmap'"
        )
        raise InputError(msg)
    positions = attribution.pooled or (attribution.query,)
    explained = sorted({attribution.queries.index(position) for position in positions})
    others = [at for at in range(len(attribution.queries)) if at not in explained]
    alone = not (focus and others)
    signed = is_signed(attribution)
    own = theme.method(attribution.method)
    sizes = np.abs(attribution.scores)
    nodes(ax, len(attribution.layers) + 1, len(attribution.tokens), theme)
    for rows, colour, most, order in (
        (others, own if alone else theme.muted, STRONGEST, 2),
        (explained, own, STRONGEST if others and not focus else STRONGEST_IN_FOCUS, 3),
    ):
        weights = np.zeros_like(sizes)
        weights[:, rows] = drop_weak(sizes[:, rows], threshold, most)
        if threshold is None and rows is others:
            weights = keep_strongest(weights, BUDGET)
        lines = Lines(colour, order, float(sizes.max()), faint=colour == theme.muted)
        if not signed or lines.faint:
            edges(ax, weights, attribution.queries, lines)
            continue
        for sign in (-1, 1):
            same = np.where(np.sign(attribution.scores) == sign, weights, 0.0)
            of_sign = replace(lines, colour=sign_colour(sign, dark=theme.dark))
            edges(ax, same, attribution.queries, of_sign)
    _label(ax, attribution, theme, threshold, focus=focus)


def _legend(attribution: Attribution, *, focus: bool) -> str:
    """What colour and grey mean."""
    if not focus or len(attribution.queries) == 1:
        return f"into {axes.label(attribution.explained)}" if focus else "into all positions"
    return f"coloured: into {axes.label(attribution.explained)}; grey: into others"


def _label(
    ax: Axes, attribution: Attribution, theme: Theme, threshold: float | None, *, focus: bool
) -> None:
    axes.token_rows(ax, written(attribution), theme, bold=axes.explained_row(attribution))
    first = attribution.layers[0] - 1
    reaches_input = info_of(attribution).reaches_input
    below = "input" if reaches_input or not first else f"L{first}"
    names = [below, *axes.layer_names(attribution)]
    axes.columns(ax, names, theme.muted, [first, *attribution.layers])
    axes.heading(ax, axes.title_of(attribution), theme, axes.colour_name(attribution))
    start = "from input tokens" if reaches_input else "from the layer below"
    which = "strongest edges" if threshold is None else f"edges ≥ {threshold:.2g}"
    rule = str(attribution.options.get("edges", "attention"))
    which += "" if rule == "attention" else f" ({rule_name(rule)})"
    divided = axes.divide_segments(ax, attribution, theme)
    legend = _legend(attribution, focus=focus)
    legend += f"; {signs_note(attribution.options)}" if is_signed(attribution) else ""
    axes.note(ax, f"{which} {start}; {legend}; width: weight{divided}", theme)
    axes.remove_frame(ax, theme)


def drop_weak(weights: FloatArray, threshold: float | None, most: int) -> FloatArray:
    """The weights ``[layer, query, key]`` with zeros for edges that are not drawn.

    >>> drop_weak(np.array([[[0.5, 0.3, 0.2]]]), None, most=2)
    array([[[0.5, 0.3, 0. ]]])
    """
    if threshold is not None:
        return np.where(weights >= threshold, weights, 0.0)
    rank = np.argsort(np.argsort(-weights, axis=-1, kind="stable"), axis=-1)
    return np.where(rank < most, weights, 0.0)


def keep_strongest(weights: FloatArray, most: int) -> FloatArray:
    """The weights with zeros for all but the strongest: a tangle says nothing.

    >>> keep_strongest(np.array([0.1, 0.5, 0.3]), 2)
    array([0. , 0.5, 0.3])
    """
    if np.count_nonzero(weights) <= most:
        return weights
    order = np.argsort(-weights, axis=None, kind="stable")[:most]
    kept: FloatArray = np.zeros(weights.size)
    kept[order] = weights.ravel()[order]
    return kept.reshape(weights.shape)


@dataclass(frozen=True)
class Lines:
    """How edges look: the largest weight is the widest line, nearly opaque unless faint."""

    colour: str
    order: float
    largest: float
    faint: bool = False


def nodes(ax: Axes, layers: int, tokens: int, theme: Theme) -> None:
    """A dot for every position of every layer."""
    x, y = np.meshgrid(np.arange(layers), np.arange(tokens))
    dot = (min(Scale(tokens).row, WIDEST / layers) * 72 * 0.28) ** 2
    ax.scatter(x.ravel(), y.ravel(), s=dot, color=theme.rule, linewidths=0, zorder=1)
    ax.set_xlim(-0.25, layers - 0.75)
    ax.set_ylim(tokens - 0.5, -0.5)


def edges(ax: Axes, weights: FloatArray, queries: Sequence[int], lines: Lines) -> None:
    """A line for every weight ``[layer, query, key]`` that is not zero."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba_array

    layer, row, key = np.nonzero(weights)
    if not layer.size:
        return
    weight = weights[layer, row, key]
    rank = np.argsort(weight, kind="stable")  # heavy edges lie on top of light ones
    layer, row, key = layer[rank], row[rank], key[rank]
    share = np.clip(weight[rank] / lines.largest, 0, 1)
    paint = np.repeat(to_rgba_array(lines.colour), len(share), axis=0)
    tokens = weights.shape[-1]
    crowd = min(1.0, 16 / tokens)
    paint[:, 3] = crowd * (0.1 + 0.35 * share) if lines.faint else 0.25 + 0.7 * share
    start = np.stack([layer + 1, np.asarray(queries)[row]], axis=-1)
    end = np.stack([layer, key], axis=-1)
    widest = min(3.2, Scale(tokens).row * 72 * 0.22) * (0.6 if lines.faint else 1)
    ax.add_collection(
        LineCollection(
            np.stack([start, end], axis=1).astype(float).tolist(),
            colors=paint.tolist(),
            linewidths=(0.35 + widest * share).tolist(),
            capstyle="round",
            zorder=lines.order,
        ),
        autolim=False,
    )


def draw_routes(
    ax: Axes, trace: FlowTrace, tokens: Sequence[str], theme: Theme, *, most: int = 5
) -> None:
    """The ``most`` largest routes in colour, of the others the strongest edges in grey.

    Of edges that share 90 % of the flow, so many as still read as lines; the cut is dotted.
    """
    flows = np.asarray(trace.edges)
    depth = trace.layer - trace.to_layer
    largest = float(flows.max(initial=0.0)) or 1.0
    carried = np.zeros_like(flows)
    for route in trace.routes[:most]:
        for level, (key, query) in enumerate(_steps(route.positions)):
            carried[level, query, key] += route.amount
    nodes(ax, depth + 1, len(tokens), theme)
    others = np.where(carrying(trace) & (carried == 0), flows, 0.0)
    grey = Lines(theme.muted, 2, largest, faint=True)
    edges(ax, keep_strongest(others, BUDGET), range(len(tokens)), grey)
    info = info_of(trace)
    sign = sign_colour(1 if trace.value >= 0 else -1, dark=theme.dark)
    colour = Lines(sign if info.signed else theme.method(trace.method), 3, largest)
    edges(ax, carried, range(len(tokens)), colour)
    _mark_cut(ax, trace, theme)
    axes.token_rows(ax, tokens, theme, bold=trace.key)
    layers = range(trace.to_layer, trace.layer + 1)
    names = [f"L{layer}" if layer else "input" for layer in layers]
    axes.columns(ax, names, theme.muted, layers)
    axes.heading(ax, f"Routes from {axes.label(tokens[trace.key])}", theme, trace.method)
    coloured = sum(route.amount for route in trace.routes[:most])
    part = coloured / abs(trace.value) if trace.value else 0.0
    amount = " ".join(filter(None, [number(trace.value), unit_of(trace.method, trace.options)]))
    source = f"{info.name} {amount} to {axes.label(tokens[trace.query])}"
    legend = f"coloured: the largest routes, {share(part)} of it"
    legend += "; grey: the strongest edges of others" if others.any() else ""
    axes.note(ax, f"{source}; {legend}; dots: bottleneck; width: amount", theme)
    axes.remove_frame(ax, theme)


def _steps(positions: Sequence[int]) -> list[tuple[int, int]]:
    """From the input up: (key below, query above) of each layer a route passes."""
    upward = list(reversed(positions))
    return list(pairwise(upward))


def _mark_cut(ax: Axes, trace: FlowTrace, theme: Theme) -> None:
    """Edges of the minimum cut: they are full, and no more can pass."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    base, cut = trace.to_layer, sorted(trace.cut, key=lambda edge: -edge.capacity)[:BUDGET]
    lines = [[(edge.layer - base, edge.query), (edge.layer - base - 1, edge.key)] for edge in cut]
    largest = max((edge.capacity for edge in cut), default=1.0)
    ax.add_collection(
        LineCollection(
            lines,
            colors=[to_rgba(theme.cut, 0.3 + 0.7 * edge.capacity / largest) for edge in cut],
            linewidths=[0.4 + 1.2 * edge.capacity / max(1.0, largest) for edge in cut],
            linestyles=(0, (1.2, 1.6)),
            zorder=4,
        ),
        autolim=False,
    )


def size(shown: Attribution | FlowTrace, **_: Any) -> tuple[float, float]:
    """Width and height of the drawing in inches, without tokens and title."""
    tokens = len(shown.tokens)
    wide = 0.4 if tokens <= 12 else 0.5
    layers = len(shown.layers if isinstance(shown, Attribution) else shown.edges)
    across = min(WIDEST, max(2.0, wide * layers))
    return across, max(1.2, Scale(tokens).height)


MEMBER = Kind(
    "graph", draw, size, panels=("trace",), selection={"layers": "all", "query": "all"}, edges=True
)
