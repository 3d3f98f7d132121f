"""Answers as tokens: as they were generated, or as a text that was given."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch

from attnflow.errors import InputError, ModelError
from attnflow.models.adapter import Tokens
from attnflow.models.capture import run as network
from attnflow.models.text.joining import decode, shared_start, tail
from attnflow.models.text.notices import cut_notice
from attnflow.models.text.tokens import BROKEN, name_token
from attnflow.models.text.words import assign_words
from attnflow.models.text.writing import cut_at, end_tokens


def read_answer(
    tokenizer: Any,
    ids: Sequence[int],
    generation: Any = None,
    more: Set[int] = frozenset(),
    length: int | None = None,
) -> Tokens:
    """What a model wrote, without the end: the very tokens, not those of its text read anew.

    Tokenizers may cut the same text in another way than the model wrote it. ``generation`` is the
    model's generation configuration, which may name more tokens that end an answer; ``more`` are
    those that were asked for. ``length`` is the most tokens that were to be written.
    """
    kept, ends = list(ids), end_tokens(tokenizer, generation) | more
    while len(kept) > 1 and kept[-1] in ends:
        kept.pop()
    read = read_tokens(tokenizer, kept, start=1)
    return replace(read, cut_at=cut_at(ids[1:], ends, length))  # the first starts the answer


def read_tokens(
    tokenizer: Any, ids: Sequence[int], start: int = 0, behind: Sequence[int] = ()
) -> Tokens:
    """Tokens with the text that they make; the first ``start`` of them only start it.

    ``behind`` are the tokens that stand before them: a decoder drops a blank at the start of a
    text, which is no blank at its start where other tokens stand before it.
    """
    special = frozenset(
        at for at, i in enumerate(ids) if at < start or i in tokenizer.all_special_ids
    )
    context = tail(tokenizer, behind)

    def read(end: int) -> str:
        plain = [number for at, number in enumerate(ids[:end]) if at not in special]
        return decode(tokenizer, [*context, *plain], special=False)

    before = shared_start(read(0), read(len(ids)))
    reads = [read(end)[before:] for end in range(len(ids) + 1)]
    text, spans = reads[-1], _spans(reads, special)
    words, texts = assign_words(text, spans, special)
    names = tuple(name_token(tokenizer, number) for number in ids)
    return Tokens(names, text, {"input_ids": list(ids)}, words, texts, spans=tuple(spans))


def _spans(reads: Sequence[str], special: Set[int]) -> list[tuple[int, int]]:
    """Where each token stands in the text, the last of ``reads``; the others are without its end.

    A token with some bytes of a character stands where all of the character does: what is read of
    it before the others are there is not what will be read at last.
    """
    text, spans = reads[-1], []
    settled = [shared_start(read, text) for read in reads]
    for at, (start, reached) in enumerate(pairwise(settled)):
        now, broken = reads[at + 1], reads[at + 1].endswith(BROKEN)
        if at in special or (now == reads[at] and not broken):
            spans.append((start, start))
        elif now == reads[at] and reached == len(now):  # one more byte of what ends the text
            spans.append((start - 1, start))
        else:
            later = (end for end in settled[at + 1 :] if end > start)
            spans.append((start, next(later, len(text))))
    return spans


def join_answer(prompt: Tokens, answer: Tokens, **inputs: Any) -> Tokens:
    """A prompt and its answer as one list of tokens; ``inputs`` are what the model takes."""
    pairs = (prompt.word_ids, answer.word_ids), (prompt.spans, answer.spans)
    known = [None not in pair for pair in pairs]
    first = len(prompt.word_texts)
    moved = (None if word is None else word + first for word in answer.word_ids or ())
    return replace(
        prompt,
        names=prompt.names + answer.names,
        inputs={**prompt.inputs, **inputs},
        word_ids=(*(prompt.word_ids or ()), *moved) if known[0] else None,
        word_texts=prompt.word_texts + answer.word_texts,
        segments=(*(prompt.segments or ()), *(answer.segments or ())),
        answer=answer.text,
        cut_at=answer.cut_at,
        decoding=answer.decoding,
        notices=tuple(dict.fromkeys(prompt.notices + answer.notices)),
        spans=(*(prompt.spans or ()), *(answer.spans or ())) if known[1] else None,
    )


def without_end(answer: Tokens, tokenizer: Any) -> Tokens:
    """The answer without what the tokenizer put behind it: an end token, mBART's language code.

    The last position is where the model says what comes next.
    """
    ids = list(answer.inputs["input_ids"])
    plain = tokenizer(text_target=answer.text, add_special_tokens=False)["input_ids"]

    shared = [shared_start(ids[start:], plain) for start in range(len(ids))] or [0]
    before = shared.index(max(shared))  # tokens that were put before the text
    return first_tokens(answer, before + shared[before])


def first_tokens(answer: Tokens, size: int) -> Tokens:
    """The first tokens of an answer."""
    ids = list(answer.inputs["input_ids"][:size])
    return answer.select(range(len(ids)), {"input_ids": ids})


def put_before(start: int, tokenizer: Any, answer: Tokens) -> Tokens:
    """The answer after the token that starts it."""
    inputs = {"input_ids": [start, *answer.inputs["input_ids"]]}
    return answer.after(name_token(tokenizer, start), inputs)


def start_token(net: Any, name: str, labels: Sequence[int]) -> int:
    """The token that answers start with: as stated, or as the model makes it of labels."""
    for config in (getattr(net, "generation_config", None), net.config):
        start = getattr(config, "decoder_start_token_id", None)
        if start is not None:
            return int(start)
    shift = "prepare_decoder_input_ids_from_labels"
    if hasattr(net, shift) and labels:
        given = {"labels": torch.tensor([list(labels)])}
        return int(network.called(net, given, shift)[0, 0])
    msg = f"{name} does not name the token that its answers start with"
    raise ModelError(msg)


def cut_answer(answer: Tokens, most: int, *, truncate: bool) -> Tokens:
    """An answer that is too long, if it may be truncated."""
    if not truncate:
        msg = (
            f"the target has {len(answer)} tokens with the one that starts it; this model "
            f"takes at most {most}. Shorten it, or cut it with truncate=True (--truncate)"
        )
        raise InputError(msg)
    kept = first_tokens(answer, most)
    return replace(kept, notices=kept.notices + cut_notice(most, len(answer), "answer"))


def source_size(tokens: Tokens) -> int:
    """How many positions the source has: those before the target."""
    return len(tokens) - (tokens.segments or ()).count("target")
