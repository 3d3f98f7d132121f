"""Inputs that are tokens already: token ids, or the `BatchEncoding` that a tokenizer returned.

The ids are read exactly as given, without padding. Where their text, tokenized again, gives the
same ids, everything else (words, offsets, special tokens) is that of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from attnflow.errors import InputError, shown
from attnflow.io.inputs import NO_TEXT
from attnflow.models.adapter import Tokens
from attnflow.models.text.answers import decode, read_tokens
from attnflow.models.text.tokens import SEGMENTS, cut_notice, tokenize, unknown_notice
from attnflow.records.selection import is_integer

Sides = list[int | None]
IDS, MASK = "input_ids", "attention_mask"
# What a tokenizer can return that the model does not read.
ABOUT = ("special_tokens_mask", "offset_mapping", "length", "overflow_to_sample_mapping")


def read_encoded(
    tokenizer: Any, item: Any, limit: int | None, vocabulary: int, *, truncate: bool | None
) -> Tokens:
    """Token ids as tokens; beyond the limit an error, or truncated if requested.

    ``vocabulary`` is the number of tokens that the model knows. With ``truncate=None`` nobody may
    request it.
    """
    inputs, sides = _inputs(tokenizer, item)
    ids = inputs[IDS]
    check_ids(ids, vocabulary)
    length = len(ids)
    if limit and length > limit:
        if not truncate or sides is not None:
            fixed = truncate is None or sides is not None
            how = "" if fixed else ", or explain part with truncate=True (--truncate)"
            msg = (
                f"there are {length} token ids, special ones included; this model takes at most "
                f"{limit}. Give fewer{how}"
            )
            raise InputError(msg)
        kept = _within(tokenizer, ids, limit)
        inputs = {name: [values[at] for at in kept] for name, values in inputs.items()}
        ids = inputs[IDS]
    found = _read(tokenizer, ids, sides)
    if len(ids) < length:
        left = getattr(tokenizer, "truncation_side", "right") == "left"
        cut = cut_notice(len(ids), length, end="last" if left else "first")
        found = replace(found, notices=found.notices + cut)
    ones = {MASK: [1] * len(ids)}
    return replace(found, inputs={**ones, **found.inputs, **inputs})


def check_ids(ids: Sequence[int], vocabulary: int) -> None:
    """Refuse token ids that a vocabulary of this size does not have."""
    for number in ids:
        if not 0 <= number < vocabulary:
            msg = f"token id {number} does not exist; allowed: 0 to {vocabulary - 1}"
            raise InputError(msg)


def _inputs(tokenizer: Any, item: Any) -> tuple[dict[str, list[int]], Sides | None]:
    """What the model is called with, checked and without padding; and the sides of a pair."""
    given = item if isinstance(item, Mapping) else {IDS: item}
    for name in given:
        if name not in (*tokenizer.model_input_names, IDS, MASK, *ABOUT):
            msg = f"the encoding has {shown(name)}, which its tokenizer does not make; leave it out"
            raise InputError(msg)
    found = {name: as_numbers(name, each) for name, each in given.items() if name not in ABOUT}
    size = len(found[IDS])
    for name, values in found.items():
        if len(values) != size:
            msg = f"the encoding has {size} input_ids and {len(values)} {name}"
            raise InputError(msg)
    sides = _sides(item, size)
    text = _unpadded(found[MASK]) if MASK in found else slice(size)
    unpadded = {name: values[text] for name, values in found.items()}
    return unpadded, sides and sides[text]


def _unpadded(mask: Sequence[int]) -> slice:
    """The tokens that the attention mask shows: all but padding at one end."""
    seen = [at for at, value in enumerate(mask) if value]
    first, end = (seen[0], seen[-1] + 1) if seen else (0, 0)
    if len(seen) < end - first or 0 < first < end < len(mask):
        msg = (
            f"the attention mask hides {len(mask) - len(seen)} of {len(mask)} tokens, which are "
            "not padding at one end; tokenize without padding"
        )
        raise InputError(msg)
    return slice(first, end)


def as_numbers(name: str, values: Any) -> list[int]:
    """Integers of any library as a list."""
    plain = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(plain, list | tuple) and plain and isinstance(plain[0], list | tuple):
        if len(plain) > 1:
            msg = f"{name} has {len(plain)} rows; give one input at a time"
            raise InputError(msg)
        plain = plain[0]
    if not isinstance(plain, list | tuple) or not all(map(is_integer, plain)):
        msg = f"{name}={shown(values)} must be a list of integers"
        raise InputError(msg)
    return [int(number) for number in plain]


def _sides(item: Any, size: int) -> Sides | None:
    """For each token of a pair which text it is from; ``None`` where it is not a pair."""
    if not getattr(item, "is_fast", False):
        return None
    sides = list(item.sequence_ids(0))
    return sides if 1 in sides and len(sides) == size else None


def _edges(tokenizer: Any, ids: Sequence[int]) -> tuple[int, int]:
    """How many special tokens the ids begin and end with."""
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id, tokenizer.mask_token_id}
    first = sum(1 for _ in takewhile(special.__contains__, ids))
    last = sum(1 for _ in takewhile(special.__contains__, reversed(ids[first:])))
    return first, last


def _within(tokenizer: Any, ids: Sequence[int], limit: int) -> list[int]:
    """The positions that remain: special tokens around the text, and the text up to the limit."""
    first, last = _edges(tokenizer, ids)
    end = len(ids) - last
    count = max(0, limit - first - last)
    left = getattr(tokenizer, "truncation_side", "right") == "left"
    inside = range(max(first, end - count), end) if left else range(first, min(end, first + count))
    return [*range(first), *inside, *range(end, len(ids))][:limit]


def _read(tokenizer: Any, ids: Sequence[int], sides: Sides | None) -> Tokens:
    first, last = _edges(tokenizer, ids)
    text = decode(tokenizer, ids[first : len(ids) - last])
    if not text.strip():
        raise InputError(NO_TEXT)
    if sides is not None:
        texts = [
            [n for n, side in zip(ids, sides, strict=True) if side == which] for which in (0, 1)
        ]
        pair = decode(tokenizer, texts[0]), decode(tokenizer, texts[1])
        found = tokenize(tokenizer, pair, None, truncate=False)
        if found.inputs[IDS] == list(ids):
            return found
        segments = tuple(SEGMENTS[side] for side in sides)
        return replace(read_tokens(tokenizer, ids), segments=segments)
    # What a chat template made begins with special tokens, too, and they are part of its text.
    for special, whole in ((True, text), (False, decode(tokenizer, ids))):
        found = tokenize(tokenizer, whole, None, truncate=False, special=special)
        if found.inputs[IDS] == list(ids):
            return found if special else _noticed(tokenizer, whole, found)
    found = read_tokens(tokenizer, ids)
    return replace(found, notices=unknown_notice(tokenizer, ids, found.text, found.spans))


def _noticed(tokenizer: Any, text: str, found: Tokens) -> Tokens:
    """The tokens, with a notice where the tokenizer would have added special tokens."""
    usual, own = tokenizer(text, verbose=False)[IDS], set(found.inputs[IDS])
    added = list(dict.fromkeys(number for number in usual if number not in own))
    if not added:
        return found
    names = ", ".join(map(str, tokenizer.convert_ids_to_tokens(added)))
    notice = (
        f"the token ids lack what the tokenizer adds to a text ({names}); they are read as given"
    )
    return replace(found, notices=(*found.notices, notice))
