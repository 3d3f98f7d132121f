"""Training rows derived from other rows: prefixes within them, shortened ones, flipped ones."""

from __future__ import annotations

from collections.abc import Iterator

from attnflow_experiments.training.corpora import FORMS, Row
from attnflow_experiments.training.lexicon import QUANTITIES, Lexicon

DETERMINERS = (  # of a singular noun → of its plural, and the reverse
    {"a": "the", "an": "the", "this": "these", "that": "those", "each": "all", "every": "all",
     "another": "other", "one": "two"},
    {"these": "this", "those": "that", "many": "a", "several": "a", "few": "a", "both": "the",
     "all": "every", "two": "one", "three": "one", "four": "one", "five": "one", "various": "a",
     "most": "the", "such": "such"},
)  # fmt: skip
ARTICLES = frozenset(
    ("the", "a", "an", "this", "that", "these", "those", "his", "her", "its", "their")
)


def inner_rows(prefix: str, lexicon: Lexicon) -> Iterator[Row]:
    """Prefixes within a prefix: up to an earlier finite verb right after a noun."""
    words = prefix.split()
    for at in range(1, len(words)):
        number = FORMS.get(words[at])
        if number is not None and words[at - 1] in lexicon.number:
            yield " ".join(words[:at]), number


def cut_rows(row: Row, lexicon: Lexicon) -> Iterator[Row]:
    """The prefix up to its subject: the last noun that has the verb's number."""
    words = row[0].split()
    for at in range(len(words) - 1, -1, -1):
        if lexicon.number.get(words[at]) == row[1]:
            yield " ".join(words[: at + 1]), row[1]
            return


def flipped_rows(row: Row, lexicon: Lexicon) -> Iterator[Row]:
    """The row with its subject, its last word, in the other number; nothing if that is unclear."""
    words = row[0].split()
    subject = words[-1]
    if lexicon.number.get(subject) != row[1] or subject not in lexicon.other:
        return
    if subject in QUANTITIES or (len(words) > 1 and words[-2] in ("of", "and", "or", ",")):
        return
    words[-1] = lexicon.other[subject]
    for at in range(len(words) - 2, max(-1, len(words) - 5), -1):
        if words[at] in DETERMINERS[row[1]]:
            words[at] = DETERMINERS[row[1]][words[at]]
            if words[at + 1] in ARTICLES:
                return
            break
    yield " ".join(words), 1 - row[1]
