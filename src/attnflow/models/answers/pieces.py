"""Pieces of an answer that are explained one by one: sentences, paragraphs or tokens, or all."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from attnflow.errors import InputError, shown
from attnflow.io.units import Unit, cut_spans
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
    """Where each piece starts and ends among the answer's tokens, one after the other."""
    positions = answer_positions(tokens)
    if each == TOKENS:
        return tuple((at, at + 1) for at in range(len(positions)))
    if each == WHOLE or tokens.spans is None:
        return ((0, len(positions)),)
    return cut_spans([tokens.spans[at] for at in positions], tokens.answer or "", each)
