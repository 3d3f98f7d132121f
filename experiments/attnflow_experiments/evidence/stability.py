"""Whether an explanation stays the same where it should.

*Seeds*: models that were trained alike, but for the seed, to do the same thing; what decides is the
same in all of them. *Paraphrases*: a planted sentence, and others in which the same word decides,
with other things judged among other neutral clauses. On each, the word that comes first is noted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import attnflow
from attnflow.records.arrays import round_scores
from attnflow.records.selection import input_positions
from attnflow_experiments.evidence import measure
from attnflow_experiments.evidence.measure import WAYS, Measured, Work
from attnflow_experiments.known_answers.cases import Case, planted_sentence, positions_of
from attnflow_experiments.known_answers.trials import SEEDS
from attnflow_experiments.known_answers.words import DECIDING, NEUTRAL, THINGS

PARAPHRASES = 5
WAYS_TRIED = (*("relevance flow", "integrated gradients", "ALTI rollout", "attention flow"),)
LRP = {False: "lrp", True: "lrp, as rollout on relevance"}  # the latter of encoder–decoders, too


@dataclass(frozen=True)
class Variants:
    """The same question in several forms: other texts, or other models."""

    cases: tuple[Case, ...]
    models: tuple[Path, ...] = ()


def paraphrases(model: Any, seed: int) -> Iterator[Variants]:
    """Planted sentences with the same deciding word, all of which have the label that it says."""
    chance = random.Random(seed + 2)
    while True:
        _, word, label = planted_sentence(chance, (1, 3))
        found: list[Case] = []
        while len(found) < PARAPHRASES:
            parts = chance.sample(NEUTRAL, chance.randint(1, 3))
            said = chance.choice(DECIDING).format(thing=chance.choice(THINGS), word=word)
            parts.insert(chance.randint(0, len(parts)), said)
            text = " , ".join(parts) + " ."
            tokens = model.tokenize(text)
            if model.predict([tokens], [0])[0].label == ("negative", "positive")[label]:
                found.append(Case(text, positions_of(tokens, word)))
        yield Variants(tuple(found))


def seeds(
    make: Callable[[Path, int], Path], cases: Callable[[Any, int], Iterator[Case]], work: Path
) -> Iterator[Variants]:
    """The same inputs for models of several seeds, trained where they are not there yet."""
    models = tuple(make(work.with_name(f"{work.name}-{seed}"), seed) for seed in range(SEEDS))
    loaded = [_loaded(each) for each in models]
    for case in cases(loaded[0], SEEDS):
        said = {_said(model, case) for model in loaded[1:]}
        if said == {_said(loaded[0], case)}:  # all answer alike
            yield Variants((case,) * SEEDS, models)


@lru_cache(maxsize=SEEDS)
def _loaded(folder: Path) -> Any:
    return attnflow.load_model(folder)


def _said(model: Any, case: Case) -> str:
    return str(attnflow.explain(case.text, model, **WAYS["attention flow"]).prediction.label)


def first_words(way: str) -> Work:
    """What comes first in every variant: a word, or a position where all have the same."""

    def work(case: Variants, model: Any) -> Measured:
        models = [_loaded(each) for each in case.models] or [model] * len(case.cases)
        first, right = [], []
        for one, each in zip(case.cases, models, strict=True):
            found = measure.explained(one, each, WAYS[way])
            places = input_positions(found.word_ids, found.segments, len(found.tokens))
            chosen = list(places or range(len(found.tokens)))
            at = chosen[int(np.argmax(round_scores(found.values[chosen])))]
            words = found.word_texts
            first.append(str(at) if case.models or not words else words[found.word_ids[at]])
            right.append(float(at in one.deciding))
        pairs = [one != other for one, other in combinations(first, 2)]
        return {"first": first, "right": right, "changed": float(np.mean(pairs))}

    return work


def works(*, trained: bool) -> Iterator[tuple[str, Work]]:
    """The pieces by their names; ``trained`` for models of several seeds."""
    for way in (*WAYS_TRIED[:1], LRP[trained], *WAYS_TRIED[1:]):
        if not (trained and way == "integrated gradients"):
            yield way, first_words(way)


def rows(boards: Mapping[str, Sequence[dict[str, Any]]]) -> Iterator[str]:
    """How often two variants have different first words, and how often the first is right."""
    yield f"| | {' | '.join(f'{title} ({len(cases)})' for title, cases in boards.items())} |"
    yield "|---" * (len(boards) + 1) + "|"
    ways = dict.fromkeys(way for cases in boards.values() for case in cases for way in case)
    for way in ways:
        cells = []
        for cases in boards.values():
            found = [case[way] for case in cases if "changed" in case.get(way, {})]
            if not found:
                cells.append("–")
                continue
            changed = np.mean([one["changed"] for one in found])
            right = np.mean([one["right"] for one in found])
            cells.append(f"{changed:.2f}, right {right:.2f}".replace("0.", "."))
        yield f"| {way} | {' | '.join(cells)} |"
