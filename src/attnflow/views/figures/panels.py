"""Several drawings side by side in one figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from attnflow.errors import InputError
from attnflow.views.figures import axes, graph, maps, pronouns
from attnflow.views.figures.axes import Scale, Theme
from attnflow.views.figures.files import PageFigure
from attnflow.views.wording.labels import written

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnflow.views.kinds import Kind

TITLE_HEIGHT = 0.75  # inches for title and note
CAPTION_HEIGHT = 0.2  # inches for a line
# Of the width that a panel would have: below it, panels go to the next row; where these do not fit
# on a page, narrower ones stand side by side.
NARROWEST = (0.55, 0.35, 0.15)
PAGE_HEIGHT = 9.0  # inches
NO_NUMBERS = "numbers would not fit into the cells"
LOWEST_ROW = 0.105  # inches of a token that can still be read


@dataclass(frozen=True)
class Panel:
    """A drawing and the size of its axes, in inches."""

    draw: Callable[[Axes], None]
    width: float
    height: float
    labels: tuple[str, ...] = ()  # to its left; neighbours with the same labels share them

    @property
    def row(self) -> float:
        """The height of a label's row in inches; 0 without labels."""
        return self.height / len(self.labels) if self.labels else 0.0


def compose(
    kind: Kind,
    attributions: Sequence[Any],
    theme: Theme,
    options: dict[str, Any],
    width: float | None = None,
    caption: str | None = None,
) -> Figure:
    """The figure of one panel for each attribution, and what the options add.

    ``width``, in inches, is that of the page; without it a figure is as wide as it needs. The
    ``caption`` tells by default what was found.
    """
    if not attributions and options.get("trace") is None:
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
        tokens = attributions[-1].tokens if attributions else written(trace)
        wide, high = graph.size(attributions[-1] if attributions else trace)
        panels.append(
            Panel(lambda ax: graph.draw_routes(ax, trace, tokens, theme), wide, high, tokens)
        )
    if caption is None:
        caption = "" if probabilities or not attributions else axes.finding_of(attributions)
    return _arrange(panels, theme, width, caption)


def _panel(kind: Kind, attribution: Any, theme: Theme, options: dict[str, Any]) -> Panel:
    wide, high = kind.size(attribution, **options)
    labels = attribution.tokens if kind.shares_rows else ()
    return Panel(lambda ax: kind.draw(ax, attribution, theme, **options), wide, high, labels)


def _arrange(panels: Sequence[Panel], theme: Theme, width: float | None, caption: str) -> Figure:
    """All panels side by side; on a page of that width, in as many rows as they need."""
    rows = [list(panels)] if width is None else _fit_page(panels, width)
    needed = max(_row_width(row) for row in rows)
    heights = [max(panel.height for panel in row) + TITLE_HEIGHT for row in rows]
    across = needed if width is None else width
    lines = axes.caption_lines(caption, across)
    size = (across, sum(heights) + CAPTION_HEIGHT * len(lines))
    kind = Figure if width is None else PageFigure
    figure = kind(figsize=size, layout="constrained", facecolor=theme.paper)
    axes.write_caption(figure, lines, theme)
    rooms: dict[Axes, float] = {}
    outer = figure.add_gridspec(len(rows), 1, height_ratios=heights)
    for at, row in enumerate(rows):
        ratios = [panel.width for panel in row]
        if len(rows) > 1 and len(row) < len(rows[0]):  # a panel left over is no wider than others
            ratios += [panel.width for panel in rows[0][len(row) :]]
        grid = outer[at].subgridspec(1, len(ratios), width_ratios=ratios)
        shared = _share_labels(row)
        for place, panel in enumerate(row):
            ax = figure.add_subplot(grid[0, place])
            panel.draw(ax)
            axes.fit_rows(ax, panel.row)
            room = panel.width / sum(ratios) * (size[0] - _labels_width(row))
            if len(ratios) > 1 or width is not None:
                axes.fit_note(ax, room)
                axes.fit_heading(ax, room)
                axes.fit_columns(ax, room)
            rooms[ax] = room
            if shared[place]:
                ax.tick_params(labelleft=False)
    numbered = [ax for ax in rooms if width is not None and maps.numbers_in(ax)]
    if numbered:
        figure.draw_without_rendering()  # which says how wide cells are
        for ax in maps.fit_numbers(numbered):
            axes.note(ax, f"{ax.get_xlabel()}; {NO_NUMBERS}".replace("\n", " "), theme)
            axes.fit_note(ax, rooms[ax])
    return figure


def _fit_page(panels: Sequence[Panel], width: float) -> list[list[Panel]]:
    """Rows that fit on a page: lower where that stays legible, else with narrower panels.

    What fits in neither way is as low as can be read.
    """
    fitted: list[list[Panel]] = []
    for narrowest in NARROWEST:
        rows = _break_rows(panels, width, narrowest)
        room = PAGE_HEIGHT - TITLE_HEIGHT * len(rows) - 2 * CAPTION_HEIGHT
        share = room / sum(max(panel.height for panel in row) for row in rows)
        fitted = [[_lower(panel, share) for panel in row] for row in rows]
        if sum(max(panel.height for panel in row) for row in fitted) <= room:
            break
    return fitted


def _lower(panel: Panel, share: float) -> Panel:
    """The panel with that share of its height, or as low as can be read."""
    lowest = min(panel.height, max(LOWEST_ROW * len(panel.labels), panel.height / 2))
    return replace(panel, height=min(panel.height, max(share * panel.height, lowest)))


def _break_rows(panels: Sequence[Panel], width: float, narrowest: float) -> list[list[Panel]]:
    """Rows of panels that are still legible side by side: not much narrower than they would be."""
    rows: list[list[Panel]] = []
    for panel in panels:
        if rows and _row_width([*rows[-1], panel], narrowest) <= width:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return rows


def _row_width(row: Sequence[Panel], narrowed: float = 1.0) -> float:
    """The inches that panels take side by side, with their labels and scales."""
    return sum(panel.width for panel in row) * narrowed + _labels_width(row) + 0.3 * len(row)


def _labels_width(row: Sequence[Panel]) -> float:
    """The inches that labels take in a row of panels."""
    return sum(
        _label_inches(panel.labels)
        for panel, same in zip(row, _share_labels(row), strict=True)
        if not same
    )


def _share_labels(row: Sequence[Panel]) -> list[bool]:
    """Whether each panel has the labels of the one to its left."""
    return [
        bool(at and panel.labels and row[at - 1].labels == panel.labels)
        for at, panel in enumerate(row)
    ]


def _label_inches(labels: Sequence[str]) -> float:
    """About how wide the widest label is."""
    from rich.cells import cell_len

    if not labels:
        return 0.3
    widest = max(map(cell_len, axes.labels(labels)))
    return widest * Scale(len(labels)).font * 0.62 / 72 + 0.1
