"""Text as tokens: the model's inputs, and the names that are displayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnflow.errors import InputError
from attnflow.io.inputs import NO_TEXT, TokenIds, is_pair
from attnflow.models.adapter import Tokens
from attnflow.models.text.notices import cut_notice, spelled_notice, unknown_notice
from attnflow.models.text.words import Span, assign_words

BETWEEN = " / "  # the texts of a pair where they are displayed
SEGMENTS = {0: "first", 1: "second", None: "special"}
NOT_PARTED = (
    "the tokenizer puts no special token between the two texts: the model can't tell where the "
    "second begins"
)
BLANKS = {"\n": "⏎", "\t": "⇥"}
BROKEN = "\ufffd"


def check_text(model: str, item: Any) -> None:
    """Refuse anything but a text, and texts of whitespace alone."""
    if isinstance(item, TokenIds):
        return
    if is_pair(item):
        msg = (
            f"{model} takes one text, and a tuple of two texts is a pair; join them into one text "
            "as the model expects it, or give a list for two texts"
        )
        raise InputError(msg)
    if not isinstance(item, str):
        msg = (
            f"{model} takes text; this is {type(item).__name__}: give a text, or a list of texts "
            "(a pair is a tuple of two texts)"
        )
        raise InputError(msg)
    if not item.strip():
        raise InputError(NO_TEXT)


def check_texts(model: str, item: Any) -> None:
    """Refuse anything but a text or a pair of texts."""
    for part in item if is_pair(item) else (item,):
        check_text(model, part)


def tokenize(
    tokenizer: Any,
    item: str | tuple[str, str] | TokenIds,
    limit: int | None,
    *,
    truncate: bool,
    as_target: bool = False,
    special: bool = True,
) -> Tokens:
    """One text or one pair as tokens; beyond the limit an error, or truncated if requested.

    Without ``special`` no special tokens are put around it: the text has them already.
    """
    if isinstance(item, TokenIds):
        return _from_ids(tokenizer, item, limit, truncate=truncate)
    fast = bool(getattr(tokenizer, "is_fast", False))
    cut = {"truncation": True, "max_length": limit} if truncate and limit else {}
    given = {"text_target" if as_target else "text": item}
    text, pair = (item, None) if isinstance(item, str) else (BETWEEN.join(item), item)
    left = getattr(tokenizer, "truncation_side", "right") == "left"
    end = "last" if left else "first"  # of the text, that is read where it is cut
    if pair is not None:
        given, end = {"text": pair[0], "text_pair": pair[1]}, ""
    encoded = tokenizer(
        **given,
        return_offsets_mapping=fast,
        return_special_tokens_mask=True,
        add_special_tokens=special,
        padding=False,
        verbose=False,
        **(cut or {"truncation": False}),
    )
    inputs = {name: list(encoded[name]) for name in tokenizer.model_input_names if name in encoded}
    ids = inputs["input_ids"]
    if not ids and not as_target:
        msg = f"{text!r} has no tokens; give a text that is not empty"
        raise InputError(msg)
    _check_length(len(ids), limit, end)
    inputs.setdefault("attention_mask", [1] * len(ids))
    marks = frozenset(at for at, put in enumerate(encoded["special_tokens_mask"]) if put)
    if not special:
        marks |= {at for at, token in enumerate(ids) if token in tokenizer.all_special_ids}
    spans = encoded.get("offset_mapping")
    segments = None
    if pair is not None:
        sides = find_sides(tokenizer, encoded, pair, marks, fast=fast)
        segments = tuple(SEGMENTS[side] for side in sides)
        # Offsets of the second text as they are in the text that is displayed.
        start = len(pair[0]) + len(BETWEEN)
        spans = spans and [
            (first + start, last + start) if side == 1 else (first, last)
            for (first, last), side in zip(spans, sides, strict=True)
        ]
    words, texts = (None, ()) if spans is None else assign_words(text, spans, marks)
    notices = unknown_notice(tokenizer, ids, text, spans)
    notices += spelled_notice(tokenizer, words, texts)
    if cut and len(ids) == limit:
        whole = tokenizer(**given, truncation=False, verbose=False)
        notices += cut_notice(len(ids), len(whole["input_ids"]), end=end)
    if segments is not None and not _parted(segments):
        notices += (NOT_PARTED,)
    names = _names(tokenizer, ids, text, spans)
    places = None if spans is None else tuple((int(start), int(end)) for start, end in spans)
    return Tokens(
        names, text, inputs, words, texts, segments, notices=notices, pair=pair, spans=places
    )


def _check_length(size: int, limit: int | None, end: str) -> None:
    """Refuse more tokens than a model takes; ``end`` is the end of a text that is kept."""
    if limit and size > limit:
        part = f"its {end} {limit}" if end else f"{limit} of them"
        msg = (
            f"the text has {size} tokens, special ones included; this model takes at most "
            f"{limit}. Shorten it, or explain {part} with truncate=True (--truncate)"
        )
        raise InputError(msg)


def _from_ids(tokenizer: Any, given: TokenIds, limit: int | None, *, truncate: bool) -> Tokens:
    """Tokens by their numbers, taken as they are: nothing is put around them."""
    for token in given.ids:
        if not 0 <= token < len(tokenizer):
            msg = f"token id {token} does not exist; allowed: 0 … {len(tokenizer) - 1}"
            raise InputError(msg)
    cut = limit if truncate else None
    ids = list(given.ids[:cut])
    _check_length(len(ids), limit, "first")
    notices = cut_notice(len(ids), len(given.ids))
    others = {
        name: list(values[:cut])
        for name, values in given.others.items()
        if name in tokenizer.model_input_names
    }
    inputs = {"input_ids": ids, **others, "attention_mask": [1] * len(ids)}
    text = tokenizer.decode(ids, skip_special_tokens=True)
    return Tokens(_names(tokenizer, ids, text, None), text, inputs, notices=notices)


def find_sides(
    tokenizer: Any, encoded: Any, pair: tuple[str, str], special: frozenset[int], *, fast: bool
) -> list[int | None]:
    """For each token which text of a pair it is of, 0 or 1; ``None`` for special tokens."""
    if fast:
        return [None if at in special else s for at, s in enumerate(encoded.sequence_ids(0))]
    sizes = [len(tokenizer(each, add_special_tokens=False)["input_ids"]) for each in pair]
    ordinary = [at for at in range(len(encoded["input_ids"])) if at not in special]
    if len(ordinary) != sum(sizes):
        msg = (
            "this tokenizer (a slow one) does not say which text of a pair its tokens are of once "
            "they are cut; shorten the texts, or use a fast tokenizer"
        )
        raise InputError(msg)
    side = {at: int(place >= sizes[0]) for place, at in enumerate(ordinary)}
    return [side.get(at) for at in range(len(encoded["input_ids"]))]


def _parted(segments: Sequence[str]) -> bool:
    """Whether a special token stands between the texts of a pair."""
    if "first" not in segments or "second" not in segments:
        return True
    end = len(segments) - 1 - segments[::-1].index("first")
    return segments[end + 1] == "special"


def name_token(tokenizer: Any, token: int) -> str:
    """A token as it is displayed: without marks for blanks, and bytes as characters."""
    piece = tokenizer.convert_ids_to_tokens(int(token))
    if piece is None:  # an output that the vocabulary has no word for: models round sizes up
        return f"[{int(token)}]"
    decoded = _decoded(tokenizer, piece)
    if not decoded.strip():
        return "".join(BLANKS.get(character, "␣") for character in decoded) or piece
    return _bytes_of(piece) if BROKEN in decoded else decoded.strip()


def without_marks(name: str) -> str:
    """The text of a blank token that `name_token` displays by marks; other names as they are."""
    written = {mark: blank for blank, mark in BLANKS.items()} | {"␣": " "}
    return "".join(written[each] for each in name) if set(name) <= set(written) else name


def _decoded(tokenizer: Any, piece: str) -> str:
    """A piece as text; tokenizers of speech (CTC) give it in a dict, beside where it was heard."""
    made = tokenizer.convert_tokens_to_string([piece])
    return str(made["text"] if isinstance(made, Mapping) else made)


def _bytes_of(piece: str) -> str:
    r"""A piece of byte-level BPE that is part of a character: ``"\xe2\x80"`` instead of ``âĢ``."""
    if any(character not in BYTES for character in piece):
        return piece
    return bytes(BYTES[character] for character in piece).decode(errors="backslashreplace").strip()


def _byte_letters() -> dict[str, int]:
    """The letters that byte-level BPE writes bytes with: visible ones for themselves."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in visible]
    letters = {chr(byte): byte for byte in visible}
    return letters | {chr(0x100 + place): byte for place, byte in enumerate(others)}


BYTES = _byte_letters()


def _names(tokenizer: Any, ids: list[int], text: str, spans: list[Span] | None) -> tuple[str, ...]:
    names = [name_token(tokenizer, token) for token in ids]
    pieces = tokenizer.convert_ids_to_tokens(ids)
    for at, (start, end) in enumerate(spans or ()):
        # A single byte of a character is not text: show the character it is part of.
        decoded = _decoded(tokenizer, pieces[at])
        if BROKEN in decoded and text[start:end].strip():
            names[at] = text[start:end].strip()
    return tuple(names)
