"""One maximum flow: the tokens it passes, its largest routes and its bottleneck."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from attnflow.views.figures import axes, graph
from attnflow.views.figures.style import Theme
from attnflow.views.wording.numbers import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnflow.records import FlowTrace


def draw(ax: Axes, trace: FlowTrace, tokens: Sequence[str], theme: Theme, *, most: int = 5) -> None:
    """The flow on every edge in grey, the ``most`` largest routes in colour, the cut dotted."""
    flows = np.asarray(trace.edges)
    depth = trace.layer - trace.to_layer
    largest = float(flows.max(initial=0.0)) or 1.0
    carried = np.zeros_like(flows)
    for route in trace.routes[:most]:
        for level, (key, query) in enumerate(_steps(route.positions)):
            carried[level, query, key] += route.amount
    graph.nodes(ax, depth + 1, len(tokens), theme)
    grey = graph.Lines(theme.muted, 2, largest, faint=True)
    graph.edges(ax, np.where(flows > 0.002 * largest, flows, 0), range(len(tokens)), grey)
    colour = graph.Lines(theme.method(trace.method), 3, largest)
    graph.edges(ax, carried, range(len(tokens)), colour)
    _mark_cut(ax, trace, theme)
    axes.token_rows(ax, tokens, theme, bold=trace.key)
    layers = range(trace.to_layer, trace.layer + 1)
    names = [f"L{layer}" if layer else "input" for layer in layers]
    axes.columns(ax, names, theme.muted, layers)
    axes.heading(ax, f"Routes from {axes.label(tokens[trace.key])}", theme, trace.method)
    coloured = sum(route.amount for route in trace.routes[:most])
    share = coloured / trace.value if trace.value else 0
    source = f"{trace.method} {number(trace.value)} to {axes.label(tokens[trace.query])}"
    legend = f"coloured: the largest routes, {share:.0%} of it; grey: the rest"
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

    base = trace.to_layer
    lines = [
        [(edge.layer - base, edge.query), (edge.layer - base - 1, edge.key)] for edge in trace.cut
    ]
    largest = max((edge.capacity for edge in trace.cut), default=1.0)
    ax.add_collection(
        LineCollection(
            lines,
            colors=[to_rgba(theme.cut, 0.3 + 0.7 * edge.capacity / largest) for edge in trace.cut],
            linewidths=[0.4 + 1.2 * edge.capacity for edge in trace.cut],
            linestyles=(0, (1.2, 1.6)),
            zorder=4,
        ),
        autolim=False,
    )
