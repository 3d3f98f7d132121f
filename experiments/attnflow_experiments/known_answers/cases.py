"""The cases of each trial: texts, and the tokens that decide where that is known."""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnflow_experiments.known_answers.words import (
    BAD,
    CONTRASTS,
    DECIDING,
    FACTS,
    GOOD,
    NEUTRAL,
    THINGS,
)


@dataclass(frozen=True)
class Case:
    """A text and the positions of the tokens that decide; empty where they are not known.

    Where the question is why the model prefers one answer to another, ``target`` and ``contrast``
    name the two.
    """

    text: str
    deciding: frozenset[int] = frozenset()
    target: str | None = None
    contrast: str | None = None

    @property
    def question(self) -> dict[str, Any]:
        """The options of `attnflow.explain` that ask it."""
        if self.target is None or self.contrast is None:
            return {}
        return {"target": self.target, "contrast": self.contrast}

    def as_data(self) -> list[Any]:
        """The case as JSON."""
        return [self.text, sorted(self.deciding), self.target, self.contrast]

    @classmethod
    def from_data(cls, data: list[Any]) -> Case:
        """The case that `as_data` wrote."""
        text, deciding, target, contrast = data
        return cls(text, frozenset(deciding), target, contrast)


def planted_sentence(chance: random.Random, clauses: tuple[int, int]) -> tuple[str, str, int]:
    """A sentence, the word that decides its label, and the label."""
    label = chance.randrange(2)
    word = chance.choice((BAD, GOOD)[label])
    parts = chance.sample(NEUTRAL, chance.randint(*clauses))
    deciding = chance.choice(DECIDING).format(thing=chance.choice(THINGS), word=word)
    parts.insert(chance.randint(0, len(parts)), deciding)
    return " , ".join(parts) + " .", word, label


def planted(model: Any, seed: int, clauses: tuple[int, int]) -> Iterator[Case]:
    """Sentences of which the model says the label."""
    chance = random.Random(seed + 1)
    while True:
        text, word, label = planted_sentence(chance, clauses)
        tokens = model.tokenize(text)
        if model.predict([tokens], [0])[0].label == ("negative", "positive")[label]:
            yield Case(text, positions_of(tokens, word))


def turning(model: Any, seed: int, clauses: tuple[int, int]) -> Iterator[Case]:
    """Planted sentences whose label turns once the word is deleted.

    For a model that was not trained on such sentences, and may have read other words, too.
    """
    for case in planted(model, seed, clauses):
        before, after = (
            model.predict([model.tokenize(text)], [0])[0].label
            for text in (case.text, _deleted(model, case))
        )
        if before != after:
            yield case


def _deleted(model: Any, case: Case) -> str:
    tokens = model.tokenize(case.text)
    words = {tokens.word_texts[tokens.word_ids[at]] for at in case.deciding}
    return " ".join(each for each in case.text.split() if each not in words)


def positions_of(tokens: Any, word: str) -> frozenset[int]:
    """The tokens of a word, by the words that they are pieces of."""
    ids, texts = tokens.word_ids, tokens.word_texts
    return frozenset(at for at, own in enumerate(ids) if own is not None and texts[own] == word)


def copied(model: Any, seed: int, count: int = 10) -> Iterator[Case]:
    """Random words, then the first few again: the model continues with the next one."""
    chance = random.Random(seed)
    words = sorted(
        piece[1:]
        for piece in model.tokenizer.get_vocab()
        if piece.startswith("Ġ") and piece[1:].isalpha() and piece[1:].islower() and len(piece) > 4
    )
    while True:
        chosen = chance.sample(words, count)
        again = chance.randint(2, 5)
        text = " ".join([*chosen, *chosen[:again]])
        tokens = model.tokenize(text)
        if len(tokens) != count + again:
            continue
        if model.predict([tokens], [len(tokens) - 1])[0].label == chosen[again]:
            yield Case(text, frozenset([again]))


def facts(model: Any) -> Iterator[Case]:
    """Prompts whose deciding words were marked before anything was measured."""
    for text, words in FACTS:
        tokens = model.tokenize(text)
        yield Case(text, frozenset().union(*(positions_of(tokens, word) for word in words)))


def contrasts(model: Any) -> Iterator[Case]:
    """Prompts in which one word decides between two answers: without it, the model prefers another.

    The target is the likeliest of the answers, the contrast the likeliest once the word is deleted;
    prompts for which they are the same are left out.
    """
    for prompt, words, answers in CONTRASTS:
        for word in words:
            text = prompt.format(word)
            tokens = model.tokenize(text)
            deciding = positions_of(tokens, word)
            ids = tokens.inputs["input_ids"]
            rest = [token for at, token in enumerate(ids) if at not in deciding]
            target, contrast = (_likeliest(model, each, answers) for each in (ids, rest))
            if target != contrast:
                yield Case(text, deciding, f" {target}", f" {contrast}")


def _likeliest(model: Any, ids: list[int], answers: tuple[str, ...]) -> str:
    import torch

    encode = model.tokenizer.encode
    numbers = {each: encode(f" {each}", add_special_tokens=False) for each in answers}
    with torch.no_grad():
        logits = model.network(torch.tensor([ids], device=model.network.device)).logits[0, -1]
    single = {each: found[0] for each, found in numbers.items() if len(found) == 1}
    return max(single, key=lambda each: float(logits[single[each]]))


def reviews(folder: Path, seed: int) -> Iterator[Case]:
    """Development sentences of SST-2 with at least six words."""
    rows = (folder / "sst2" / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts = [row.rpartition("\t")[0].strip() for row in rows]
    yield from _shuffled([text for text in texts if len(text.split()) >= 6], seed)


def subjects(folder: Path, seed: int) -> Iterator[Case]:
    """Prefixes up to the verb, of at least six words, from sentences the model has not seen."""
    path = folder / "sva" / "full_sentences" / "wiki-dev.txt"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    found = [" ".join(row["sentence"].split()[: int(row["verb_idx"])]) for row in rows]
    yield from _shuffled([text for text in found if 6 <= len(text.split()) <= 40], seed)


def prefixes(folder: Path, seed: int) -> Iterator[Case]:
    """The first 8 to 18 words of longer natural sentences."""
    path = folder / "corpora" / "ud_english_ewt.conllu.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [line[9:].strip() for line in file if line.startswith("# text = ")]
    chance = random.Random(seed)
    cut = []
    for text in texts:
        words = text.split()
        size = chance.randint(8, 18)
        if len(words) > size:
            cut.append(" ".join(words[:size]))
    yield from _shuffled(cut, seed)


def _shuffled(texts: list[str], seed: int) -> Iterator[Case]:
    distinct = sorted(set(texts))
    for text in random.Random(seed).sample(distinct, len(distinct)):
        yield Case(text)
