"""What the kinds of figures share: tokens along an axis, titles and notes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil
from textwrap import wrap
from typing import TYPE_CHECKING

from attnflow.records import Attribution
from attnflow.views.figures.fonts import families_for
from attnflow.views.figures.style import LABEL_WIDTH, Scale, Theme
from attnflow.views.wording.findings import is_ratio, subject
from attnflow.views.wording.labels import clip
from attnflow.views.wording.names import (
    describe_edges,
    describe_target,
    has_layers,
    is_signed,
    signs_note,
    title_on,
)
from attnflow.views.wording.numbers import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

NOTE_WIDTH = 42  # characters
NOTE_LETTER = 0.052  # inches of one, on average
CAPTION_LETTER = 0.062
HEADING_LETTER = 0.088
COLUMN_WIDTH = 0.26  # inches of a column's name
DIVIDED = (("source", "target"), ("first", "second"), ("second", "target"))  # by a line between
ROUND = (1, 2, 5, 10, 20, 50, 100)


def title_of(attribution: Attribution) -> str:
    """The method's name as a title; what its edges are is said below the drawing."""
    return title_on(attribution.method, str(attribution.options.get("edges", "attention")))


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


def fit_note(ax: Axes, inches: float, most: int = NOTE_WIDTH) -> None:
    """Break the lines below a panel anew, so that they end before those of its neighbours.

    ``most`` is how many characters a line may have.
    """
    text = ax.get_xlabel().replace("\n", " ")
    lines = _note_lines(text, min(most, int(inches / NOTE_LETTER)))
    ax.xaxis.label.set_text("\n".join(lines))


def fit_heading(ax: Axes, inches: float) -> None:
    """Break the title of a narrow panel, so that it ends before that of its neighbour."""
    from matplotlib.text import Text

    said = ax.get_title("left")
    lines = wrap(said, max(8, int(inches / HEADING_LETTER)))
    for child in ax.get_children():
        if isinstance(child, Text) and said and child.get_text() == said:
            child.set_text("\n".join(lines))


def fit_columns(ax: Axes, inches: float) -> None:
    """Name fewer columns where names would touch: the last one, and every second or third."""
    from matplotlib.ticker import FixedFormatter, FixedLocator

    named = ax.xaxis.get_major_formatter()
    places = [float(place) for place in ax.get_xticks()]
    step = ceil(len(places) * COLUMN_WIDTH / inches)
    if step > 1 and isinstance(named, FixedFormatter):
        kept = range(len(places) - 1, -1, -step)
        ax.xaxis.set_major_locator(FixedLocator([places[at] for at in kept]))
        ax.xaxis.set_major_formatter(FixedFormatter([named.seq[at] for at in kept]))


def fit_rows(ax: Axes, row: float) -> None:
    """Make tokens no larger than their rows, which are so many inches high."""
    for tick in ax.get_yticklabels() if row else ():
        tick.set_fontsize(min(float(tick.get_fontsize()), Scale.letters(row)))


def answer_of(attribution: object) -> str:
    """What the model answered, with its probability; empty where it answers nothing."""
    said = getattr(attribution, "prediction", None)
    if said is None or not isinstance(attribution, Attribution):
        return ""
    about = subject(attribution.statistics.get("model")) or "The model says "
    return f"{about}{clip(said.label, LABEL_WIDTH)} {percent(said.probability)}"


def caption_lines(text: str, inches: float) -> list[str]:
    """A caption in lines of that width."""
    return wrap(text, max(20, int(inches / CAPTION_LETTER)))


def write_caption(figure: Figure, lines: Sequence[str], theme: Theme) -> None:
    """What the model answered, above all panels."""
    if lines:
        figure.suptitle(
            "\n".join(lines),
            x=0.01,
            ha="left",
            fontsize=8.5,
            color=theme.ink,
            fontfamily=families_for(lines),
            parse_math=False,
        )


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
