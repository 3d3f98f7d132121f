"""Colour emoji and flags in figures, as the small pictures that their font holds.

Matplotlib draws outlines, which such fonts don't have: a space is kept in the text, and the picture
is laid over it. Where there is no such font, emoji are named (`fonts.name_emoji`).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.image import BboxImage
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from attnflow.views.wording.labels import clusters

if TYPE_CHECKING:
    from PIL.Image import Image

FONTS = {"NotoColorEmoji.ttf": 109, "Apple Color Emoji.ttc": 160, "seguiemj.ttf": 109}  # and sizes
SPACE = "\u2003"  # as wide as a letter is high
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]{2}")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


class Spaced(NamedTuple):
    """A text with spaces for pictures: what stands before each, and the picture."""

    text: str
    pictures: tuple[tuple[str, Image], ...]


def make_room(text: str, missing: set[str]) -> Spaced:
    """The text with a space for every emoji that no font can draw and a picture is at hand of.

    >>> make_room("plain", set())
    Spaced(text='plain', pictures=())
    """
    if not missing & set(text) or _RIGHT_TO_LEFT.search(text):
        return Spaced(text, ())
    parts: list[str] = []
    found = []
    for part in _symbols(text):
        picture = picture_of(part) if missing & set(part) else None
        if picture is not None:
            found.append(("".join(parts), picture))
        parts.append(part if picture is None else SPACE)
    return Spaced("".join(parts), tuple(found))


class Pictures(Artist):
    """Pictures over the spaces of a text, placed when it is drawn: formats differ in layout."""

    def __init__(self, text: Text, spaced: Spaced) -> None:
        super().__init__()
        self.over, self.spaced = text, spaced
        self.set_zorder(10)
        self.set_in_layout(False)

    def draw(self, renderer: Any) -> None:
        """Draw each picture as wide as its space, in the middle of the line."""
        whole = self.over.get_window_extent(renderer)
        size = self._width(SPACE, renderer)
        for before, picture in self.spaced.pictures:
            left = whole.x0 + self._width(before, renderer)
            high = size * picture.height / picture.width
            bottom = (whole.y0 + whole.y1 - high) / 2
            box = Bbox.from_bounds(left, bottom, size, high)
            image = BboxImage(box, interpolation="antialiased")
            image.set_data(np.asarray(picture))
            image.set_figure(self.over.get_figure(root=True))  # type: ignore[arg-type]
            image.draw(renderer)

    def _width(self, part: str, renderer: Any) -> float:
        """How wide a part is in the font of the text; a letter at its end keeps its spaces."""
        content = self.over.get_text()
        widths = []
        for each in (f"{part}x", "x"):
            self.over.set_text(each)
            widths.append(float(self.over.get_window_extent(renderer).width))
        self.over.set_text(content)
        return widths[0] - widths[1]


def _symbols(text: str) -> list[str]:
    """The text in clusters; the two letters of a flag are one."""
    parts: list[str] = []
    for part in clusters(text):
        if parts and _FLAG.fullmatch(parts[-1][-1:] + part):
            parts[-1] += part
        else:
            parts.append(part)
    return parts


@cache
def picture_of(symbol: str) -> Image | None:
    """The picture of an emoji or a flag; ``None`` where no font has it."""
    from PIL import Image, ImageDraw

    font = _font()
    if font is None:
        return None
    left, top, right, bottom = font.getbbox(symbol)
    if bottom <= top or right <= left:
        return None
    picture = Image.new("RGBA", (int(right - left), int(bottom - top)), (0, 0, 0, 0))
    ImageDraw.Draw(picture).text((-left, -top), symbol, font=font, embedded_color=True)
    return picture if np.asarray(picture)[..., 3].any() else None


@cache
def _font() -> Any:
    """The first colour font that is installed and whose sequences (flags) can be put together."""
    from PIL import ImageFont, features

    if not features.check("raqm"):
        return None
    installed = {Path(path).name: path for path in font_manager.findSystemFonts()}
    for name, size in FONTS.items():
        if name in installed:
            try:
                return ImageFont.truetype(installed[name], size)
            except OSError:
                continue
    return None
