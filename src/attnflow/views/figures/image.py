"""Scores of patches over the picture they were cut from."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError
from attnflow.io.files import is_file
from attnflow.io.pictures import open_image
from attnflow.records import Attribution, FloatArray
from attnflow.views.figures import axes, maps
from attnflow.views.figures.axes import Theme
from attnflow.views.kinds import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(
    ax: Axes,
    attribution: Attribution,
    theme: Theme,
    *,
    picture: Any = None,
    strength: float = 0.75,
) -> None:
    """The scores' colours over the picture: clear where patches have the lowest scores.

    ``picture`` is a file, a PIL image or an array ``[row, column]`` or ``[row, column, channel]``;
    by default the file that was explained, and where there is none only the scores are drawn.
    ``strength`` is how much the highest score covers the picture, 0 to 1.
    """
    scores = attribution.patches()
    grid = attribution.grid
    if scores.ndim != 2 or grid is None:
        msg = "a picture shows merged heads, and this attribution has single heads"
        raise InputError(msg)
    if picture is None and is_file(Path(attribution.text)):
        picture = attribution.text
    high, wide = grid.image
    low, highest = float(scores.min()), float(scores.max())
    span = highest - low or 1.0
    if picture is not None:
        grey = pixels(picture, grid.image)
        ax.imshow(grey, cmap="gray", vmin=0, vmax=1, extent=(0.0, wide, high, 0.0))
    left, top, right, bottom = grid.box
    mesh = ax.imshow(
        scores,
        cmap=theme.scale(attribution.method) if picture is None else "viridis",
        vmin=low,
        vmax=highest if highest > low else low + 1.0,
        extent=(left, right, bottom, top),
        interpolation="nearest",
        alpha=None if picture is None else strength * (0.05 + 0.95 * (scores - low) / span),
    )
    ax.set(xlim=(0, wide), ylim=(high, 0), aspect="equal", xticks=[], yticks=[])
    ax.set_anchor("NW")
    maps.colour_scale(ax, mesh, theme, axes.meaning(attribution), image_width=size(attribution)[0])
    axes.heading(ax, axes.title_of(attribution), theme, axes.colour_name(attribution))
    axes.note(ax, axes.source(attribution, f" at layer {attribution.layer}"), theme)
    axes.remove_frame(ax, theme)


def pixels(picture: Any, size: tuple[int, int]) -> FloatArray:
    """The picture in grey, ``[row, column]`` from 0 to 1, of the height and width expected."""
    if isinstance(picture, str | PathLike) or hasattr(picture, "convert"):
        picture, _ = open_image(picture)
    array = np.asarray(picture)
    if array.shape[:2] != size or array.ndim not in (2, 3):
        msg = f"the picture has shape {array.shape}; the image explained was {size[0]} × {size[1]}"
        raise InputError(msg)
    scaled = array.astype(np.float64) / (255 if array.dtype == np.uint8 else 1)
    return np.clip(scaled if scaled.ndim == 2 else scaled[..., :3].mean(-1), 0, 1)


def size(attribution: Attribution, **_: Any) -> tuple[float, float]:
    """Width and height of the drawing in inches, without title."""
    high, wide = attribution.grid.image if attribution.grid else (1, 1)
    height = min(4.0, max(1.2, 2.4 * high / wide))
    return min(2.8, max(1.6, height * wide / high + 0.4)), height


MEMBER = Kind("image", draw, size, shares_rows=False, needs="a vision model")
