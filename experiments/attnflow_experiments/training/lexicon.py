"""Singular and plural nouns, and which two are forms of the same noun."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from attnflow_experiments.training.corpora import NOUNS, Tagged

QUANTITIES = frozenset(
    ("number", "majority", "minority", "lot", "lots", "couple", "variety", "rest", "plenty", "half",
     "percent", "one", "ones", "some", "all", "most", "none", "any", "each", "both", "many", "few")
)  # fmt: skip
"""Heads whose verb may follow the noun after *of*: never replaced by other nouns."""


@dataclass(frozen=True)
class Lexicon:
    """Nouns with their number, count and other form.

    Attributes:
        number: 0 for singular nouns, 1 for plural ones.
        counts: How often each noun was seen as a noun.
        other: The same noun in the other number.
    """

    number: dict[str, int]
    counts: dict[str, int]
    other: dict[str, str]


def plurals(word: str) -> Iterable[str]:
    """Regular plurals of a singular noun, and the frequent irregular ones."""
    irregular = {
        "man": "men", "woman": "women", "child": "children", "foot": "feet", "person": "people",
        "life": "lives", "wife": "wives", "half": "halves", "leaf": "leaves", "wolf": "wolves",
        "criterion": "criteria", "phenomenon": "phenomena", "analysis": "analyses",
        "basis": "bases", "crisis": "crises", "mouse": "mice", "tooth": "teeth", "medium": "media",
    }  # fmt: skip
    if word in irregular:
        return (irregular[word],)
    if word.endswith("man") and len(word) > 4:
        return (word[:-2] + "en",)
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return (word[:-1] + "ies",)
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return (word + "es",)
    return (word + "s", word + "es") if word.endswith("o") else (word + "s",)


def build_lexicon(sentences: Iterable[Tagged], frequent: Iterable[str]) -> Lexicon:
    """Build the lexicon from tagged sentences: words that are nouns more often than not.

    ``frequent`` are the data's words: other nouns are added only as the second half of a pair.
    """
    seen: Counter[str] = Counter()
    tagged: dict[str, Counter[str]] = {}
    for sentence in sentences:
        for word, tag in sentence:
            lower = word.lower()
            seen[lower] += 1
            if tag in NOUNS:
                tagged.setdefault(lower, Counter())[tag] += 1
    known = set(frequent)
    number: dict[str, int] = {"NN": 0, "NNS": 1}
    for word, tags in tagged.items():
        tag, count = tags.most_common(1)[0]
        if word.isalpha() and 2 * sum(tags.values()) > seen[word] and 4 * count > 3 * tags.total():
            number[word] = NOUNS[tag]
    other = {"NN": "NNS", "NNS": "NN"}
    for word in list(number):
        if number[word] == 0:
            for plural in plurals(word):
                if number.get(plural) == 1 and (word in known or plural in known):
                    other[word], other[plural] = plural, word
    selected = {word for word in number if word in known or word in other}
    return Lexicon(
        {word: number[word] for word in sorted(selected)},
        {word: tagged[word].total() if word in tagged else 1 for word in sorted(selected)},
        {word: other[word] for word in sorted(selected) if word in other},
    )
