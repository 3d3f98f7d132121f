"""Tokens of an answer: by their numbers, as a slice, or by a piece of its text."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnflow.errors import InputError, shown
from attnflow.records.selection import find_position, is_integer

if TYPE_CHECKING:
    from attnflow.records.generation import Generation

Span = int | str | slice | Sequence[int] | None


def find_place(of: Generation, token: int | str) -> int:
    """The number of a token of the answer, by its number or its text."""
    count = len(of.answer)
    if isinstance(token, str):
        return find_position(token, of.answer_tokens, "answer")
    number = operator.index(token) if is_integer(token) else count
    if not -count <= number < count:
        msg = (
            f"answer={shown(token)} does not exist; the answer has {count} tokens, 0 to {count - 1}"
        )
        raise InputError(msg)
    return number % count


def find_rows(of: Generation, span: Span) -> list[int]:
    """The numbers of a span's tokens of the answer; ``None`` is all."""
    count = len(of.answer)
    if span is None:
        return list(range(count))
    if isinstance(span, slice):
        found = list(range(count))[span]
    elif isinstance(span, str):
        found = _rows_of_text(of, span)
    elif is_integer(span):
        found = [find_place(of, span)]  # type: ignore[arg-type]
    else:
        found = sorted({find_place(of, each) for each in span})  # type: ignore[union-attr]
    if not found:
        msg = f"span={shown(span)} holds no token of the answer: {of.answer_text!r}"
        raise InputError(msg)
    return found


def _rows_of_text(of: Generation, text: str) -> list[int]:
    """The tokens that a piece of the answer's text is made of."""
    start = of.answer_text.find(text) if text else -1
    if start < 0 or of.spans is None:
        msg = f"span={shown(text)} is not in the answer: {of.answer_text!r}"
        raise InputError(msg)
    if of.answer_text.find(text, start + 1) >= 0:
        msg = f"span={shown(text)} is in the answer several times; give the tokens' numbers"
        raise InputError(msg)
    end = start + len(text)
    places = [of.spans[at] for at in of.answer]
    return [row for row, (first, last) in enumerate(places) if first < end and start < last]
