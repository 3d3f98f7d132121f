"""Answers as tokens: as they were generated, or as a text that was given, after its prompt.

Tokenizing a given answer alone is not enough: SentencePiece-style tokenizers put a blank before
every text, so that "is" + " Paris" would be read with two blanks, and "Par" + "is" as two words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import pairwise, takewhile
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import torch

from attnflow.errors import InputError, ModelError
from attnflow.models.adapter import Tokens
from attnflow.models.capture import run as network
from attnflow.models.text.tokens import BROKEN, assign_words, cut_notice, name_token, split_words
from attnflow.models.text.writing import cut_at, end_tokens

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens


# Texts that an answer is tokenized after where it can't be tokenized after the prompt itself:
# the first is a token of its own nearly everywhere; letters find the pieces that continue a word.
KNOWN = ("\n", ".", ":", *ascii_lowercase)
TAIL = 16  # tokens: more than the bytes of a character
SHOWN = 24  # characters of a text on either side of where two texts meet
SPACE = (
    "the prompt ends in a space, which is a token of its own here: models usually write a space "
    "together with the word after it, so that hardly any word is likely now. Leave the space out; "
    "an answer of your own may begin with it"
)
UNSPACED = ("THAI", "LAO", "TIBETAN", "MYANMAR", "KHMER")  # scripts without blanks between words


def plain_ids(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a text, without special tokens."""
    options = {"truncation": False, "padding": False, "verbose": False}
    return list(tokenizer(text, add_special_tokens=False, **options)["input_ids"])


def decode(tokenizer: Any, ids: Sequence[int], *, special: bool = True) -> str:
    """Tokens as text, as they have it: a text that is tidied is another one."""
    return str(
        tokenizer.decode(
            list(ids), skip_special_tokens=not special, clean_up_tokenization_spaces=False
        )
    )


def shared_start(first: Sequence[Any], second: Sequence[Any]) -> int:
    """How many characters, or tokens, two texts begin with that are the same."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return sum(1 for _ in same)


def tail(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """The last tokens of a prompt, after which an answer is decoded; none of them is special."""
    # The token for unknown words stands for text.
    marks, last = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}, list(ids[-TAIL:])
    start = next((at + 1 for at in reversed(range(len(last))) if last[at] in marks), 0)
    return last[start:]


def join_text(tokenizer: Any, prompt: str, answer: str) -> tuple[list[int], tuple[str, ...]]:
    """The tokens of an answer after a prompt, and notices about them.

    The prompt's tokens stay as they are. Where they begin the tokens of the two texts together,
    the rest of these is the answer. Otherwise the two share a token ("Par" + "is"): then the answer
    is tokenized after a known character instead. Prompt and answer must decode to the two texts.
    """
    first, both = (plain_ids(tokenizer, text) for text in (prompt, prompt + answer))
    before = len(decode(tokenizer, first))
    wanted = {decode(tokenizer, both), prompt + answer}
    for ids in _candidates(tokenizer, first, both, answer):
        read = decode(tokenizer, [*first, *ids])
        if read in wanted:
            return ids, _joined_words(prompt, answer) + changed_notice(read[before:], answer)
    return ids, (_misread(read, before, prompt, answer),)


def changed_notice(read: str, answer: str) -> tuple[str, ...]:
    """That a tokenizer changes an answer: capitals, accents, characters that it does not know."""
    pair = _letters(read), _letters(answer)
    if pair[0] == pair[1]:
        return ()
    at = shared_start(*pair)
    parts = [_around(each, at) for each in pair] if len(answer) > SHOWN else [read, answer]
    return (f"the tokenizer changes the answer: the model reads “{parts[0]}”, not “{parts[1]}”",)


def _around(text: str, at: int) -> str:
    """A piece of a text on either side of one place."""
    start, end = max(0, at - SHOWN), at + SHOWN
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def _letters(text: str) -> str:
    """A text without blanks, of which tokenizers may add some and drop some."""
    return "".join(text.split())


def _candidates(
    tokenizer: Any, prompt: Sequence[int], both: Sequence[int], answer: str
) -> Iterator[list[int]]:
    """Ways to tokenize an answer, the best first; the last is the answer by itself."""
    yield from _rests([(prompt, both)])
    behind = ((plain_ids(tokenizer, each), plain_ids(tokenizer, each + answer)) for each in KNOWN)
    yield from _rests(behind)
    yield plain_ids(tokenizer, answer)


def _rests(pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Iterator[list[int]]:
    """What follows the first tokens, where these begin the second."""
    for first, both in pairs:
        if len(first) < len(both) and list(both[: len(first)]) == list(first):
            yield list(both[len(first) :])


def _joined_words(prompt: str, answer: str) -> tuple[str, ...]:
    """A notice where the answer begins in the middle of a word, which is rarely intended."""
    before, after = prompt[-SHOWN:], answer[:SHOWN]
    if not before or unicodedata.name(before[-1], "").startswith(UNSPACED):
        return ()
    for start, end in split_words(before + after):
        if start < len(before) < end:
            word = (before + after)[start:end]
            return (
                f"prompt and answer are joined without a space: the model reads “{word}”. If the "
                "answer begins with a word of its own, begin it with a space",
            )
    return ()


def _misread(read: str, before: int, prompt: str, answer: str) -> str:
    """A notice that the tokenizer can't write the two texts unchanged, and what the model reads."""
    blanks = _letters(read) == _letters(prompt + answer)
    hint = ". If that is what you mean, begin the answer with a space" if blanks else ""
    return (
        "the tokenizer can't write this answer after the prompt unchanged: the model reads "
        f"“{_around(read, before)}”, not “{_around(prompt + answer, len(prompt))}”{hint}"
    )


def with_space_notice(tokenizer: Any, prompt: Tokens) -> Tokens:
    """The prompt, with a notice where it ends in a space that is a token of its own."""
    bare = prompt.text.rstrip(" ")
    if bare == prompt.text or not bare:
        return prompt
    whole, ids = plain_ids(tokenizer, prompt.text), list(prompt.inputs["input_ids"])
    cut = not any(ids[at : at + len(whole)] == whole for at in range(len(ids)))
    if cut or whole == plain_ids(tokenizer, bare):
        return prompt
    return replace(prompt, notices=(*prompt.notices, SPACE))


def read_answer(
    tokenizer: Any,
    ids: Sequence[int],
    generation: Any = None,
    more: Set[int] = frozenset(),
    length: int | None = None,
) -> Tokens:
    """What a model wrote, without the end: its own tokens, not those of its text tokenized again.

    Tokenizers may cut the same text in another way than the model wrote it. ``generation`` is the
    model's generation configuration, which may name more tokens that end an answer; ``more`` are
    those that were requested. ``length`` is the limit that the answer was written under.
    """
    kept, ends = list(ids), end_tokens(tokenizer, generation) | more
    while len(kept) > 1 and kept[-1] in ends:
        kept.pop()
    read = read_tokens(tokenizer, kept, start=1)
    return replace(read, cut_at=cut_at(ids[1:], ends, length))  # the first starts the answer


def read_tokens(
    tokenizer: Any, ids: Sequence[int], start: int = 0, before: Sequence[int] = ()
) -> Tokens:
    """Tokens with the text that they make; the first ``start`` of them only start it.

    ``before`` are the tokens in front of them: a decoder drops a blank at the start of a text,
    which is not at the start where other tokens come before it.
    """
    special = frozenset(
        at for at, i in enumerate(ids) if at < start or i in tokenizer.all_special_ids
    )
    context = tail(tokenizer, before)

    def read(end: int) -> str:
        plain = [number for at, number in enumerate(ids[:end]) if at not in special]
        return decode(tokenizer, [*context, *plain], special=False)

    skipped = shared_start(read(0), read(len(ids)))
    reads = [read(end)[skipped:] for end in range(len(ids) + 1)]
    text, spans = reads[-1], _spans(reads, special)
    words, texts = assign_words(text, spans, special)
    names = tuple(name_token(tokenizer, number) for number in ids)
    return Tokens(names, text, {"input_ids": list(ids)}, words, texts, spans=tuple(spans))


def _spans(reads: Sequence[str], special: Set[int]) -> list[tuple[int, int]]:
    """Where each token is in the text, the last of ``reads``; the others lack its end.

    A token with some bytes of a character is where the whole character is: what is decoded of
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
    """The answer without what the tokenizer appended: an end token, mBART's language code.

    The last position is where the model predicts what comes next.
    """
    ids = list(answer.inputs["input_ids"])
    plain = tokenizer(text_target=answer.text, add_special_tokens=False)["input_ids"]

    shared = [shared_start(ids[start:], plain) for start in range(len(ids))] or [0]
    before = shared.index(max(shared))  # tokens that were added before the text
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
