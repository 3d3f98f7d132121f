"""Scores as colours, and as block characters where there are no colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attnflow.records import FloatArray
from attnflow.views.colours import colour_of, sign_colour
from attnflow.views.terminal.background import background

if TYPE_CHECKING:
    from rich.console import Console
    from rich.style import Style
    from rich.text import Text

LOWEST = {  # where the colours start, near the terminal's background
    "dark": (44, 48, 54),
    "light": (226, 229, 233),
    "unknown": (98, 104, 112),
}
BLOCKS = "▁▂▃▄▅▆▇█"
SHADES = " ░▒▓█"
UNSEEN = 0.2  # below this level, a token has the terminal's own background


def is_plain(console: Console) -> bool:
    """Whether there are no colours: NO_COLOR, a pipe, a dumb terminal."""
    return console.no_color or console.color_system is None


def levels(values: FloatArray, top: float) -> FloatArray:
    """Values as shares of the strongest colour's, from −1 to 1; 0 stays 0."""
    within: FloatArray = np.clip(values / max(top, 1e-300), -1.0, 1.0)
    return within


def stretch(values: FloatArray, places: list[int]) -> FloatArray:
    """Values ``[key]`` scaled to 0 … 1, the range of those at ``places``: of patches and frames.

    A method may score all of them nearly alike.
    """
    low = values[..., places].min(-1, keepdims=True)
    span = values[..., places].max(-1, keepdims=True) - low
    scaled = np.divide(values - low, span, out=np.zeros_like(values), where=span > 1e-12)
    clipped: FloatArray = np.clip(scaled, 0.0, 1.0)
    return clipped


def style(level: float, method: str, *, signed: bool = False) -> Style:
    """The background of a level, with legible letters; signed ones have the colours of signs."""
    from rich.color import Color
    from rich.style import Style

    low, high = LOWEST[background()], _sign_colour(level) if signed else _colour(method)
    level = abs(level)
    if level < UNSEEN:
        return Style()
    mixed = [round(a + (b - a) * level) for a, b in zip(low, high, strict=True)]
    letters = Color.from_rgb(0, 0, 0) if _bright(mixed) else Color.from_rgb(255, 255, 255)
    return Style(color=letters, bgcolor=Color.from_rgb(*mixed), bold=level > 0.8)


def _sign_colour(level: float) -> tuple[int, ...]:
    """The colour of a sign on this terminal."""
    return tuple(bytes.fromhex(sign_colour(level, dark=background() == "dark")[1:]))


def _colour(method: str) -> tuple[int, ...]:
    """The colour of a method on this terminal."""
    return tuple(bytes.fromhex(colour_of(method, dark=background() == "dark")[1:]))


def _bright(colour: list[int]) -> bool:
    """Whether black letters have more contrast on it than white ones, as the WCAG measures it."""
    red, green, blue = (float(((part / 255 + 0.055) / 1.055) ** 2.4) for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179


def ink(method: str) -> Style:
    """Text in the colour of a method."""
    from rich.color import Color
    from rich.style import Style

    return Style(color=Color.from_rgb(*_colour(method)), bold=True)


def sign_ink(value: float) -> Style:
    """Text in the colour of a sign."""
    from rich.color import Color
    from rich.style import Style

    return Style(color=Color.from_rgb(*_sign_colour(value)), bold=True)


def cell(level: float, width: int, method: str, *, signed: bool, plain: bool) -> Text:
    """A piece of a picture, as strong as its level; without colours, below 0 with a minus."""
    from rich.text import Text

    if not plain:
        return Text(" " * width, style(level, method, signed=signed))
    minus = "−" if level <= -UNSEEN else ""
    return Text(minus + shade(abs(level)) * (width - len(minus)))


def block(level: float) -> str:
    """A level as the height of a block; below 0, with a minus before it."""
    if level < 0:
        return f"−{block(-level)}"
    return BLOCKS[min(int(level * len(BLOCKS)), len(BLOCKS) - 1)]


def shade(level: float) -> str:
    """A level as the density of a block."""
    return SHADES[min(int(level * len(SHADES)), len(SHADES) - 1)]


def bar(share: float, width: int) -> str:
    """A bar of ``share`` of the width, to an eighth of a cell; only zero shows nothing."""
    eighths = round(share * width * 8)
    whole, rest = divmod(max(eighths, 1 if share > 0 else 0), 8)
    return "█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
