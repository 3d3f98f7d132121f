"""Appendix A.1 of the paper: what each head of a layer attends to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError
from attnflow.records import Attribution
from attnflow.views.figures import axes, maps
from attnflow.views.figures.style import Theme
from attnflow.views.kinds import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(ax: Axes, attribution: Attribution, theme: Theme, *, values: bool = False) -> None:
    """Tokens × heads, for the layer and the position that are explained.

    ``values`` writes the numbers into the cells.
    """
    if attribution.scores.ndim != 4:
        msg = "this attribution has its heads merged; explain with heads='each' to see single heads"
        raise InputError(msg)
    rows = attribution.row()
    excluded = maps.positions_off_scale(attribution)
    mesh = maps.cells(ax, rows.T, theme, method=attribution.method, excluded=excluded)
    if values:
        maps.write_values(ax, rows.T, mesh, theme)
    axes.token_rows(ax, attribution.tokens, theme, bold=axes.explained_row(attribution))
    names = [f"H{head}" for head in range(len(rows))]
    axes.columns(ax, names, theme.muted, range(len(names)))
    maps.colour_scale(ax, mesh, theme, axes.meaning(attribution))
    axes.heading(ax, axes.title_of(attribution), theme, attribution.method)
    divided = axes.divide_segments(ax, attribution, theme)
    axes.note(ax, axes.source(attribution, f" at layer {attribution.layer}") + divided, theme)
    axes.remove_frame(ax, theme)


def size(attribution: Attribution, *, values: bool = False, **_: Any) -> tuple[float, float]:
    """Width and height of the drawing in inches, without tokens and title."""
    return maps.map_size(attribution.scores.shape[1], len(attribution.tokens), values=values)


MEMBER = Kind("heads", draw, size, selection={"heads": "each"})
