"""Cutting a text into paragraphs and sentences.

The units of a text cover it without gaps or overlaps: white space belongs to the unit before it, or
to the first one. List items, table rows and lines of code are units of their own. Sentences end at
the marks that scripts have for it; a script without any, such as Thai, has paragraphs alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal, get_args

from attnflow.errors import InputError, unknown

Span = tuple[int, int]
Unit = Literal["sentences", "paragraphs"]

# End a sentence wherever they stand: their scripts put no space behind them, or use them for
# nothing else (Chinese and Japanese, Arabic and Urdu, Devanagari, Armenian, Ethiopic, Khmer,
# Burmese, Tibetan).
ALWAYS = "。！？｡؟۔।॥։።፧፨។၊။།"
# End one where white space or the end of the text follows.
USUALLY = ".!?…‼⁇⁈⁉"
CLOSING = "\"'”’»›)]}」』）】》〉"
END = re.compile(
    rf"(?:[{ALWAYS}]+|[{re.escape(USUALLY)}]+(?=[{re.escape(CLOSING)}]*(?:\s|$)))"
    rf"[{re.escape(CLOSING)}]*"
)
# A full stop after one of these, or after a single letter, belongs to an abbreviation.
ABBREVIATIONS = frozenset(
    {
        *("mr", "mrs", "ms", "dr", "prof", "sr", "jr", "st", "vs", "etc", "e.g", "i.e", "cf", "al"),
        *("fig", "figs", "eq", "no", "nos", "vol", "pp", "ca", "approx", "dept", "est"),
        *("z.b", "d.h", "u.a", "bzw", "usw", "nr", "ggf", "p.ex", "mme", "mlle", "sra"),
    }
)
VISIBLE = re.compile(r"\S")
LONGEST_WORD = 60  # characters around a full stop that are looked at
WORD_BEFORE = re.compile(r"(?:[^\W\d_]+\.)*[^\W\d_]+$")
ITEM = re.compile(r"[ \t]*(?:[-*+•‣▪–]|\(?\d{1,3}[.)]|[a-zA-Z][.)])[ \t]+\S")
ROW = re.compile(r"[ \t]*\|.*\|[ \t]*$")
HEADING = re.compile(r"#{1,6}[ \t]+\S")
FENCE = re.compile(r"[ \t]*(?:```|~~~)")


def split_units(text: str, by: Unit | str = "sentences") -> tuple[Span, ...]:
    """Where each unit of a text starts and ends.

    Examples:
        >>> text = "It rains. We stay at home, e.g. in bed."
        >>> [text[start:end] for start, end in split_units(text)]
        ['It rains. ', 'We stay at home, e.g. in bed.']
    """
    if by not in get_args(Unit):
        raise InputError(unknown("units", by, get_args(Unit)))
    starts = list(_block_starts(text))
    if by == "sentences":
        blocks = zip(starts, [*starts[1:], len(text)], strict=False)
        starts = [at for start, end in blocks for at in _sentence_starts(text, start, end)]
    return tuple(zip(starts, [*starts[1:], len(text)], strict=False))


def _block_starts(text: str) -> Iterator[int]:
    """Where paragraphs, list items, headings, table rows and lines of fenced code start."""
    if text:
        yield 0
    at, started, ended, fenced = 0, False, False, False
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        fence = FENCE.match(bare) is not None
        alone = fenced or fence or any(each.match(bare) for each in (ROW, HEADING))
        if bare.strip():
            if started and (ended or alone or ITEM.match(bare)):
                yield at
            started, ended = True, alone
        else:
            ended = True
        fenced = fenced != fence
        at += len(line)


def _sentence_starts(text: str, start: int, end: int) -> Iterator[int]:
    yield start
    block = text[start:end]
    # Where nothing is written in capitals, a sentence may begin with a small letter.
    cased = any(map(str.isupper, block))
    for found in END.finditer(block):
        # White space belongs to the sentence before it.
        after = VISIBLE.search(block, found.end())
        if after is None:
            return
        before = block[max(0, found.start() - LONGEST_WORD) : found.start()]
        following = block[after.start() : after.start() + LONGEST_WORD]
        if found[0][0] != "." or _ends_sentence(before, following, cased=cased):
            yield start + after.start()


def _ends_sentence(before: str, after: str, *, cased: bool) -> bool:
    """Whether a full stop between two texts ends a sentence, and not just an abbreviation."""
    word = WORD_BEFORE.search(before)
    first = after.lstrip(CLOSING + "\"'“‘«‹([{—–- ")[:1]
    if cased and first.islower():
        return False
    if word is None:
        # "1. January" goes on; "It was 5. She left." does not.
        return re.fullmatch(r"\s*\d{1,2}", before) is None
    name = word[0].lower()
    if name in ABBREVIATIONS:
        # "etc." may be the end; the others stand before something.
        return name == "etc" and unicodedata.category(first or " ") == "Lu"
    return not (len(name) == 1 and name != "i" and word[0].isupper())


def cut_spans(spans: Sequence[Span], text: str, each: str) -> tuple[Span, ...]:
    """Where each sentence or paragraph starts and ends among tokens that stand at these places.

    A token belongs to the sentence that its first letter stands in; one that stands for nothing in
    the text, such as a special token, to the piece before.
    """
    ends = [end for _, end in split_units(text, each)]
    unit, owners = 0, []
    for start, stop in spans:
        blank = len(text[start:stop]) - len(text[start:stop].lstrip())
        while stop > start + blank and unit < len(ends) - 1 and start + blank >= ends[unit]:
            unit += 1
        owners.append(unit)
    pieces = []
    for _, run in groupby(range(len(spans)), key=owners.__getitem__):
        first, *rest = run
        pieces.append((first, rest[-1] + 1 if rest else first + 1))
    return tuple(pieces)
