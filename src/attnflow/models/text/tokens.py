"""Text as tokens: the model's inputs, the words they are part of, and the names that are displayed.

A word is a run of letters, digits and marks, apostrophes inside it included; a Chinese, Japanese
or Korean ideograph; a run of one punctuation mark; or a run of symbols (an emoji with its modifiers
is one). Where a token spans several of these, they become one word.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError, shown
from attnflow.io.inputs import NO_TEXT, is_pair
from attnflow.io.pictures import PICTURES
from attnflow.models.adapter import Tokens
from attnflow.models.audio.sounds import SOUNDS
from attnflow.records.selection import is_integer

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter


Span = tuple[int, int]
APOSTROPHES = "'’"
IDEOGRAPHS = ("CJK UNIFIED", "CJK COMPATIBILITY", "HIRAGANA", "KATAKANA")
JOINERS = "\u200d\ufe0f\ufe0e"


def split_words(text: str) -> list[Span]:
    """Where each word starts and ends."""
    words: list[Span] = []
    before = ""
    for at, character in enumerate(text):
        kind = _kind(text, at)
        if kind == "join" and before:
            kind = before
        joins = bool(words) and words[-1][1] == at and kind == before and kind != "ideograph"
        if kind == "space":
            before = ""
        elif joins and (not kind.startswith("mark") or text[at - 1] == character):
            words[-1] = (words[-1][0], at + 1)
        else:
            words.append((at, at + 1))
            before = kind
    return words


def _kind(text: str, at: int) -> str:
    if text[at] in APOSTROPHES and text[at - 1 : at].isalnum() and text[at + 1 : at + 2].isalnum():
        return "letter"
    return _kind_alone(text[at])


@lru_cache(1 << 14)
def _kind_alone(character: str) -> str:
    category = unicodedata.category(character)
    if character in JOINERS or category in ("Mn", "Me", "Mc") or _is_tag(character):
        return "join"
    if character.isspace() or category in ("Cc", "Cf"):
        return "space"
    if category == "Lo" and unicodedata.name(character, "").startswith(IDEOGRAPHS):
        return "ideograph"
    if category[0] in "LN" or character == "_":
        return "letter"
    return "mark " + character if category[0] == "P" else "symbol"


def _is_tag(character: str) -> bool:
    return 0x1F3FB <= ord(character) <= 0x1F3FF or 0xE0020 <= ord(character) <= 0xE007F


def assign_words(
    text: str, spans: Sequence[Span], special: frozenset[int]
) -> tuple[tuple[int | None, ...], tuple[str, ...]]:
    """For each token the index of its word, and the words; special tokens have none."""
    words = split_words(text)
    ends = [end for _, end in words]
    overlaps = [
        None if at in special else _overlapping(_strip(text, span), words, ends)
        for at, span in enumerate(spans)
    ]
    parent = list(range(len(words)))
    for indices in overlaps:
        for index in indices or ():
            parent[index] = min(parent[index], parent[(indices or [index])[0]])
    for index in range(len(words)):
        parent[index] = parent[parent[index]]
    owners = [None if not indices else parent[indices[0]] for indices in overlaps]
    # A token that is only blanks marks where the next word begins.
    for at in reversed(range(len(owners) - 1)):
        if owners[at] is None and at not in special and at + 1 not in special:
            owners[at] = owners[at + 1]
    number = {owner: i for i, owner in enumerate(sorted({o for o in owners if o is not None}))}
    last = {parent[i]: words[i][1] for i in range(len(words))}
    texts = tuple(text[words[owner][0] : last[owner]] for owner in number)
    return tuple(None if owner is None else number[owner] for owner in owners), texts


def _strip(text: str, span: Span) -> Span:
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _overlapping(span: Span, words: Sequence[Span], ends: Sequence[int]) -> list[int]:
    """The numbers of the words that a span has a part of; words follow one another."""
    found = []
    for number in range(bisect_right(ends, span[0]), len(words)):
        if words[number][0] >= span[1]:
            break
        found.append(number)
    return found


MOST_NAMED = 5
MOSTLY = 0.5
SHORT = 2.5  # letters of a piece, on average: of longer ones a model may make sense
FEWEST = 3  # words: fewer may be rare ones in a language that the model knows
SMALLEST = 1000  # tokens of a vocabulary: smaller ones spell everything, as they are meant to
# Their signs stand for syllables, or their words are not apart: short pieces are usual.
SYLLABLES = ("HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


def cut_notice(kept: int, length: int, what: str = "text", end: str = "first") -> tuple[str, ...]:
    """That a text was longer than what the model read, of which the first or last tokens remain.

    Of a pair some of each text may remain, so ``end`` is left out.
    """
    if kept >= length:
        return ()
    which = f"the {end} {kept}" if end else str(kept)
    return (f"the {what} was cut: only {which} of its {length} tokens were read",)


def unknown_notice(
    tokenizer: Any, ids: Sequence[int], text: str, spans: Sequence[Span] | None
) -> tuple[str, ...]:
    """Which words the tokenizer has no token for, so that they all look the same to the model."""
    unknown = getattr(tokenizer, "unk_token_id", None)
    name = str(getattr(tokenizer, "unk_token", None))
    # Where one token serves for everything (GPT-2's end of text), it doesn't mean an unknown word.
    shared = unknown in (
        getattr(tokenizer, "eos_token_id", None),
        getattr(tokenizer, "bos_token_id", None),
    )
    if unknown is None or shared:
        return ()
    places = [at for at, token in enumerate(ids) if token == unknown]
    words = [text[slice(*spans[at])] for at in places] if spans is not None else []
    words = [word for word in words if word != name]
    count = len(words) if spans is not None else len(places)
    if not count:
        return ()
    special = set(tokenizer.all_special_ids) - {unknown}
    size = sum(token not in special for token in ids)
    distinct = list(dict.fromkeys(words))
    named = ", ".join(map(_quoted, distinct[:MOST_NAMED]))
    more = f" and {len(distinct) - MOST_NAMED} more" if len(distinct) > MOST_NAMED else ""
    which = f": {named}{more}" if named else ""
    most = "; that is most of the text, so the answer says little" if count > MOSTLY * size else ""
    return (f"the model does not know {count} of {size} tokens and reads {name}{which}{most}",)


def spelled_notice(
    tokenizer: Any, words: Sequence[int | None] | None, texts: Sequence[str]
) -> tuple[str, ...]:
    """That most words are split into letters: the model hardly knows the language.

    ``words`` has for each token its place in ``texts``.
    """
    size = getattr(tokenizer, "vocab_size", None)
    if words is None or not isinstance(size, int) or size < SMALLEST:
        return ()
    spelled = []
    known = 0
    for word, pieces in Counter(word for word in words if word is not None).items():
        text = texts[word]
        if not text[0].isalpha() or unicodedata.name(text[0], "").startswith(SYLLABLES):
            continue
        known += 1
        if pieces > 1 and len(text) <= SHORT * pieces:
            spelled.append(text)
    if len(spelled) < FEWEST or len(spelled) <= MOSTLY * known:
        return ()
    named = ", ".join(map(_quoted, list(dict.fromkeys(spelled))[:FEWEST]))
    return (
        f"the model splits {len(spelled)} of {known} words into pieces of at most three letters on "
        f"average ({named} …): it hardly knows the language, so the answer says little",
    )


def _quoted(word: str) -> str:
    """A word in quotation marks, which right-to-left letters in it don't reorder."""
    turned = any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in word)
    return f"“\u2068{word}\u2069”" if turned else f"“{word}”"


BETWEEN = " / "  # the texts of a pair where they are displayed
SEGMENTS = {0: "first", 1: "second", None: "special"}
NOT_PARTED = (
    "the tokenizer puts no special token between the two texts: the model can't tell where the "
    "second begins"
)
BLANKS = {"\n": "⏎", "\t": "⇥"}
BROKEN = "\ufffd"


def is_encoded(item: Any) -> bool:
    """Whether an input is token ids (a list or an array of integers) or a tokenizer's encoding."""
    if isinstance(item, Mapping):
        return "input_ids" in item
    if isinstance(item, list | tuple):
        return len(item) > 0 and all(map(is_integer, item))
    shape, dtype = getattr(item, "shape", None), str(getattr(item, "dtype", ""))
    return shape is not None and "int" in dtype and (len(shape) == 1 or tuple(shape)[:-1] == (1,))


def check_text(model: str, item: Any) -> None:
    """Refuse anything but a text, and texts of nothing but whitespace."""
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
    item: str | tuple[str, str],
    limit: int | None,
    *,
    truncate: bool,
    as_target: bool = False,
    special: bool = True,
) -> Tokens:
    """One text or one pair as tokens; beyond the limit an error, or truncated if requested.

    Without ``special`` no special tokens are added: the text has them already.
    """
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
    if limit and len(ids) > limit:
        part = f"its {end} {limit}" if end else f"{limit} of them"
        msg = (
            f"the text has {len(ids)} tokens, special ones included; this model takes at most "
            f"{limit}. Shorten it, or explain {part} with truncate=True (--truncate)"
        )
        raise InputError(msg)
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
    """Whether a special token separates the texts of a pair."""
    if "first" not in segments or "second" not in segments:
        return True
    end = len(segments) - 1 - segments[::-1].index("first")
    return segments[end + 1] == "special"


def name_token(tokenizer: Any, token: int) -> str:
    """A token as displayed: without marks for blanks, and bytes as characters."""
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
    """A piece as text; tokenizers for speech (CTC) return a dict that also has its offsets."""
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
    known = {token: name_token(tokenizer, token) for token in set(ids)}
    broken = {
        token
        for token, piece in zip(known, tokenizer.convert_ids_to_tokens(list(known)), strict=True)
        if spans and BROKEN in _decoded(tokenizer, piece)
    }
    names = [known[token] for token in ids]
    for at, (start, end) in enumerate(spans or ()):
        # A single byte of a character is not text: show the character it is part of.
        if ids[at] in broken and text[start:end].strip():
            names[at] = text[start:end].strip()
    return tuple(names)


def refuse_file_name(adapter: ModelAdapter, text: str) -> None:
    """Refuse a text that is nothing but the name of an image or a sound, for models of texts.

    Whether such a file exists is not checked: a row must be the same wherever it is explained.
    """
    alone = adapter.reads_images == "alone"
    name = text.strip().lower()
    if not adapter.reads_text or len(name.split()) != 1:
        return
    picture, sound = name.endswith(PICTURES), name.endswith(SOUNDS)
    if sound or (picture and not alone):
        kind, read = ("an image", "images") if picture else ("a sound", "sounds")
        msg = (
            f"{shown(text)} is the name of {kind}, and {adapter.name} reads texts: its letters "
            f"would be explained; give a text, or a model that reads {read}"
        )
        raise InputError(msg)
