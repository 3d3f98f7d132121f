"""Scores of patches over the picture they were cut from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attnflow.errors import InputError
from attnflow.figures import axes
from attnflow.figures.style import Theme
from attnflow.records import Attribution, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(
    ax: Axes,
    attribution: Attribution,
    theme: Theme,
    *,
    picture: Any = None,
    grid: tuple[int, int] | None = None,
    strength: float = 0.75,
) -> None:
    """The picture, dimmed where patches have low scores, with the scores' colours over it.

    ``picture`` is a file or an array ``[row, column]`` or ``[row, column, channel]``; without one
    only the scores are drawn. ``grid`` is the number of patches down and across, where the
    attribution doesn't say it. ``strength`` is how much the scores cover the picture, 0 to 1.
    """
    scores = patches(attribution, grid)
    rows, across = scores.shape
    backdrop = None if picture is None else pixels(picture)
    high, wide = (rows, across) if backdrop is None else backdrop.shape[:2]
    extent = (0.0, float(wide), float(high), 0.0)
    largest = float(scores.max()) or 1.0
    if backdrop is not None:
        grey = backdrop if backdrop.ndim == 2 else backdrop[..., :3].mean(-1)
        ax.imshow(grey, cmap="gray", vmin=0, vmax=1, extent=extent)
    mesh = ax.imshow(
        scores,
        cmap=theme.cmap if backdrop is None else "viridis",
        vmin=0,
        vmax=largest,
        extent=extent,
        interpolation="nearest",
        alpha=None if backdrop is None else strength * (0.15 + 0.85 * scores / largest),
    )
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    axes.colour_scale(ax, mesh, theme)
    axes.heading(ax, axes.title_of(attribution), theme, attribution.method)
    source = axes.label(attribution.tokens[attribution.query])
    axes.note(ax, f"from {source} at layer {attribution.layer}", theme)
    axes.bare(ax, theme)


def patches(attribution: Attribution, grid: tuple[int, int] | None) -> FloatArray:
    """The scores of the patches as ``[row, column]``, special tokens left out."""
    shape = grid or attribution.options.get("grid")
    values = attribution.values
    if values.ndim != 1:
        msg = "a picture shows merged heads, and this attribution has single heads"
        raise InputError(msg)
    if shape is None:
        side = int(np.sqrt(len(values)))
        shape = (side, side)
    count = int(shape[0]) * int(shape[1])
    if not 0 < count <= len(values):
        msg = f"grid={tuple(shape)} needs {count} patches; this attribution has {len(values)} tokens"
        raise InputError(msg)
    return values[len(values) - count :].reshape(int(shape[0]), int(shape[1]))


def pixels(picture: Any) -> npt.NDArray[np.float64]:
    """The picture as numbers from 0 to 1."""
    if isinstance(picture, str | Path):
        from PIL import Image

        try:
            with Image.open(picture) as opened:
                picture = opened.convert("RGB")
        except OSError as error:
            msg = f"can't read the picture {str(picture)!r}: {error}"
            raise InputError(msg) from None
    array = np.asarray(picture)
    if array.ndim not in (2, 3):
        msg = f"a picture is [row, column] or [row, column, channel], not of shape {array.shape}"
        raise InputError(msg)
    scaled = array.astype(np.float64)
    return scaled / 255 if array.dtype == np.uint8 else np.clip(scaled, 0, 1)


def size(attribution: Attribution) -> tuple[float, float]:
    """Width and height of the drawing in inches, without title."""
    return 2.8, 2.4
