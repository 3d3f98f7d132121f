"""Scores as colours, and as block characters where there are no colours.

Colours start near the terminal's background: the environment or the terminal itself tells whether
that is dark or light.
"""

from __future__ import annotations

import os
import re
import select
import sys
import time
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from attnflow.records import FloatArray
from attnflow.views.colours import colour_of, sign_colour

if TYPE_CHECKING:
    from rich.console import Console
    from rich.style import Style
    from rich.text import Text

TIMEOUT = 0.2  # seconds: terminals reply within a few milliseconds
# The background colour; then the device attributes, which all terminals report: that ends the wait.
QUERY = b"\x1b]11;?\x1b\\" + b"\x1b[c"
COLOUR = re.compile(rb"\x1b\]11;rgb:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
END = re.compile(rb"\x1b\[\?[\d;]*c")
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


@cache
def background() -> str:
    """``"dark"``, ``"light"``, or ``"unknown"`` where the terminal doesn't tell."""
    declared = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    if declared.isdigit():
        return "light" if int(declared) in (7, *range(9, 16)) else "dark"
    colour = COLOUR.search(_query_terminal())
    if colour is None:
        return "unknown"
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in colour.groups())
    return "light" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "dark"


def _query_terminal() -> bytes:
    """The terminal's reply to the query; empty where it can't be queried."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "linux"):
        return b""
    try:
        import termios
        import tty

        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except (ImportError, OSError):
        return b""
    try:
        if os.tcgetpgrp(terminal) != os.getpgrp():
            return b""  # in the background, a program that changes the terminal is stopped
        before = termios.tcgetattr(terminal)
        try:
            tty.setcbreak(terminal, termios.TCSANOW)
            return _exchange(terminal)
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, before)
    except (OSError, termios.error):
        return b""
    finally:
        os.close(terminal)


def _exchange(terminal: int) -> bytes:
    if select.select([terminal], [], [], 0)[0]:
        return b""  # somebody is typing, and the next command must not be lost
    os.write(terminal, QUERY)
    reply = b""
    deadline = time.monotonic() + TIMEOUT
    while not END.search(reply) and (left := deadline - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            reply += os.read(terminal, 1024)
    return reply
