"""Tokens as labels: in a cell of a terminal, on an axis of a figure.

A token may contain anything: control characters that break a layout, marks that belong to the
letter before them, letters two cells wide.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from rich.cells import cell_len

from attnflow.records import Input
from attnflow.records.selection import word_groups

LONGEST = 40  # cells of a label in a sentence
UNKNOWN = re.compile(r"[\[<|]*unk[\]>|]*", re.IGNORECASE)  # as tokenizers write it
_INPUTS = 64  # whose labels are kept

_NAMED = {"\n": "⏎", "\r": "⏎", "\t": "⇥"}
_JOINER = "\u200d"
_NON_JOINER = "\u200c"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_SELECTORS = range(0xFE00, 0xFE10)


@lru_cache(4096)
def printable(token: str) -> str:
    r"""The token without anything that breaks a line or turns the writing direction.

    >>> printable("a\nb"), printable(" "), printable("\u202e"), printable("\ufe0f")
    ('a⏎b', '␣', '⟨202E⟩', '⟨FE0F⟩')
    """
    label = "".join(_visible(char) for char in _without_stray_joiners(token)).strip()
    if label and ord(label[0]) in _SELECTORS:  # without something to select, invisible
        return f"⟨{ord(label[0]):04X}⟩{label[1:]}"
    if label:
        return label
    return "␣" if token else "∅"


def _without_stray_joiners(token: str) -> str:
    """The token with joiners at its ends named: without something to join they are invisible."""
    start = len(token) - len(token.lstrip(_JOINER + _NON_JOINER))
    body = token[start:].rstrip(_JOINER + _NON_JOINER)
    ends = token[:start], token[start + len(body) :]
    before, after = ("".join(f"⟨{ord(char):04X}⟩" for char in end) for end in ends)
    return before + body + after


def _visible(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    category = unicodedata.category(char)
    if category == "Zs":
        return " "
    if char in (_JOINER, _NON_JOINER) or category[0] not in "CZ":
        return char
    return f"⟨{ord(char):04X}⟩"


def clusters(text: str) -> list[str]:
    r"""The text as grapheme clusters: a letter with all its marks is one.

    >>> [len(part) for part in clusters("e\u0301a")]
    [2, 1]
    """
    parts: list[str] = []
    for char in text:
        if parts and (_extends(char) or parts[-1].endswith(_JOINER)):
            parts[-1] += char
        else:
            parts.append(char)
    return parts


def _extends(char: str) -> bool:
    code = ord(char)
    return (
        unicodedata.category(char) in ("Mn", "Me", "Mc")
        or char in (_JOINER, _NON_JOINER)
        or code in _SKIN_TONES
        or code in _SELECTORS
    )


def clip(token: str, width: int) -> str:
    """The token in at most ``width`` cells; what is left out of its middle is shown as ``…``.

    >>> clip("internationalization", 9)
    'inte…tion'
    """
    label = printable(token)
    if cell_len(label) <= width:
        return label
    parts = clusters(label)
    head: list[str] = []
    tail: list[str] = []
    room = width - 1
    while parts:
        side = head if len(head) <= len(tail) else tail
        part = parts.pop(0 if side is head else -1)
        room -= cell_len(part)
        if room < 0:
            break
        side.append(part)
    return "".join(head) + "…" + "".join(reversed(tail))


@lru_cache(4096)
def isolate(label: str) -> str:
    """The label, marked so that right-to-left letters in it don't reorder its neighbours."""
    if any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in label):
        return f"\u2068{label}\u2069"
    return label


def label(token: str, width: int) -> str:
    """A token in at most ``width`` cells that does not move its neighbours."""
    return isolate(clip(token, width))


def distinct_labels(tokens: Sequence[str], width: int) -> tuple[str, ...]:
    """Labels of tokens; those that occur more than once with their positions: ``the:4``.

    They are made once for each input, however often they are asked for.
    """
    return _distinct_labels(tuple(tokens), width)


@lru_cache(_INPUTS)
def _distinct_labels(tokens: tuple[str, ...], width: int) -> tuple[str, ...]:
    count = Counter(tokens)
    return tuple(
        label(token, width) + (f":{at}" if count[token] > 1 else "")
        for at, token in enumerate(tokens)
    )


def written(of: Input) -> tuple[str, ...]:
    """The tokens; an unknown one is what the text has there."""
    ids, texts = of.word_ids or (None,) * len(of.tokens), of.word_texts
    return tuple(
        texts[at] if at is not None and UNKNOWN.fullmatch(token) and texts[at].strip() else token
        for token, at in zip(of.tokens, ids, strict=True)
    )


def word_labels(of: Input, width: int) -> tuple[str, ...]:
    """Labels for sentences: a piece of a word is called by the whole word, wherever there is one.

    An unknown token is called by what the text has there. Words that occur more than once have the
    position of their first token. They are made once for each input, too.
    """
    words = None if of.word_ids is None else tuple(of.word_ids)
    return _word_labels(tuple(of.tokens), words, tuple(of.word_texts), width)


@lru_cache(_INPUTS)
def _word_labels(
    tokens: tuple[str, ...],
    word_ids: tuple[int | None, ...] | None,
    texts: tuple[str, ...],
    width: int,
) -> tuple[str, ...]:
    names = list(_distinct_labels(tokens, width))
    ids = word_ids or (None,) * len(tokens)
    written = {
        group: texts[at]
        for group in word_groups(ids)
        if (at := ids[group[0]]) is not None
        and (len(group) > 1 or (UNKNOWN.fullmatch(tokens[group[0]]) and texts[at].strip()))
    }
    count = Counter(written.values())
    for group, word in written.items():
        name = label(word, width) + (f":{group[0]}" if count[word] > 1 else "")
        for at in group:
            names[at] = name
    return tuple(names)
