"""What a reader must know of one text: that it was cut, or what the model does not know of it."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from attnflow.models.text.words import Span

MOST_NAMED = 5
MOSTLY = 0.5
SHORT = 2.0  # letters of a piece, on average: of longer ones a model may make sense
FEWEST = 3  # words: fewer may be rare ones in a language that the model knows
SMALLEST = 1000  # tokens of a vocabulary: smaller ones spell everything, as they are meant to
# Their signs stand for syllables, or their words are not apart: short pieces are usual.
SYLLABLES = ("HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


def cut_notice(kept: int, length: int, what: str = "text", end: str = "first") -> tuple[str, ...]:
    """That a text was longer than what the model read, of which the first or last tokens remain.

    Of a pair there may be some of each text, so that neither is said.
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
    # Where one token is for everything (GPT-2's end of text), it is no sign of an unknown word.
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
    named = ", ".join(f"“{word}”" for word in distinct[:MOST_NAMED])
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
    named = ", ".join(f"“{word}”" for word in list(dict.fromkeys(spelled))[:FEWEST])
    return (
        f"the model reads {len(spelled)} of {known} words in pieces of a letter or two ({named} "
        "…): it hardly knows the language, so the answer says little",
    )
