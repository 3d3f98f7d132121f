"""What the kinds of figures share: tokens along an axis, titles, a colour scale."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.records import Attribution, FloatArray
from attnflow.views.figures.fonts import families_for
from attnflow.views.figures.style import LABEL_WIDTH, Scale, Theme
from attnflow.views.findings import is_ratio
from attnflow.views.labels import clip
from attnflow.views.methods import (
    describe_edges,
    describe_target,
    full_title,
    has_layers,
    is_signed,
    signs_note,
)
from attnflow.views.scaling import ordinary_positions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.collections import QuadMesh
    from matplotlib.image import AxesImage

NOTE_WIDTH = 42  # characters
NOTE_LETTER = 0.052  # inches of one, on average
DIVIDED = (("source", "target"), ("first", "second"), ("second", "target"))  # by a line between
ROUND = (1, 2, 5, 10, 20, 50, 100)


def title_of(attribution: Attribution) -> str:
    """The method's name as a title, with the edges where they are not attention's."""
    edges = str(attribution.options.get("edges", "attention"))
    return full_title(attribution.method, edges)


def label(token: str) -> str:
    """A token as a label of an axis."""
    return clip(token, LABEL_WIDTH)


def token_rows(ax: Axes, tokens: Sequence[str], theme: Theme, bold: int | None = None) -> None:
    """Tokens from top to bottom along the y axis, one in bold."""
    names = [label(token) for token in tokens]
    name_ticks(ax.yaxis, names, theme.ink, Scale(len(names)).font)
    if bold is not None:
        ax.get_yticklabels()[bold].set_fontweight("bold")


def explained_row(attribution: Attribution) -> int | None:
    """The row of the token asked about; none where it was the mean of several."""
    return None if attribution.pooled else attribution.query


def columns(
    ax: Axes, names: Sequence[str], colour: str, numbers: Sequence[int], most: int = 12
) -> None:
    """Names below numbered columns; of more than ``most``, the first and round numbers."""
    step = next((step for step in ROUND if len(names) <= step * most), len(names))
    places = [
        at for at, number in enumerate(numbers) if number % step == 0 or (not at and step > 2)
    ]
    name_ticks(ax.xaxis, names, colour, 8, places)


def name_ticks(
    axis: Axis, names: Sequence[str], colour: str, size: float, places: Sequence[int] | None = None
) -> None:
    """Names at 0, 1, 2 … of an axis, exactly as they are: a dollar sign is not a formula."""
    from matplotlib.ticker import FixedFormatter, FixedLocator

    ticks = range(len(names)) if places is None else places
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FixedFormatter([names[at] for at in ticks]))
    families = families_for(names)
    for tick in axis.get_ticklabels():
        tick.set(color=colour, fontsize=size, fontfamily=families, parse_math=False)


def layer_names(attribution: Attribution) -> list[str]:
    """L1, L2 … for the layers of an attribution; a method without layers has the output's."""
    if not has_layers(attribution):
        return ["output"]
    return [f"L{layer}" for layer in attribution.layers]


def heading(ax: Axes, text: str, theme: Theme, method: str = "", above: float = 6) -> None:
    """The title of a panel, in the colour of its method; ``above`` are points between them."""
    ax.set_title(
        text, fontsize=10, color=theme.method(method), fontweight="bold", loc="left", pad=above
    )


def note(ax: Axes, text: str, theme: Theme) -> None:
    """Lines below a panel that describe it."""
    text = "\n".join(_note_lines(text))
    ax.set_xlabel(
        text, fontsize=7.5, color=theme.muted, fontfamily=families_for([text]), parse_math=False
    )


def fit_note(ax: Axes, inches: float) -> None:
    """Break the lines below a panel anew, so that they end before those of its neighbours."""
    text = ax.get_xlabel().replace("\n", " ")
    lines = _note_lines(text, min(NOTE_WIDTH, int(inches / NOTE_LETTER)))
    ax.xaxis.label.set_text("\n".join(lines))


def meaning(attribution: Attribution, *, relative: bool = False) -> str:
    """What the numbers beside a colour scale are."""
    if relative:
        return "lowest to highest of each layer"
    return "× chance" if is_ratio(attribution) else "score"


def divide_segments(ax: Axes, attribution: Attribution, theme: Theme) -> str:
    """Lines between source and target, and between the texts of a pair, and the words for them."""
    segments = attribution.segments or ()
    sides = [side for side in DIVIDED if set(side) <= set(segments)]
    across = ax.get_yaxis_transform()  # x from one side of the axes to the other
    for _, below in sides:
        at = segments.index(below) - 0.5
        ax.plot([0, 1], [at] * 2, color=theme.ink, linewidth=1.0, transform=across, zorder=5)
    return "".join(f"; {above} above the line, {below} below" for above, below in sides)


def _note_lines(text: str, width: int = NOTE_WIDTH) -> list[str]:
    """Lines that break after a semicolon, and within a long part between words."""
    lines = [""]
    for part in re.findall(r"[^;]+(?:; |$)", text):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line for long in lines for line in wrap(long.rstrip(), width)]


def source(attribution: Attribution, more: str = "") -> str:
    """The position that is explained, and how its scores were corrected."""
    if not has_layers(attribution):
        if is_signed(attribution):
            return signs_note(attribution.options)
        return describe_target(attribution.options) or "for the output"
    correction = attribution.options.get("correction")
    start = attribution.explained if attribution.pooled else label(attribution.explained)
    corrected = f", corrected ({correction})" if correction else ""
    return f"for {start}{more}{describe_edges(attribution.options)}{corrected}"


def remove_frame(ax: Axes, theme: Theme) -> None:
    """Without frame and tick marks."""
    ax.set_facecolor(theme.paper)
    ax.tick_params(length=0, pad=3)
    for spine in ax.spines.values():
        spine.set_visible(False)


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
    if meaning:
        bar.set_label(meaning, fontsize=7, color=theme.muted, labelpad=2)
    bar.update_ticks()


def _shrink(mesh: AxesImage | QuadMesh) -> float:
    """The part of a tall map's height that its scale takes."""
    return min(1.0, 2.2 / Scale(len(values_of(mesh))).height)


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
            color=max((theme.ink, theme.paper), key=lambda c: contrast(c, cells[row, column])),
        )


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
