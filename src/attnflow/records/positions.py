"""Which position is meant: by its number, by its token, or by both as they are shown."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence

from attnflow.errors import InputError, shown
from attnflow.records.selection import is_integer

SHOWN = 64
LABELS = (
    re.compile(r"(?P<token>.+):(?P<at>\d{1,9})", re.DOTALL),
    re.compile(r"(?P<at>\d{1,9}):(?P<token>.+)", re.DOTALL),
)


def find(
    query: int | str, tokens: Sequence[str], name: str = "query", words: Sequence[str | None] = ()
) -> int:
    """The position of an index (negatives count from the end) or of a token's text.

    A token of several that are the same is named as it is shown: ``the:4`` or ``4:the``. ``name``
    is what the caller's argument is called, and ``words`` has for each token the word it is a piece
    of; both are for errors.
    """
    if isinstance(query, str):
        return _by_text(query, tokens, name, words)
    number = operator.index(query) if is_integer(query) else len(tokens)
    if not -len(tokens) <= number < len(tokens):
        there = f"there are {len(tokens)} tokens: {_listed(tokens)}"
        msg = f"{name}={shown(query)} does not exist; {there}"
        raise InputError(msg)
    return number % len(tokens)


def words_of_tokens(
    word_ids: Sequence[int | None] | None, word_texts: Sequence[str]
) -> tuple[str | None, ...]:
    """For each token the word it is a piece of."""
    return tuple(None if word is None else word_texts[word] for word in word_ids or ())


def _by_text(query: str, tokens: Sequence[str], name: str, words: Sequence[str | None]) -> int:
    places = _places(query, tokens) or _labelled(query, tokens)
    if len(places) == 1:
        return places[0]
    if places:
        first = f"{query}:{places[0]}"
        what = f"stands at {_shortened(', ', map(str, places))}; give the position, or {first!r}"
    elif pieces := _places(query, words):
        what = f"is split into {_listed(tokens, pieces)}; give one of these, or its position"
    else:
        what = "is none of the tokens; give one, or its position"
    msg = f"{name}={shown(query)} {what}: {_listed(tokens)}"
    raise InputError(msg)


def _places(query: str, tokens: Sequence[str | None]) -> list[int]:
    """Where the token stands: spelled the same, or else in capitals or small letters."""
    same = [i for i, token in enumerate(tokens) if token == query]
    folded = query.casefold()
    return same or [i for i, token in enumerate(tokens) if token and token.casefold() == folded]


def _labelled(query: str, tokens: Sequence[str]) -> list[int]:
    labels = [match for form in LABELS if (match := form.fullmatch(query))]
    return sorted({int(m["at"]) for m in labels if int(m["at"]) in _places(m["token"], tokens)})


def _listed(tokens: Sequence[str], places: Iterable[int] | None = None) -> str:
    chosen = range(len(tokens)) if places is None else places
    return _shortened(" ", (f"{i}:{tokens[i]}" for i in chosen))


def _shortened(between: str, parts: Iterable[str]) -> str:
    """All parts, or the first ones and the last of a long text's: an error is one line."""
    every = list(parts)
    return between.join(every if len(every) <= SHOWN else [*every[: SHOWN - 2], "…", every[-1]])
