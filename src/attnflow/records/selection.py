"""Which scores are computed: layers, queries and keys, resolved from a caller's arguments."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from attnflow.errors import InputError, did_you_mean, shown

Indices = int | Iterable[int] | None
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Selection:
    """Scores of the positions ``layers`` × ``queries`` for the ``keys`` of ``to_layer``.

    Layers are numbered 1 … depth, 0 is the input; all numbers here are resolved: none is negative.
    With ``groups`` each group of positions is one key (a word that was split into tokens), and
    ``keys`` are indices of groups.
    """

    layers: tuple[int, ...]
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    to_layer: int = 0
    groups: Groups | None = None


@dataclass(frozen=True)
class Pair:
    """One score: from position ``query`` of ``layer`` to position ``key`` of ``to_layer``.

    With ``head``, the edges of ``query`` are those of this head alone (Appendix A.1).
    """

    layer: int
    query: int
    key: int
    to_layer: int = 0
    head: int | None = None


def make_selection(
    depth: int,
    size: int,
    *,
    to_layer: int = 0,
    layers: Indices = None,
    queries: Indices = None,
    keys: Indices = None,
) -> Selection:
    """Resolve indices (``None`` is all, negatives count from the end) into a `Selection`."""
    target = resolve("to_layer", to_layer, 0, depth - 1, depth + 1)
    return Selection(
        resolve_all("layers", layers, target + 1, depth, depth + 1),
        resolve_all("queries", queries, 0, size - 1, size),
        resolve_all("keys", keys, 0, size - 1, size),
        target,
    )


def resolve_all(name: str, indices: Indices, low: int, high: int, count: int) -> tuple[int, ...]:
    """Every index of one or several, checked; ``None`` is all from ``low`` to ``high``."""
    if indices is None:
        return tuple(range(low, high + 1))
    values = listed_numbers(indices)
    if not values:
        msg = f"{name} is empty; give at least one number from {low} to {high}, or None for all"
        raise InputError(msg)
    return tuple(resolve(name, value, low, high, count) for value in values)


def resolve(name: str, value: object, low: int, high: int, count: int) -> int:
    """One index, negative ones counted from ``count``, checked against the allowed range."""
    if not is_integer(value):
        msg = f"{name} must be an integer from {low} to {high}, got {shown(value)}"
        raise InputError(msg)
    number = operator.index(value)  # type: ignore[arg-type] # which was just checked
    resolved = number + count if number < 0 else number
    if not low <= resolved <= high:
        msg = (
            f"{name}={shown(number)} does not exist here; allowed: {low} to {high}, negatives from "
            "the end"
        )
        raise InputError(msg)
    return resolved


def listed_numbers(given: object) -> list[object]:
    """One number or several, as a list; what can't be gone through in order is left as it is.

    Texts and bytes are not lists of numbers, a set has no order, and a dict is not a list.
    """
    if is_integer(given) or isinstance(given, str | bytes | bytearray | memoryview | Mapping | Set):
        return [given]
    try:
        return list(given)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        return [given]


def is_integer(value: object) -> bool:
    """Whether this is an integer of any library; True and False are none, nor is a list of one."""
    kind = str(getattr(value, "dtype", type(value).__name__))
    if kind.removeprefix("torch.") in ("bool", "bool_") or getattr(value, "ndim", 0) != 0:
        return False
    try:
        operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):  # torch's for what is not on this machine
        return False
    return True


# Positions: by number, by token or by a label of both (``the:4``), and which are part of the input.

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


def word_groups(word_ids: Sequence[int | None]) -> Groups:
    """The tokens of each word, in order; a token without a word is alone."""
    groups: list[list[int]] = []
    last: int | None = None
    for token, word in enumerate(word_ids):
        if word is None or word != last:
            groups.append([])
        groups[-1].append(token)
        last = word
    return tuple(map(tuple, groups))


def words_of_tokens(
    word_ids: Sequence[int | None] | None, word_texts: Sequence[str]
) -> tuple[str | None, ...]:
    """For each token the word it is part of."""
    return tuple(None if word is None else word_texts[word] for word in word_ids or ())


def _by_text(query: str, tokens: Sequence[str], name: str, words: Sequence[str | None]) -> int:
    places = _find_text(query, tokens) or _find_label(query, tokens) or _find_special(query, tokens)
    pieces = _find_text(query, words)
    if len(places or pieces) == 1:  # a word of one token may be unknown, and written [UNK]
        return (places or pieces)[0]
    if places:
        first = f"{query}:{places[0]}"
        numbers = _join_shortened(", ", map(str, places))
        what = f"occurs at {numbers}; give the position, or {first!r}"
    elif pieces:
        what = f"is split into {_format_tokens(tokens, pieces)}; give one of these, or its position"
    else:
        near = did_you_mean(query, tokens)
        what = f"is not one of the tokens; {near}give one, or its position"
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
