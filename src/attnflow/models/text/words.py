"""From tokens to words, by their offsets in the text.

A word is a run of letters, digits and marks, apostrophes inside it included; a Chinese, Japanese
or Korean ideograph; a run of one punctuation mark; or a run of symbols (an emoji with its modifiers
is one). Where a token spans several of these, they become one word.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

Span = tuple[int, int]
APOSTROPHES = "'’"
IDEOGRAPHS = ("CJK UNIFIED", "CJK COMPATIBILITY", "HIRAGANA", "KATAKANA")
JOINERS = "\u200d\ufe0f\ufe0e"


def split_words(text: str) -> list[Span]:
    """Where each word starts and ends."""
    words: list[Span] = []
    before = ""
    for at, character in enumerate(text):
        kind = _kind(text, at)
        if kind == "join" and before:
            kind = before
        joins = bool(words) and words[-1][1] == at and kind == before and kind != "ideograph"
        if kind == "space":
            before = ""
        elif joins and (not kind.startswith("mark") or text[at - 1] == character):
            words[-1] = (words[-1][0], at + 1)
        else:
            words.append((at, at + 1))
            before = kind
    return words


def _kind(text: str, at: int) -> str:
    character = text[at]
    category = unicodedata.category(character)
    inside = 0 < at < len(text) - 1 and text[at - 1].isalnum() and text[at + 1].isalnum()
    if character in JOINERS or category in ("Mn", "Me", "Mc") or _is_tag(character):
        return "join"
    if character.isspace() or category in ("Cc", "Cf"):
        return "space"
    if category == "Lo" and unicodedata.name(character, "").startswith(IDEOGRAPHS):
        return "ideograph"
    if category[0] in "LN" or character == "_" or (character in APOSTROPHES and inside):
        return "letter"
    return "mark " + character if category[0] == "P" else "symbol"


def _is_tag(character: str) -> bool:
    return 0x1F3FB <= ord(character) <= 0x1F3FF or 0xE0020 <= ord(character) <= 0xE007F


def assign_words(
    text: str, spans: Sequence[Span], special: frozenset[int]
) -> tuple[tuple[int | None, ...], tuple[str, ...]]:
    """For each token the index of its word, and the words; special tokens have none."""
    words = split_words(text)
    overlaps = [
        None if at in special else _overlapping(_strip(text, span), words)
        for at, span in enumerate(spans)
    ]
    parent = list(range(len(words)))
    for indices in overlaps:
        for index in indices or ():
            parent[index] = min(parent[index], parent[(indices or [index])[0]])
    for index in range(len(words)):
        parent[index] = parent[parent[index]]
    owners = [None if not indices else parent[indices[0]] for indices in overlaps]
    # A token of blanks alone marks where the next word begins.
    for at in reversed(range(len(owners) - 1)):
        if owners[at] is None and at not in special and at + 1 not in special:
            owners[at] = owners[at + 1]
    number = {owner: i for i, owner in enumerate(sorted({o for o in owners if o is not None}))}
    ends = {parent[i]: words[i][1] for i in range(len(words))}
    texts = tuple(text[words[owner][0] : ends[owner]] for owner in number)
    return tuple(None if owner is None else number[owner] for owner in owners), texts


def _strip(text: str, span: Span) -> Span:
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _overlapping(span: Span, words: Sequence[Span]) -> list[int]:
    return [i for i, (start, end) in enumerate(words) if start < span[1] and span[0] < end]
