"""The frames of a sound over time, each piece of it as strong as its highest score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.text import Text

from attnflow.records import Attribution, FloatArray
from attnflow.views.methods import name_of
from attnflow.views.scaling import ordinary_patches
from attnflow.views.terminal import paint


def time_strips(attributions: Sequence[Attribution], console: Console) -> RenderableType:
    """One strip per method, one below the other, over a scale of seconds."""
    grid = attributions[0].grid
    if grid is None or grid.seconds is None:
        return Text("")
    names = max(len(name_of(item)) for item in attributions) + 1
    cells = min(grid.columns, max(10, console.width - names - 2))
    parts: list[RenderableType] = []
    for item in attributions:
        for at, line in enumerate(_lines(item, cells, plain=paint.is_plain(console))):
            name = name_of(item) if not at else ""
            parts.append(Text.assemble((name.ljust(names), paint.ink(item.method)), line))
    seconds = f"{grid.box[2] / grid.image[1] * grid.seconds:.2f} s"
    parts.append(Text(" " * names + "0" + seconds.rjust(cells - 1), style="dim"))
    frames = grid.columns / cells
    legend = "Shades run from the lowest to the highest score of other frames"
    if frames > 1:
        legend += f"; a cell shows the highest of about {frames:.1f} frames"
    return Group(*parts, Text(f"{legend}.", style="dim"))


def _lines(attribution: Attribution, cells: int, *, plain: bool) -> list[Text]:
    """A line per row, high frequencies first."""
    scores: FloatArray = attribution.patches()
    starts = np.arange(cells) * scores.shape[1] // cells
    levels = paint.stretch(scores.ravel(), ordinary_patches(attribution)).reshape(scores.shape)
    levels = np.maximum.reduceat(levels, starts, axis=1)
    return [
        Text.assemble(*(_cell(float(level), attribution.method, plain=plain) for level in row))
        for row in levels[::-1]
    ]


def _cell(level: float, method: str, *, plain: bool) -> Text:
    if plain:
        return Text(paint.block(level))
    return Text("·", "dim") if level < paint.UNSEEN else Text(" ", paint.style(level, method))
