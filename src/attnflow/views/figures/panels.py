"""Several drawings side by side in one figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from attnflow.errors import InputError
from attnflow.records import Attribution
from attnflow.views.figures import graph, pronouns, routes
from attnflow.views.figures.style import LABEL_WIDTH, Scale, Theme
from attnflow.views.labels import clip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnflow.views.figures import Kind

TITLE_HEIGHT = 0.75  # inches for title and note


@dataclass(frozen=True)
class Panel:
    """A drawing and the size of its axes, in inches."""

    draw: Callable[[Axes], None]
    width: float
    height: float
    labels: tuple[str, ...] = ()  # to its left; neighbours with the same labels share them


def compose(
    kind: Kind, attributions: Sequence[Attribution], theme: Theme, options: dict[str, Any]
) -> Figure:
    """The figure of one panel for each attribution, and what the options add."""
    if not attributions:
        msg = "a figure needs at least one attribution"
        raise InputError(msg)
    probabilities = options.pop("probabilities", None)
    trace = options.pop("trace", None)
    panels = [_panel(kind, attribution, theme, options) for attribution in attributions]
    if probabilities:
        height = panels[0].height
        wide = pronouns.BARS_WIDTH
        bars = Panel(lambda ax: pronouns.bars(ax, probabilities, theme, height), wide, height)
        panels.insert(0, bars)
    if trace is not None:
        tokens = attributions[-1].tokens
        wide, high = graph.size(attributions[-1])
        panels.append(Panel(lambda ax: routes.draw(ax, trace, tokens, theme), wide, high, tokens))
    return _side_by_side(panels, theme)


def _panel(kind: Kind, attribution: Attribution, theme: Theme, options: dict[str, Any]) -> Panel:
    wide, high = kind.size(attribution, **options)
    labels = attribution.tokens if kind.shares_rows else ()
    return Panel(lambda ax: kind.draw(ax, attribution, theme, **options), wide, high, labels)


def _side_by_side(panels: Sequence[Panel], theme: Theme) -> Figure:
    shared = [
        bool(at and panel.labels and panels[at - 1].labels == panel.labels)
        for at, panel in enumerate(panels)
    ]
    beside = sum(
        _label_inches(panel.labels) for panel, same in zip(panels, shared, strict=True) if not same
    )
    width = sum(panel.width for panel in panels) + beside + 0.3 * len(panels)
    height = max(panel.height for panel in panels) + TITLE_HEIGHT
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=theme.paper)
    grid = figure.add_gridspec(1, len(panels), width_ratios=[panel.width for panel in panels])
    for at, panel in enumerate(panels):
        ax = figure.add_subplot(grid[0, at])
        panel.draw(ax)
        if shared[at]:
            ax.tick_params(labelleft=False)
    return figure


def _label_inches(labels: Sequence[str]) -> float:
    """About how wide the widest label is."""
    from rich.cells import cell_len

    if not labels:
        return 0.3
    widest = max(cell_len(clip(label, LABEL_WIDTH)) for label in labels)
    return widest * Scale(len(labels)).font * 0.62 / 72 + 0.1
