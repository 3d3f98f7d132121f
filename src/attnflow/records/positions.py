"""Positions: by number, by token or by a label of both (``the:4``), and which are no input."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence

from attnflow.errors import InputError, shown
from attnflow.records.selection import is_integer

MOST_LISTED = 64  # tokens in an error
# Not special, class, distillation or register tokens.
INPUT_SEGMENTS = ("source", "target", "patch", "text", "first", "second", "prompt", "answer")
SPECIAL = re.compile(r"[\[<]\|?(?P<name>\w+)\|?[\]>]")
LABELS = (
    re.compile(r"(?P<token>.+):(?P<at>\d{1,9})", re.DOTALL),
    re.compile(r"(?P<at>\d{1,9}):(?P<token>.+)", re.DOTALL),
)


def find_position(
    query: int | str, tokens: Sequence[str], name: str = "query", words: Sequence[str | None] = ()
) -> int:
    """The position of an index (negatives count from the end) or of a token's text.

    A token that occurs several times is named by its label: ``the:4`` or ``4:the``. For errors,
    ``name`` is what the caller's argument is called, and ``words`` has the word of each token.
    """
    if isinstance(query, str):
        return _by_text(query, tokens, name, words)
    number = operator.index(query) if is_integer(query) else len(tokens)
    if not -len(tokens) <= number < len(tokens):
        there = f"there are {len(tokens)} tokens: {_format_tokens(tokens)}"
        msg = f"{name}={shown(query)} does not exist; {there}"
        raise InputError(msg)
    return number % len(tokens)


def input_positions(
    word_ids: Sequence[int | None] | None, segments: Sequence[str] | None, size: int
) -> list[int]:
    """The positions of tokens that are part of the input itself: no special ones."""
    return [
        at
        for at in range(size)
        if (word_ids is None or word_ids[at] is not None)
        and (segments is None or segments[at] in INPUT_SEGMENTS)
    ]


def words_of_tokens(
    word_ids: Sequence[int | None] | None, word_texts: Sequence[str]
) -> tuple[str | None, ...]:
    """For each token the word it is part of."""
    return tuple(None if word is None else word_texts[word] for word in word_ids or ())


def _by_text(query: str, tokens: Sequence[str], name: str, words: Sequence[str | None]) -> int:
    places = _find_text(query, tokens) or _find_label(query, tokens) or _find_special(query, tokens)
    if len(places) == 1:
        return places[0]
    if places:
        first = f"{query}:{places[0]}"
        numbers = _join_shortened(", ", map(str, places))
        what = f"occurs at {numbers}; give the position, or {first!r}"
    elif pieces := _find_text(query, words):
        what = f"is split into {_format_tokens(tokens, pieces)}; give one of these, or its position"
    else:
        what = "is not one of the tokens; give one, or its position"
    msg = f"{name}={shown(query)} {what}: {_format_tokens(tokens)}"
    raise InputError(msg)


def _find_text(query: str, tokens: Sequence[str | None]) -> list[int]:
    """Where the token occurs: spelled the same, or else in upper or lower case."""
    same = [i for i, token in enumerate(tokens) if token == query]
    folded = query.casefold()
    return same or [i for i, token in enumerate(tokens) if token and token.casefold() == folded]


def _find_label(query: str, tokens: Sequence[str]) -> list[int]:
    labels = [match for form in LABELS if (match := form.fullmatch(query))]
    return sorted({int(m["at"]) for m in labels if int(m["at"]) in _find_text(m["token"], tokens)})


def _find_special(query: str, tokens: Sequence[str]) -> list[int]:
    """Where a special token occurs that is named without its brackets: CLS for [CLS]."""
    matches = ((at, SPECIAL.fullmatch(token)) for at, token in enumerate(tokens))
    return [at for at, match in matches if match and match["name"].casefold() == query.casefold()]


def _format_tokens(tokens: Sequence[str], places: Iterable[int] | None = None) -> str:
    chosen = range(len(tokens)) if places is None else places
    return _join_shortened(" ", (f"{i}:{tokens[i]}" for i in chosen))


def _join_shortened(between: str, parts: Iterable[str]) -> str:
    """All parts; of many, the first ones and the last: an error is one line."""
    every = list(parts)
    return between.join(
        every if len(every) <= MOST_LISTED else [*every[: MOST_LISTED - 2], "…", every[-1]]
    )
