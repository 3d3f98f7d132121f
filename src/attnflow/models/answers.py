"""Answers of encoder–decoders as tokens: as they were generated, or as a text that was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from attnflow.models.adapter import Tokens
from attnflow.models.tokens import name_token
from attnflow.models.words import assign_words


def read_answer(tokenizer: Any, ids: Sequence[int], generation: Any = None) -> Tokens:
    """What a model wrote, without the end: the very tokens, not those of its text read anew.

    Tokenizers may cut the same text in another way than the model wrote it. ``generation`` is the
    model's generation configuration, which may name more tokens that end an answer.
    """
    kept = list(ids)
    ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}
    for name in ("eos_token_id", "forced_eos_token_id"):
        stated = getattr(generation, name, None)
        ends.update(stated if isinstance(stated, list) else [stated])
    while len(kept) > 1 and kept[-1] in ends:
        kept.pop()
    special = frozenset(at for at, i in enumerate(kept) if i in tokenizer.all_special_ids or not at)
    text, spans = "", []
    for end in range(1, len(kept) + 1):
        plain = [number for at, number in enumerate(kept[:end]) if at not in special]
        longer = str(tokenizer.decode(plain, skip_special_tokens=True))
        spans.append((min(len(text), len(longer)), len(longer)))
        text = longer
    words, texts = assign_words(text, spans, special)
    names = tuple(name_token(tokenizer, number) for number in kept)
    return Tokens(names, text, {"input_ids": kept}, words, texts)


def without_end(answer: Tokens, tokenizer: Any) -> Tokens:
    """The answer without what the tokenizer put behind it: an end token, mBART's language code.

    The last position is where the model says what comes next.
    """
    ids = list(answer.inputs["input_ids"])
    plain = tokenizer(text_target=answer.text, add_special_tokens=False)["input_ids"]

    def shared(start: int) -> int:
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(ids[start:], plain, strict=False))
        return sum(1 for _ in pairs)

    before = max(range(len(ids)), key=shared, default=0)  # tokens that were put before the text
    return first_tokens(answer, before + shared(before))


def first_tokens(answer: Tokens, size: int) -> Tokens:
    """The first tokens of an answer."""
    return replace(
        answer,
        names=answer.names[:size],
        inputs={"input_ids": list(answer.inputs["input_ids"][:size])},
        word_ids=None if answer.word_ids is None else answer.word_ids[:size],
    )


def put_before(start: int, tokenizer: Any, answer: Tokens) -> Tokens:
    """The answer after the token that starts it."""
    return replace(
        answer,
        names=(name_token(tokenizer, start), *answer.names),
        inputs={"input_ids": [start, *answer.inputs["input_ids"]]},
        word_ids=None if answer.word_ids is None else (None, *answer.word_ids),
    )
