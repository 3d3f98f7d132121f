"""What an input is made of, each piece as strong as its score."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, RenderableType

from attnflow.records import Attribution
from attnflow.views.terminal.grids import patch_grids
from attnflow.views.terminal.sounds import time_strips
from attnflow.views.terminal.strips import strips


def pieces(attributions: Sequence[Attribution], console: Console) -> RenderableType:
    """Tokens in a row, patches in their places, or frames over time."""
    grid = attributions[0].grid
    if grid is None:
        return strips(attributions, console)
    draw = patch_grids if grid.seconds is None else time_strips
    return draw(attributions, console)
