"""The sentences of the tour, for each shipped model.

The tests show that the shipped weights do with them what the tour is about.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Texts:
    """What is asked of one model.

    Attributes:
        model: Its name.
        about: What it reads and says.
        mixed: A text with a word for either answer.
        strong: The word of it that speaks for ``answer``.
        weak: The word of it that speaks for the other answer.
        answer: A label.
        plain: The first text of a minimal pair.
        changed: The second one.
        word: The word that the second one has and the first one has not.
        disputed: A text that methods disagree about.
    """

    model: str
    about: str
    mixed: str
    strong: str
    weak: str
    answer: str
    plain: str
    changed: str
    word: str
    disputed: str


TEXTS = {
    "sentiment": Texts(
        model="sentiment",
        about="reads a text and says whether it is positive or negative",
        mixed="The story is slow, but the music is wonderful.",
        strong="wonderful",
        weak="slow",
        answer="positive",
        plain="The food was good.",
        changed="The food was not good.",
        word="not",
        disputed="It was not bad at all.",
    ),
    "verbs": Texts(
        model="verbs",
        about="reads a sentence up to its verb and says whether the verb is singular or plural",
        mixed="the keys to the cabinet",
        strong="keys",
        weak="cabinet",
        answer="plural",
        plain="the key to the cabinets",
        changed="the keys to the cabinets",
        word="keys",
        disputed="the man with the cats",
    ),
}
