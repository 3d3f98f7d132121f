"""Colours and sizes: one look for all kinds of figures.

The colours of methods are those of `attnflow.views.colours`, and scales change evenly in lightness:
both can be told apart with any kind of colour vision, and in grey print.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnflow.errors import InputError, shown
from attnflow.views.colours import colour_of, sign_colour

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
