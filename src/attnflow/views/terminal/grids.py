"""The patches of an image in their places, each as strong as its score."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnflow.records import Attribution
from attnflow.views.methods import name_of
from attnflow.views.scaling import ordinary_patches
from attnflow.views.terminal import paint

CELL = 2  # two cells of a terminal are about as wide as high


def patch_grids(attributions: Sequence[Attribution], console: Console) -> RenderableType:
    """One grid per method, side by side as far as they fit."""
    width = attributions[0].patches().shape[1] * CELL + 2
    across = max(1, (console.width + 2) // width)
    parts: list[RenderableType] = []
    for at in range(0, len(attributions), across):
        group = attributions[at : at + across]
        table = Table.grid(padding=(0, 2, 0, 0))
        for _ in group:
            table.add_column(no_wrap=True)
        table.add_row(*(Text(name_of(item), paint.ink(item.method)) for item in group))
        table.add_row(*(_grid(item, plain=paint.is_plain(console)) for item in group))
        parts += [table, Text("")]
    legend = "Shades run from the lowest to the highest score; patches are named row,column."
    return Group(*parts, Text(legend, style="dim"))


def _grid(attribution: Attribution, *, plain: bool) -> Text:
    scores = attribution.patches()
    levels = paint.stretch(scores.ravel(), ordinary_patches(attribution)).reshape(scores.shape)
    cells = [_cell(float(level), attribution.method, plain=plain) for level in levels.ravel()]
    wide = scores.shape[1]
    lines = [Text.assemble(*cells[at : at + wide]) for at in range(0, len(cells), wide)]
    return Text("\n").join(lines)


def _cell(level: float, method: str, *, plain: bool) -> Text:
    if level < paint.UNSEEN:
        return Text("·".ljust(CELL), "dim")  # so that the grid can be seen
    if plain:
        return Text(paint.shade(level) * CELL)
    return Text(" " * CELL, paint.style(level, method))
