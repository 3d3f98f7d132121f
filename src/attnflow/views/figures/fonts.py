"""Which installed fonts can draw a text.

Matplotlib (3.11 and later) shapes text and orders right-to-left scripts itself, and takes each
character from the first font of a list that has it. This is where that list is made: the user's own
fonts first, then one more for every script they lack. Colour emoji fonts hold pictures instead of
outlines, which matplotlib can't draw: without a font with outlines, an emoji is laid over the text
as a picture (`emoji`), or named where no font has it.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from matplotlib import font_manager, rcParams
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter

from attnflow.views.figures.emoji import Pictures, Spaced, make_room

_PREFERRED = ("Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai")
_SYMBOLS = ("Noto Sans Symbols", "Noto Sans Symbols2", "Noto Emoji", "Symbola", "Segoe UI Emoji")
_HAN = {"kana": "Noto Sans CJK JP", "hangul": "Noto Sans CJK KR", "han": "Noto Sans CJK SC"}
_LETTER_A = 0x1F1E6  # the regional indicator A
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]{2}")
_SKIN_TONES = "🏻🏼🏽🏾🏿"
_JOINING = "\u200d\ufe0f"
_UNDRAWN = ("Mn", "Me", "Cf", "Zs")  # marks and joiners may come from the font of their letter


def families_for(texts: Iterable[str]) -> list[str]:
    """The user's font families, and after them as many installed ones as the texts need."""
    families = list(rcParams["font.family"])
    text = "".join(texts)
    missing = missing_characters(text, families)
    for name in _candidates(text) if missing else ():
        found = {char for char in missing if ord(char) in _characters(name)}
        if found:
            families.append(name)
            missing -= found
        if not missing:
            break
    return families


def missing_characters(text: str, families: Iterable[str]) -> set[str]:
    """The characters of the text that none of the families has."""
    names = [name for family in families for name in _resolve(family)]
    shown = text.replace("\n", "")  # which ends a line
    seen = {char for char in shown if unicodedata.category(char) not in _UNDRAWN}
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
    generic: dict[str, Any] = {"serif": rcParams["font.serif"]}
    generic["sans-serif"] = generic["sans serif"] = generic["sans"] = rcParams["font.sans-serif"]
    generic |= {"monospace": rcParams["font.monospace"], "cursive": rcParams["font.cursive"]}
    return list(generic.get(family, [family]))


@cache
def _characters(family: str) -> frozenset[int]:
    """The code points a family has glyphs for; none where it isn't installed."""
    with _silenced_font_log():
        try:
            path = font_manager.findfont(family, fallback_to_default=False)
        except ValueError:
            return frozenset()
    return frozenset(font_manager.get_font(path).get_charmap())


@contextmanager
def _silenced_font_log() -> Iterator[None]:
    """Without matplotlib's log lines about fonts that are not installed."""
    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def replace_missing_emoji(figure: Figure) -> Iterator[None]:
    """A context in which emoji that no font has as outlines are pictures, or else their names."""
    ticks = [
        (axis, formatter, list(formatter.seq))
        for ax in figure.axes
        for axis in (ax.xaxis, ax.yaxis)
        if isinstance(formatter := axis.get_major_formatter(), FixedFormatter)
    ]
    named = {id(tick) for axis, *_ in ticks for tick in axis.get_ticklabels()}
    texts = [
        (text, text.get_text())
        for text in figure.findobj(Text)
        if isinstance(text, Text) and text.get_visible() and id(text) not in named
    ]
    spaced: list[tuple[Text, Spaced]] = []
    for text, content in texts:
        room = _replaced(content, text.get_fontfamily(), upright=not text.get_rotation())
        text.set_text(room.text)
        spaced += [(text, room)] if room.pictures else []
    for axis, formatter, labels in ticks:
        first = axis.get_ticklabels()[:1]
        families = [name for tick in first for name in tick.get_fontfamily()]
        upright = not any(tick.get_rotation() for tick in first)
        rooms = [_replaced(each, families, upright=upright) for each in labels]
        formatter.seq = [room.text for room in rooms]
        pairs = zip(axis.get_ticklabels(), rooms, strict=False)
        spaced += [(tick, room) for tick, room in pairs if room.pictures]
    laid = [figure.add_artist(Pictures(text, room)) for text, room in spaced]
    try:
        yield
    finally:
        for picture in laid:
            picture.remove()
        for axis, formatter, labels in ticks:
            formatter.seq = labels
            axis.get_ticklabels()  # writes the labels back
        for text, content in texts:
            text.set_text(content)


def _replaced(content: str, families: Iterable[str], *, upright: bool) -> Spaced:
    """A text as it is drawn: with room for pictures, or with names."""
    missing = missing_characters(content, families)
    room = make_room(content, missing) if upright else Spaced(content, ())
    return room._replace(text=name_emoji(room.text, missing))


def _country(flag: str) -> str:
    """The letters that a flag is made of: 🇩🇪 is written with D and E."""
    return "".join(chr(ord(char) - _LETTER_A + ord("A")) for char in flag)


def name_emoji(text: str, missing: set[str]) -> str:
    """The text with every missing emoji as its Unicode name.

    >>> name_emoji("hi 👩", {"👩"}), name_emoji("🇩🇪", set("🇩🇪"))
    ('hi ⟨woman⟩', '⟨flag DE⟩')
    """
    if not missing & set(text):
        return text
    parts = []
    for char in _FLAG.sub(lambda found: f"⟨flag {_country(found[0])}⟩", text):
        if char in missing and unicodedata.category(char) == "So":
            parts.append(f"⟨{unicodedata.name(char, f'{ord(char):04X}').lower()}⟩")
        elif char not in _JOINING and not (char in missing and char in _SKIN_TONES):
            parts.append(char)
    return "".join(parts)
