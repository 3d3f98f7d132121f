"""The tokens of an answer that is given as text, behind a prompt that has been read already.

Tokenizing the answer alone is not enough: SentencePiece-style tokenizers put a blank before every
text, so that "is" + " Paris" would be read with two blanks, and "Par" + "is" as two words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

from attnflow.models.text.words import split_words

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens

# Texts that an answer is tokenized behind where it can't be tokenized behind the prompt itself:
# the first is a token of its own nearly everywhere; letters find the pieces that continue a word.
KNOWN = ("\n", ".", ":", *ascii_lowercase)
TAIL = 16  # tokens: more than the bytes of a character
SHOWN = 24  # characters of a text on either side of where two texts meet
SPACE = (
    "the prompt ends in a space, which is a token of its own here: models usually write a space "
    "together with the word behind it, so that hardly any word is likely now. Leave the space out; "
    "an answer of your own may begin with it"
)
UNSPACED = ("THAI", "LAO", "TIBETAN", "MYANMAR", "KHMER")  # scripts without blanks between words


def plain_ids(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a text, with nothing put around them."""
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
    """The last tokens of a prompt, which an answer is decoded behind; none of them is special."""
    # The token for unknown words stands for text.
    marks, last = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}, list(ids[-TAIL:])
    start = next((at + 1 for at in reversed(range(len(last))) if last[at] in marks), 0)
    return last[start:]


def join_text(tokenizer: Any, prompt: str, answer: str) -> tuple[list[int], tuple[str, ...]]:
    """The tokens of an answer behind a prompt, and what a reader must know of them.

    The prompt's tokens stay as they are. Where they begin the tokens of the two texts together,
    the rest of these is the answer. Otherwise the two share a token ("Par" + "is"): then the answer
    is tokenized behind a known character instead. Prompt and answer must read as the two texts do.
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
    """Ways to tokenize an answer, the best first; the last is the answer alone."""
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
    """That the answer begins in the middle of a word, which is seldom meant."""
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
    """That the tokenizer can't write the two texts as they stand, and what the model reads."""
    blanks = _letters(read) == _letters(prompt + answer)
    hint = ". If that is what you mean, begin the answer with a space" if blanks else ""
    return (
        "the tokenizer can't put this answer behind the prompt as it stands: the model reads "
        f"“{_around(read, before)}”, not “{_around(prompt + answer, len(prompt))}”{hint}"
    )


def with_space_notice(tokenizer: Any, prompt: Tokens) -> Tokens:
    """A prompt that ends in a space says so, where the model sees the space as a token."""
    bare = prompt.text.rstrip(" ")
    if bare == prompt.text or not bare:
        return prompt
    whole, ids = plain_ids(tokenizer, prompt.text), list(prompt.inputs["input_ids"])
    cut = not any(ids[at : at + len(whole)] == whole for at in range(len(ids)))
    if cut or whole == plain_ids(tokenizer, bare):
        return prompt
    return replace(prompt, notices=(*prompt.notices, SPACE))
