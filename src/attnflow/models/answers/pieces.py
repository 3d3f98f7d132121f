"""Pieces of an answer that are explained one by one: sentences, paragraphs or tokens, or all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, get_args

from attnflow.errors import InputError, shown
from attnflow.io.units import Unit, split_units
from attnflow.models.answers.interface import answer_positions

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens

TOKENS, WHOLE = "tokens", "answer"
SENTENCES, *_ = get_args(Unit)
PIECES = (*get_args(Unit), TOKENS, WHOLE)
Span = tuple[int, int]
NO_SENTENCES = (
    "its tokenizer gave no offsets in the text, so that sentences can't be told apart: the answer "
    "is explained as a whole (or with each='tokens')"
)


def check_each(each: object) -> None:
    """Refuse pieces that there are not."""
    if each not in PIECES:
        msg = f"each={shown(each)} is unknown; allowed: {', '.join(map(repr, PIECES))}"
        raise InputError(msg)


def cut_answer(tokens: Tokens, each: str) -> tuple[Span, ...]:
    """Where each piece starts and ends among the answer's tokens, one behind the other.

    A token belongs to the sentence that its first letter stands in; one that stands for nothing in
    the text, such as a special token, to the piece before.
    """
    positions = answer_positions(tokens)
    if each == TOKENS:
        return tuple((at, at + 1) for at in range(len(positions)))
    if each == WHOLE or tokens.spans is None:
        return ((0, len(positions)),)
    return cut_spans([tokens.spans[at] for at in positions], tokens.answer or "", each)


def cut_spans(spans: Sequence[Span], text: str, each: str) -> tuple[Span, ...]:
    """The same of tokens that stand at these places in a text, for sentences and paragraphs."""
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
