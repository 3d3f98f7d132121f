"""Text as tokens: the model's inputs, and the names that are displayed."""

from __future__ import annotations

from typing import Any

from attnflow.errors import InputError
from attnflow.io.inputs import NO_TEXT
from attnflow.models.adapter import Tokens
from attnflow.models.notices import cut_notice, unknown_notice
from attnflow.models.words import Span, assign_words

BLANKS = {"\n": "⏎", "\t": "⇥"}
BROKEN = "\ufffd"


def check_text(model: str, item: Any) -> None:
    """Refuse anything but a text, and texts of whitespace alone."""
    if not isinstance(item, str):
        msg = f"{model} takes text; this is {type(item).__name__}: give a text, or a list of texts"
        raise InputError(msg)
    if not item.strip():
        raise InputError(NO_TEXT)


def tokenize(
    tokenizer: Any,
    text: str,
    limit: int | None,
    *,
    truncate: bool,
    as_target: bool = False,
    special: bool = True,
) -> Tokens:
    """One text as tokens; beyond the limit an error, or truncated if requested.

    Without ``special`` no special tokens are put around it: the text has them already.
    """
    fast = bool(getattr(tokenizer, "is_fast", False))
    cut = {"truncation": True, "max_length": limit} if truncate and limit else {}
    encoded = tokenizer(
        **{"text_target" if as_target else "text": text},
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
    if limit and len(ids) > limit:
        msg = (
            f"the text has {len(ids)} tokens, special ones included; this model takes at most "
            f"{limit}. Shorten it, or explain its first {limit} with truncate=True (--truncate)"
        )
        raise InputError(msg)
    inputs.setdefault("attention_mask", [1] * len(ids))
    marks = frozenset(at for at, put in enumerate(encoded["special_tokens_mask"]) if put)
    if not special:
        marks |= {at for at, token in enumerate(ids) if token in tokenizer.all_special_ids}
    spans = encoded.get("offset_mapping")
    words, texts = (None, ()) if spans is None else assign_words(text, spans, marks)
    notices = unknown_notice(tokenizer, ids, text, spans)
    if cut and len(ids) == limit:
        whole = tokenizer(
            **{"text_target" if as_target else "text": text}, truncation=False, verbose=False
        )
        what = "answer" if as_target else "text"
        notices += cut_notice(len(ids), len(whole["input_ids"]), what)
    names = _names(tokenizer, ids, text, spans)
    places = None if spans is None else tuple((int(start), int(end)) for start, end in spans)
    return Tokens(names, text, inputs, words, texts, notices=notices, spans=places)


def name_token(tokenizer: Any, token: int) -> str:
    """A token as it is displayed: without marks for blanks, and bytes as characters."""
    piece = tokenizer.convert_ids_to_tokens(int(token))
    if piece is None:  # an output that the vocabulary has no word for: models round sizes up
        return f"[{int(token)}]"
    decoded = str(tokenizer.convert_tokens_to_string([piece]))
    if not decoded.strip():
        return "".join(BLANKS.get(character, "␣") for character in decoded) or piece
    return _bytes_of(piece) if BROKEN in decoded else decoded.strip()


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
        decoded = str(tokenizer.convert_tokens_to_string([pieces[at]]))
        if BROKEN in decoded and text[start:end].strip():
            names[at] = text[start:end].strip()
    return tuple(names)
