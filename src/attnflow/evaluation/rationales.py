"""What people marked, from the words of a text to a model's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnflow.errors import InputError
from attnflow.records import FloatArray

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens

MARKED = 0.5


def mark_tokens(
    weights: Sequence[float] | None, tokens: Tokens, positions: Sequence[int]
) -> FloatArray | None:
    """1 for each of the tokens at these positions whose word is marked, and 0 for the others."""
    if weights is None:
        return None
    if tokens.word_ids is None:
        msg = "rationales need a tokenizer that tells where its tokens stand in the text"
        raise InputError(msg)
    count = len(tokens.text.split())
    if len(weights) != count:
        msg = f"{tokens.text!r} has {count} words and {len(weights)} marks; give one for each word"
        raise InputError(msg)
    starts, at = [], 0
    for word in tokens.word_texts:
        at = max(at, tokens.text.find(word, at))
        starts.append(len(tokens.text[:at].split()) - _inside(tokens.text, at))
        at += len(word)
    marked = [abs(weight) >= MARKED for weight in weights]
    words = [tokens.word_ids[position] for position in positions]
    return np.array([0.0 if word is None else float(marked[starts[word]]) for word in words])


def _inside(text: str, at: int) -> int:
    """1 where a word that blanks separate began before this place and goes on here."""
    return int(at > 0 and not text[at - 1].isspace())
