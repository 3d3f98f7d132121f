"""Colours and sizes: one look for all kinds of figures.

The colours of methods are those of `attnflow.views.palette`, and the ramp changes evenly in
lightness: both can be told apart with any kind of colour vision, and in grey print.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnflow.errors import InputError, shown
from attnflow.views.palette import colour_of, sign_colour

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

LABEL_WIDTH = 22  # cells: longer tokens are shortened in the middle


@dataclass(frozen=True)
class Theme:
    """The colours of a figure.

    Attributes:
        paper: The background.
        ink: Texts and whatever must be seen.
        muted: What matters less: ticks, notes.
        rule: Grid lines and nodes.
        cut: The bottleneck.
        ramp: From nothing (the background) to the largest value.
        dark: Whether the paper is dark, on which methods have other colours.
    """

    paper: str
    ink: str
    muted: str
    rule: str
    cut: str
    ramp: tuple[str, ...]
    dark: bool = False

    def method(self, name: str) -> str:
        """The colour of a method; ink without a method."""
        return colour_of(name, dark=self.dark) if name else self.ink

    @property
    def cmap(self) -> Colormap:
        """The ramp as a colour map."""
        from matplotlib.colors import LinearSegmentedColormap

        return LinearSegmentedColormap.from_list("attnflow", list(self.ramp))

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
        ramp=("#ffffff", "#d3e4f1", "#8bbcdc", "#3c86bd", "#0f4f97", "#071f47"),
    ),
    "dark": Theme(
        paper="#14171c",
        ink="#e8ebee",
        muted="#9aa4ae",
        rule="#3a424b",
        cut="#ffffff",
        ramp=("#14171c", "#16385c", "#1f6a99", "#43a2b4", "#9dd6a6", "#f6f7c5"),
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
        return min(9.0, self.row * 72 * 0.74)

    @property
    def height(self) -> float:
        """The height of all rows in inches."""
        return self.row * self.tokens
