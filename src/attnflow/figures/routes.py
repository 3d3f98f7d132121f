"""Through which tokens the flow came, and where it was narrow: one maximum flow drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.figures import axes, graph
from attnflow.figures.style import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    FlowTrace = Any


def draw(ax: Axes, trace: FlowTrace, tokens: Sequence[str], theme: Theme, *, most: int = 5) -> None:
    """The flow on every edge in grey, the ``most`` largest routes in colour, the cut in dashes."""
    flows = np.asarray(trace.edges)
    depth = len(trace.routes[0].positions) - 1 if trace.routes else len(flows)
    flows = flows[:depth]
    largest = float(flows.max(initial=0.0)) or 1.0
    carried = np.zeros_like(flows)
    for route in trace.routes[:most]:
        for level, (key, query) in enumerate(_steps(route.positions)):
            carried[level, query, key] += route.amount
    graph.nodes(ax, depth + 1, len(tokens), theme)
    grey = graph.Lines(theme.muted, 2, largest, faint=True)
    graph.edges(ax, np.where(flows > 0.002 * largest, flows, 0), range(len(tokens)), grey)
    colour = graph.Lines(theme.method("flow"), 3, largest)
    graph.edges(ax, carried, range(len(tokens)), colour)
    _mark_cut(ax, trace, theme)
    source, sink = (trace.routes[0].positions[end] for end in (0, -1)) if trace.routes else (0, 0)
    axes.token_rows(ax, tokens, theme, bold=sink)
    names = ["input", *(f"L{layer + 1}" for layer in range(depth))]
    axes.columns(ax, names, theme.muted, every=axes.thinning(len(names), 10))
    axes.heading(ax, f"Routes to {axes.label(tokens[sink])}", theme, "flow")
    shown = sum(route.amount for route in trace.routes[:most])
    what = f"flow {trace.value:.3g} from {axes.label(tokens[source])}; dashed: bottleneck"
    axes.note(ax, f"{what}; coloured: {shown / trace.value if trace.value else 0:.0%} of it", theme)
    axes.bare(ax, theme)


def _steps(positions: Sequence[int]) -> list[tuple[int, int]]:
    """From the input up: (key below, query above) of each layer a route passes."""
    upward = list(reversed(positions))
    return list(pairwise(upward))


def _mark_cut(ax: Axes, trace: FlowTrace, theme: Theme) -> None:
    """Edges of the minimum cut: they are full, and no more can pass."""
    from matplotlib.collections import LineCollection

    lines = [[(edge.layer, edge.query), (edge.layer - 1, edge.key)] for edge in trace.cut]
    widths = [0.4 + 1.2 * edge.capacity for edge in trace.cut]
    ax.add_collection(
        LineCollection(
            lines, colors=theme.cut, linewidths=widths, linestyles=(0, (1.2, 1.6)), zorder=4
        ),
        autolim=False,
    )
