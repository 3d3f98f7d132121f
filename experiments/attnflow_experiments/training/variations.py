"""Texts for a small model to learn from a larger one: phrases, changed phrases, long texts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from attnflow.records import FloatArray

Text = list[int]
"""A text as the numbers of its words in a `Lexicon`; a word is its pieces."""
MASK = 0
"""The number of the word that hides another."""
SHORT = 48


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The words of all texts: their pieces, their counts and which are used alike."""

    tokenizer: Any
    pieces: list[tuple[int, ...]] = field(default_factory=list)
    counts: Counter[int] = field(default_factory=Counter)
    similar: dict[int, list[int]] = field(default_factory=dict)
    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._number((self.tokenizer.mask_token_id,))

    def read(self, texts: list[str]) -> list[Text]:
        """Split texts into words and count them; new ones are added. Empty texts are left out."""
        backend = self.tokenizer.backend_tokenizer
        found = []
        for encoded in backend.encode_batch(texts, add_special_tokens=False):
            pieces = groupby(zip(encoded.word_ids, encoded.ids, strict=True), key=itemgetter(0))
            words = [self._number(tuple(piece for _, piece in group)) for _, group in pieces]
            self.counts.update(words)
            found.append(words)
        return [words for words in found if words]

    def _number(self, pieces: tuple[int, ...]) -> int:
        number = self._numbers.setdefault(pieces, len(self.pieces))
        if number == len(self.pieces):
            self.pieces.append(pieces)
        return number

    def find_similar(
        self, embeddings: FloatArray, common: int = 12_000, neighbours: int = 12
    ) -> None:
        """Find, for every common word, the common words whose pieces have the nearest mean."""
        words = [word for word, _ in self.counts.most_common(common)]
        means = np.stack([embeddings[list(self.pieces[word])].mean(0) for word in words])
        means -= means.mean(0)
        means /= np.linalg.norm(means, axis=1, keepdims=True) + 1e-9
        nearest = min(neighbours + 1, len(words))
        for start in range(0, len(words), 1024):
            near = means[start : start + 1024] @ means.T
            best = np.argpartition(-near, nearest - 1, axis=1)[:, :nearest]
            for word, indices in zip(words[start:], best, strict=False):
                self.similar[word] = [words[at] for at in indices if words[at] != word]


@dataclass(eq=False)
class TextSampler:
    """Draws the texts of a training step: the same ones for the same seed and step."""

    lexicon: Lexicon
    phrases: list[Text]
    sentences: list[Text]
    seed: int
    _drawn: tuple[int, int, int] | None = None
    _batches: list[list[list[int]]] = field(default_factory=list)

    def draw(self, step: int, rows: int, limit: int) -> list[list[int]]:
        """The pieces of every text of a step, at most ``limit`` of each.

        Every eighth step has long texts, several phrases or sentences in a row, and fewer of them.
        The texts of the steps between are drawn together and divided by length, so that little of a
        batch is padding.
        """
        group, place = divmod(step, 8)
        if place == 7:
            rng = self._random(step)
            return [self._pieces(self._long(rng), limit) for _ in range(max(1, rows // 8))]
        if self._drawn != (group, rows, limit):
            self._drawn, self._batches = (group, rows, limit), self._group(group, rows, limit)
        return self._batches[place]

    def _group(self, group: int, rows: int, limit: int) -> list[list[list[int]]]:
        """Seven batches of short texts, each of texts of about the same length."""
        rng = self._random(8 * group)
        texts = [self._pieces(self._short(rng), min(limit, SHORT)) for _ in range(7 * rows)]
        texts.sort(key=len)
        batches = [texts[start : start + rows] for start in range(0, len(texts), rows)]
        rng.shuffle(batches)
        return batches

    def _random(self, number: int) -> random.Random:
        return random.Random(self.seed * 1_000_003 + number)

    def _pieces(self, text: Text, limit: int) -> list[int]:
        return [piece for word in text for piece in self.lexicon.pieces[word]][:limit]

    def _short(self, rng: random.Random) -> Text:
        kind = rng.random()
        if kind < 0.4:
            return rng.choice(self.phrases)
        return self._changed(rng.choice(self.phrases if kind < 0.8 else self.sentences), rng)

    def _long(self, rng: random.Random) -> Text:
        parts = (self._short(rng) for _ in range(rng.randint(2, 10)))
        return [word for part in parts for word in part]

    def _changed(self, text: Text, rng: random.Random) -> Text:
        """The text cut, joined with another or with words exchanged; each at times."""
        if rng.random() < 0.25:
            start = rng.randrange(len(text))
            text = text[start : start + rng.randint(1, 12)]
        if rng.random() < 0.15:
            text = text + rng.choice(self.phrases)
        share = rng.choice((0.0, 0.15, 0.4))
        return [self._exchange(word, rng) if rng.random() < share else word for word in text]

    def _exchange(self, word: int, rng: random.Random) -> int:
        kind, similar = rng.random(), self.lexicon.similar.get(word)
        if kind < 0.7 and similar:
            return rng.choice(similar)
        return rng.choice(rng.choice(self.phrases)) if kind < 0.85 else MASK
