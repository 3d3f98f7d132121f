"""Tokens of one text × tokens of another: what made the two similar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnflow.records.similarity import Similarity
from attnflow.views.figures import axes, maps
from attnflow.views.figures.axes import Scale, find_theme
from attnflow.views.wording.names import rule_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(
    of: Similarity, ax: Axes | None = None, *, theme: str = "light", values: bool = False
) -> Axes:
    """A heat map of contributions, special tokens off the scale of colours."""
    colours = find_theme(theme)
    if ax is None:
        from matplotlib import pyplot

        wide, high = size(of)
        _, ax = pyplot.subplots(
            figsize=(wide + 1.8, high + 1.6), layout="constrained", facecolor=colours.paper
        )
    rows, columns = of.first.ordinary, of.second.ordinary
    mesh = maps.cells(ax, of.scores, colours, method=of.method, signed=True)
    largest = float(abs(of.scores[rows][:, columns]).max(initial=0.0))
    if largest:
        mesh.set_clim(-largest, largest)
    if values:
        maps.write_values(ax, of.scores, mesh, colours)
    axes.token_rows(ax, of.first.tokens, colours)
    names = axes.labels(of.second.tokens)
    axes.name_ticks(ax.xaxis, names, colours.ink, Scale(len(names)).font)
    ax.xaxis.tick_top()
    for tick in ax.get_xticklabels():
        tick.set(rotation=90, va="bottom")
    maps.colour_scale(ax, mesh, colours, "part of the cosine")
    edges = rule_name(str(of.options.get("edges", "attention")))
    axes.heading(ax, f"Cosine {of.cosine:.3f}", colours)
    axes.note(ax, f"{of.pooling} of states, traced by {of.method} on {edges} edges", colours)
    axes.remove_frame(ax, colours)
    return ax


def size(of: Similarity) -> tuple[float, float]:
    """Width and height of the map in inches."""
    return Scale(len(of.second.tokens)).height + 0.6, Scale(len(of.first.tokens)).height


def figure(of: Similarity, *, theme: str = "light", values: bool = False) -> Figure:
    """The heat map as a figure of its own, to be saved."""
    from matplotlib.figure import Figure

    wide, high = size(of)
    made = Figure(
        figsize=(wide + 1.8, high + 1.6),
        layout="constrained",
        facecolor=find_theme(theme).paper,
    )
    draw(of, made.subplots(), theme=theme, values=values)
    return made
