"""Figures 2 and 3 and appendix A.1 of the paper: what a position attends to, by layer or head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError
from attnflow.records import Attribution
from attnflow.views.figures import axes, maps
from attnflow.views.figures.axes import Theme
from attnflow.views.kinds import Kind
from attnflow.views.wording.labels import written
from attnflow.views.wording.names import is_signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(
    ax: Axes,
    attribution: Attribution,
    theme: Theme,
    *,
    values: bool = False,
    relative: bool = False,
) -> None:
    """Tokens × layers, for the position that is explained.

    ``values`` writes the numbers into the cells. ``relative`` stretches the colours of each layer
    from its lowest to its highest score, so that small differences show.
    """
    if attribution.scores.ndim == 4:
        msg = "a heat map shows layers, and this attribution has single heads; use kind 'heads'"
        raise InputError(msg)
    scores = attribution.of_layers().T
    excluded = maps.positions_off_scale(attribution)
    levels = maps.scale_columns(scores, excluded) if relative else scores
    signed = is_signed(attribution)
    if signed and relative:
        msg = (
            f"relative=True is not for scores with signs ({attribution.method}): their colours "
            "start at 0; leave it out"
        )
        raise InputError(msg)
    mesh = maps.cells(
        ax, levels, theme, method=attribution.method, excluded=excluded, signed=signed
    )
    if values:
        maps.write_values(ax, scores, mesh, theme)
    axes.token_rows(ax, written(attribution), theme, bold=axes.explained_row(attribution))
    axes.columns(ax, axes.layer_names(attribution), theme.muted, attribution.layers)
    maps.colour_scale(ax, mesh, theme, axes.meaning(attribution, relative=relative))
    axes.heading(ax, axes.title_of(attribution), theme, axes.colour_name(attribution))
    scale = ", colours per layer" if relative else ""
    divided = axes.divide_segments(ax, attribution, theme)
    axes.note(ax, axes.source(attribution, scale) + divided, theme)
    axes.remove_frame(ax, theme)


def size(attribution: Attribution, *, values: bool = False, **_: Any) -> tuple[float, float]:
    """Width and height of the drawing in inches, without tokens and title."""
    return maps.map_size(len(attribution.layers), len(attribution.tokens), values=values)


MEMBER = Kind("heatmap", draw, size, selection={"layers": "all"})


def draw_heads(ax: Axes, attribution: Attribution, theme: Theme, *, values: bool = False) -> None:
    """Tokens × heads, for the layer and the position that are explained.

    ``values`` writes the numbers into the cells.
    """
    if attribution.scores.ndim != 4:
        msg = "this attribution has its heads merged; explain with heads='each' to see single heads"
        raise InputError(msg)
    rows = attribution.row()
    excluded = maps.positions_off_scale(attribution)
    signed = is_signed(attribution)
    mesh = maps.cells(
        ax, rows.T, theme, method=attribution.method, excluded=excluded, signed=signed
    )
    if values:
        maps.write_values(ax, rows.T, mesh, theme)
    axes.token_rows(ax, written(attribution), theme, bold=axes.explained_row(attribution))
    axes.every_column(ax, [f"H{head}" for head in range(len(rows))], theme.muted)
    maps.colour_scale(ax, mesh, theme, axes.meaning(attribution))
    axes.heading(ax, axes.title_of(attribution), theme, axes.colour_name(attribution))
    divided = axes.divide_segments(ax, attribution, theme)
    axes.note(ax, axes.source(attribution, f" at layer {attribution.layer}") + divided, theme)
    axes.remove_frame(ax, theme)


def heads_size(attribution: Attribution, *, values: bool = False, **_: Any) -> tuple[float, float]:
    """Width and height of the drawing in inches, without tokens and title."""
    return maps.map_size(attribution.scores.shape[1], len(attribution.tokens), values=values)


HEADS = Kind("heads", draw_heads, heads_size, selection={"heads": "each"})
