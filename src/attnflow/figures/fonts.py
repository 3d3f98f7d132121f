"""Which installed fonts can draw a text.

Matplotlib (3.11 and later) shapes text and orders right-to-left scripts itself, and takes each
character from the first font of a list that has it. Here that list is made: the user's own fonts
first, then one more for every script they lack. Colour emoji fonts hold pictures instead of
outlines, which matplotlib can't draw: where no font with outlines is installed, an emoji is named.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from matplotlib import font_manager, rcParams
from matplotlib.artist import Artist
from matplotlib.text import Text

_PREFERRED = ("Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai")
_SYMBOLS = ("Noto Sans Symbols", "Noto Sans Symbols2", "Noto Emoji", "Symbola", "Segoe UI Emoji")
_HAN = {"kana": "Noto Sans CJK JP", "hangul": "Noto Sans CJK KR", "han": "Noto Sans CJK SC"}
_SKIN_TONES = "🏻🏼🏽🏾🏿"
_JOINING = "\u200d\ufe0f"
_UNDRAWN = ("Mn", "Me", "Cf", "Zs")  # marks and joiners may come from the font of their letter


def families_for(texts: Iterable[str]) -> list[str]:
    """The user's font families, and after them as many installed ones as the texts need."""
    families = list(rcParams["font.family"])
    text = "".join(texts)
    missing = uncovered(text, families)
    for name in _candidates(text) if missing else ():
        found = {char for char in missing if ord(char) in _characters(name)}
        if found:
            families.append(name)
            missing -= found
        if not missing:
            break
    return families


def uncovered(text: str, families: Iterable[str]) -> set[str]:
    """The characters of the text that none of the families has."""
    names = [name for family in families for name in _resolve(family)]
    seen = {char for char in text if unicodedata.category(char) not in _UNDRAWN}
    return {char for char in seen if not any(ord(char) in _characters(name) for name in names)}


def _candidates(text: str) -> Iterator[str]:
    """Installed families, likely ones first; of the Chinese characters' styles, the text's own."""
    script = "han"
    if any("\u3040" <= char <= "\u30ff" for char in text):
        script = "kana"
    elif any("\uac00" <= char <= "\ud7a3" for char in text):
        script = "hangul"
    installed = sorted({font.name for font in font_manager.fontManager.ttflist})
    first = [name for name in (_HAN[script], *_PREFERRED, *_SYMBOLS) if name in installed]
    yield from first
    yield from (name for name in installed if name.startswith("Noto Sans") and name not in first)
    yield from (name for name in installed if not name.startswith(("Noto Sans", "Last Resort")))


def _resolve(family: str) -> list[str]:
    """A generic family ("sans-serif") as the names it stands for."""
    key = f"font.{family}"
    return list(rcParams[key]) if key in rcParams and family != "family" else [family]


@cache
def _characters(family: str) -> frozenset[int]:
    """The code points a family has glyphs for; none where it isn't installed."""
    with _quiet():
        try:
            path = font_manager.findfont(family, fallback_to_default=False)
        except ValueError:
            return frozenset()
    return frozenset(font_manager.get_font(path).get_charmap())


@contextmanager
def _quiet() -> Iterator[None]:
    """Without matplotlib's log lines about fonts that were only asked for."""
    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def emoji_named(figure: Artist) -> Iterator[None]:
    """While it lasts, emoji that no font can draw are replaced by their names."""
    changed: list[tuple[Text, str]] = []
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        lacking = uncovered(text.get_text(), text.get_fontfamily())
        named = name_emoji(text.get_text(), lacking)
        if named != text.get_text():
            changed.append((text, text.get_text()))
            text.set_text(named)
    try:
        yield
    finally:
        for text, original in changed:
            text.set_text(original)


def name_emoji(text: str, lacking: set[str]) -> str:
    """The text with every lacking emoji as its Unicode name.

    >>> name_emoji("hi 👩", {"👩"})
    'hi ⟨woman⟩'
    """
    if not lacking & set(text):
        return text
    parts = []
    for char in text:
        if char in lacking and unicodedata.category(char) == "So":
            parts.append(f"⟨{unicodedata.name(char, f'{ord(char):04X}').lower()}⟩")
        elif char not in _JOINING and not (char in lacking and char in _SKIN_TONES):
            parts.append(char)
    return "".join(parts)
