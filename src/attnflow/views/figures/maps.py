"""Maps of cells: their colours, the numbers in them, and the scale beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.records import Attribution, FloatArray
from attnflow.views.colours import ordinary_positions
from attnflow.views.figures.axes import Scale, Theme
from attnflow.views.wording.numbers import power_for, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.image import AxesImage
    from matplotlib.text import Text

NUMBER = "a number in a cell"  # marks texts
FILLED = 0.76  # of a cell's width by its number, at most
SMALLEST = 3.5  # points of numbers that can be read in print


def cells(
    ax: Axes,
    values: FloatArray,
    theme: Theme,
    *,
    method: str,
    excluded: Sequence[int] = (),
    signed: bool = False,
) -> QuadMesh:
    """A map of values ``[row, column]`` in a method's colours, from zero to the largest.

    The rows ``excluded`` don't set the scale. Signed values have two colours, and zero none.
    """
    sizes = np.abs(values) if signed else values
    others = np.delete(sizes, excluded, axis=0)
    largest = float(others.max(initial=0.0)) or float(sizes.max(initial=0.0)) or 1.0
    rows, across = values.shape
    mesh = ax.pcolormesh(  # vector cells: viewers of PDF blur small images
        np.arange(across + 1) - 0.5,
        np.arange(rows + 1) - 0.5,
        values,
        cmap=theme.diverging if signed else theme.scale(method),
        vmin=-largest if signed else 0.0,
        vmax=largest,
        edgecolors=theme.paper,
        linewidth=0.8,
    )
    ax.set(xlim=(-0.5, across - 0.5), ylim=(rows - 0.5, -0.5))
    return mesh


def map_size(columns: int, rows: int, *, values: bool) -> tuple[float, float]:
    """Width and height of a map in inches; numbers in its cells need room."""
    wide = max(1.7, 0.28 * min(columns, 12) + 0.5)
    return max(wide, 0.29 * columns + 0.5) if values else wide, Scale(rows).height


def scale_columns(values: FloatArray, excluded: Sequence[int]) -> FloatArray:
    """Each column from 0, its smallest value, to 1, its largest, without the ``excluded`` rows."""
    others = np.delete(values, excluded, axis=0)
    low = others.min(axis=0, initial=np.inf)
    span = others.max(axis=0, initial=-np.inf) - low
    known = np.isfinite(span) & (span > 0)
    scaled: FloatArray = (values - np.where(known, low, 0)) / np.where(known, span, 1)
    return np.clip(np.where(known, scaled, 0), 0, None)


def positions_off_scale(attribution: Attribution) -> list[int]:
    """The positions that don't set the scale: the explained one, and special tokens."""
    ordinary = set(ordinary_positions(attribution))
    return [at for at in range(len(attribution.tokens)) if at not in ordinary]


def values_of(mesh: AxesImage | QuadMesh) -> FloatArray:
    """The values of a map."""
    return np.asarray(mesh.get_array(), dtype=np.float64)


def colour_scale(
    ax: Axes,
    mesh: AxesImage | QuadMesh,
    theme: Theme,
    meaning: str = "",
    image_width: float | None = None,
) -> None:
    """What the colours of a map mean; an arrow where values lie beyond the largest colour.

    ``meaning`` is what the numbers are. Beside an image, ``image_width`` inches wide, the scale is
    as high as the image.
    """
    low, high = mesh.get_clim()
    beyond = bool((values_of(mesh) > high).any()), bool((values_of(mesh) < low).any())
    place: dict[str, Any] = {
        "ax": ax,
        "fraction": 0.06,
        "pad": 0.03,
        "aspect": 24,
        "anchor": (0.0, 1.0),
        "shrink": _shrink(mesh),
    }
    if image_width is not None:
        box = (1 + 0.06 / image_width, 0.0, 0.08 / image_width, 1.0)
        place = {"cax": ax.inset_axes(box)}
    extend = {(True, True): "both", (True, False): "max", (False, True): "min"}.get(beyond)
    bar = ax.figure.colorbar(mesh, extend=extend or "neither", extendfrac=0.04, **place)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2, labelsize=7, colors=theme.muted, pad=2)
    bar.locator = _few_ticks()
    power = power_for(max(abs(low), abs(high)))
    if power:
        bar.formatter = _in_units(power)
    named = f"{meaning} {unit(power)}".strip()
    if named:
        bar.set_label(named, fontsize=7, color=theme.muted, labelpad=2)
    bar.update_ticks()


def _shrink(mesh: AxesImage | QuadMesh) -> float:
    """The part of a tall map's height that its scale takes."""
    return min(1.0, 2.2 / Scale(len(values_of(mesh))).height)


def _in_units(power: int) -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: f"{value / 10.0**power:g}".replace("-", "−"))


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10])


def write_values(ax: Axes, values: FloatArray, mesh: AxesImage | QuadMesh, theme: Theme) -> None:
    """The numbers in the cells of a map, legible on the colours it has."""
    size = Scale(values.shape[0]).font * 0.72
    cells = mesh.cmap(np.asarray(mesh.norm(values_of(mesh))))
    # Else many cells would say the same.
    digits = 2 if np.abs(values).max(initial=0.0) >= 0.1 else 3
    for (row, column), value in np.ndenumerate(values):
        ax.text(
            column,
            row,
            _short(value, digits),
            ha="center",
            va="center",
            fontsize=size,
            label=NUMBER,
            color=max((theme.ink, theme.paper), key=lambda c: contrast(c, cells[row, column])),
        )


def numbers_in(ax: Axes) -> list[Text]:
    """The numbers in the cells of a map."""
    return [text for text in ax.texts if text.get_label() == NUMBER]


def fit_numbers(charts: Sequence[Axes]) -> list[Axes]:
    """Make the numbers of maps small enough for their cells, all alike; the figure has its layout.

    Where nobody could read them they are left out; these maps are returned.
    """
    sizes = {ax: _fitting_size(ax) for ax in charts}
    legible = min((size for size in sizes.values() if size >= SMALLEST), default=SMALLEST)
    for ax, size in sizes.items():
        for text in numbers_in(ax):
            if size < SMALLEST:
                text.remove()
            else:
                text.set_fontsize(legible)
    return [ax for ax, size in sizes.items() if size < SMALLEST]


def _fitting_size(ax: Axes) -> float:
    """The size, in points, at which every number fits into its cell: at most what it is."""
    numbers = numbers_in(ax)
    across, down = (abs(end - start) for start, end in (ax.get_xlim(), ax.get_ylim()))
    extents = [text.get_window_extent() for text in numbers]
    wide = ax.bbox.width / across / max(extent.width for extent in extents)
    high = ax.bbox.height / down / max(extent.height for extent in extents)
    return float(numbers[0].get_fontsize()) * min(FILLED * wide, high, 1.0)


def _short(value: float, digits: int) -> str:
    """A number without a leading zero: ``.25``, ``-.3``, ``12.5``."""
    text = f"{value:.{digits if abs(value) < 10 else 1}f}"
    sign = "-" if text.startswith("-") else ""
    return sign + text.removeprefix("-").removeprefix("0")


def contrast(one: Any, other: Any) -> float:
    """How well two colours can be told apart, 1 to 21, as the WCAG measures it."""
    from matplotlib.colors import to_rgb

    parts = np.array([to_rgb(one), to_rgb(tuple(other[:3]))])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    dark, light = sorted(linear @ (0.2126, 0.7152, 0.0722))
    return float((light + 0.05) / (dark + 0.05))
