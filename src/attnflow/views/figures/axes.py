"""What the kinds of figures share: colours and sizes, tokens along an axis, titles and notes.

Methods have the colours of `attnflow.views.colours`, and scales change evenly in lightness: both
can be told apart with any kind of colour vision, and in grey print.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from textwrap import wrap
from typing import TYPE_CHECKING

from attnflow.errors import InputError, shown
from attnflow.records import Attribution
from attnflow.records.generation import Generation
from attnflow.views.colours import colour_of, sign_colour
from attnflow.views.figures.fonts import families_for
from attnflow.views.wording.answers import conclude
from attnflow.views.wording.findings import Finding, find, is_ratio, subject
from attnflow.views.wording.labels import clip, distinct_labels
from attnflow.views.wording.names import (
    describe_edges,
    describe_target,
    has_layers,
    is_signed,
    signs_note,
    title_on,
    unit_of,
)
from attnflow.views.wording.numbers import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

LABEL_WIDTH = 22  # cells: longer tokens are shortened in the middle
NOTE_WIDTH = 42  # characters
NOTE_LETTER = 0.052  # inches of one, on average
CAPTION_LETTER = 0.062
HEADING_LETTER = 0.088
COLUMN_WIDTH = 0.26  # inches of a column's name
UPRIGHT_LETTER = 6.5  # points of one that stands upright
SMALLEST_LETTER = 4.0
EVERY = "every column has a name"  # marks an axis
MOST_COLUMNS = 12  # whose names fit side by side
DIVIDED = (("source", "target"), ("first", "second"), ("second", "target"))  # by a line between
ROUND = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class Theme:
    """The colours of a figure.

    Attributes:
        paper: The background.
        ink: Texts and whatever must be seen.
        muted: What matters less: ticks, notes.
        rule: Grid lines and nodes.
        cut: The bottleneck.
        dark: Whether the paper is dark, on which methods have other colours.
    """

    paper: str
    ink: str
    muted: str
    rule: str
    cut: str
    dark: bool = False

    def method(self, name: str) -> str:
        """The colour of a method; ink without a method."""
        return colour_of(name, dark=self.dark) if name else self.ink

    def scale(self, method: str) -> Colormap:
        """From nothing (the background) over the method's colour to its strongest shade."""
        from matplotlib.colors import LinearSegmentedColormap, to_rgb

        colour, paper, ink = (to_rgb(each) for each in (self.method(method), self.paper, self.ink))
        stops = [(paper, colour, share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
        stops += [(colour, ink, share) for share in (0.28, 0.55)]
        mixed = [
            tuple(a + (b - a) * share for a, b in zip(low, high, strict=True))
            for low, high, share in stops
        ]
        return LinearSegmentedColormap.from_list(f"attnflow-{method}", mixed)

    @property
    def diverging(self) -> Colormap:
        """From what speaks against, over nothing (the background), to what speaks in favour."""
        from matplotlib.colors import LinearSegmentedColormap

        ends = [sign_colour(sign, dark=self.dark) for sign in (-1, 1)]
        return LinearSegmentedColormap.from_list("signs", [ends[0], self.paper, ends[1]])


THEMES = {
    "light": Theme(
        paper="#ffffff",
        ink="#1b1f24",
        muted="#5b6570",
        rule="#c9d0d6",
        cut="#111111",
    ),
    "dark": Theme(
        paper="#14171c",
        ink="#e8ebee",
        muted="#9aa4ae",
        rule="#3a424b",
        cut="#ffffff",
        dark=True,
    ),
}


def find_theme(name: str) -> Theme:
    """The theme of that name."""
    if not isinstance(name, str) or name not in THEMES:
        msg = f"theme={shown(name)} is unknown; choose one of: {', '.join(THEMES)}"
        raise InputError(msg)
    return THEMES[name]


@dataclass(frozen=True)
class Scale:
    """Sizes that follow from how many tokens must fit one below the other."""

    tokens: int

    @property
    def row(self) -> float:
        """The height of a token's row in inches: roomy for few tokens, still legible for many."""
        return min(0.27, max(0.125, 7.5 / max(self.tokens, 1)))

    @property
    def font(self) -> float:
        """The size of a token's text in points."""
        return self.letters(self.row)

    @staticmethod
    def letters(row: float) -> float:
        """The size of text in points for rows of that height in inches."""
        return min(9.0, row * 72 * 0.74)

    @property
    def height(self) -> float:
        """The height of all rows in inches."""
        return self.row * self.tokens


def title_of(attribution: Attribution) -> str:
    """The method's name as a title; what its edges are is said below the drawing."""
    return title_on(attribution.method, str(attribution.options.get("edges", "attention")))


def label(token: str) -> str:
    """A token as a label of an axis."""
    return clip(token, LABEL_WIDTH)


def labels(tokens: Sequence[str]) -> list[str]:
    """Tokens as labels of an axis; those that occur more than once have their positions."""
    # Matplotlib orders right-to-left letters itself, and fonts have no isolating marks.
    return [
        name.strip("\u2068\u2069").replace("\u2069:", ":")
        for name in distinct_labels(tokens, LABEL_WIDTH)
    ]


def token_rows(ax: Axes, tokens: Sequence[str], theme: Theme, bold: int | None = None) -> None:
    """Tokens from top to bottom along the y axis, one in bold."""
    names = labels(tokens)
    name_ticks(ax.yaxis, names, theme.ink, Scale(len(names)).font)
    if bold is not None:
        ax.get_yticklabels()[bold].set_fontweight("bold")


def explained_row(attribution: Attribution) -> int | None:
    """The row of the token asked about; none where it was the mean of several."""
    return None if attribution.pooled else attribution.query


def columns(ax: Axes, names: Sequence[str], colour: str, numbers: Sequence[int]) -> None:
    """Names below numbered columns; of more than can be read, the first and round numbers."""
    most = MOST_COLUMNS
    step = next((step for step in ROUND if len(names) <= step * most), len(names))
    places = [
        at for at, number in enumerate(numbers) if number % step == 0 or (not at and step > 2)
    ]
    name_ticks(ax.xaxis, names, colour, 8, places)


def every_column(ax: Axes, names: Sequence[str], colour: str) -> None:
    """A name below each column; many of them stand upright."""
    ax.xaxis.set_gid(EVERY)
    name_ticks(ax.xaxis, names, colour, 8)
    if len(names) > MOST_COLUMNS:
        ax.tick_params(axis="x", rotation=90, labelsize=UPRIGHT_LETTER)


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
    """The title of a panel, in the colour of its method; ``above`` are points between them.

    Scores with signs have the colours of these, and no ``method`` is given.
    """
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
    """Name fewer columns where names would touch: the last one, and every second or third.

    Where each has a name, these stand upright and become smaller instead, if they can be read.
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator

    named = ax.xaxis.get_major_formatter()
    places = [float(place) for place in ax.get_xticks()]
    step = ceil(len(places) * COLUMN_WIDTH / inches)
    size = inches / max(len(places), 1) * 72 * 0.75  # lines of text need some room between them
    if step > 1 and ax.xaxis.get_gid() == EVERY and size >= SMALLEST_LETTER:
        ax.tick_params(axis="x", rotation=90, labelsize=min(size, UPRIGHT_LETTER))
        return
    if step > 1 and isinstance(named, FixedFormatter):
        kept = range(len(places) - 1, -1, -step)
        ax.xaxis.set_major_locator(FixedLocator([places[at] for at in kept]))
        ax.xaxis.set_major_formatter(FixedFormatter([named.seq[at] for at in kept]))


def fit_rows(ax: Axes, row: float) -> None:
    """Make tokens no larger than their rows, which are so many inches high."""
    for tick in ax.get_yticklabels() if row else ():
        tick.set_fontsize(min(float(tick.get_fontsize()), Scale.letters(row)))


def finding_of(shown: Sequence[Attribution | Generation]) -> str:
    """What was found, for the caption; of several methods, what the model answered.

    A figure is made of scores alone: what the model predicts without a word is known to those who
    have a session, who give `describe` of it as the caption.
    """
    first = shown[0]
    if isinstance(first, Generation):
        return conclude(first)
    if first.prediction is None:
        return ""
    if len(shown) == 1:
        return describe(find(first), first)
    about = subject(first.statistics.get("model")) or "The model says "
    answer = clip(first.prediction.label, LABEL_WIDTH)
    return f"{about}{answer} {percent(first.prediction.probability)}"


def describe(finding: Finding, of: Attribution) -> str:
    """A finding with its evidence; without it, with the probability of what is predicted."""
    if finding.evidence or of.prediction is None:
        return f"{finding.sentence} {finding.evidence}".strip()
    likely = f" ({percent(of.prediction.probability)})"
    parts = [
        f"“{each.text}”"
        if each.position is not None
        else each.text + likely * (each.role == "said")
        for each in finding.parts
    ]
    return "".join(parts)


def caption_lines(text: str, inches: float) -> list[str]:
    """A caption in lines of that width."""
    # A number and its percent sign stay together: text is not wrapped at such spaces.
    lines = wrap(text.replace(" %", "\u00a0%"), max(20, int(inches / CAPTION_LETTER)))
    return [line.replace("\u00a0%", " %") for line in lines]


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
    if is_ratio(attribution):
        return "× chance"
    return unit_of(attribution.method, attribution.options) or "score"


def colour_name(attribution: Attribution | Generation) -> str:
    """The method whose colours are used; empty where they are those of signs."""
    return "" if is_signed(attribution) else attribution.method


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
    signs = f"; {signs_note(attribution.options)}" if is_signed(attribution) else ""
    return f"for {start}{more}{describe_edges(attribution.options)}{corrected}{signs}"


def remove_frame(ax: Axes, theme: Theme) -> None:
    """Without frame and tick marks."""
    ax.set_facecolor(theme.paper)
    ax.tick_params(length=0, pad=3)
    for spine in ax.spines.values():
        spine.set_visible(False)
