"""Training rows and held-out rows of the verb-number task.

Held out are 2,000 distinct natural prefixes and all prefixes of the file with whole sentences.
No training row equals a held-out prefix, and none continues one of four words or more: such a row
would show the verb that is to be predicted.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attnflow.errors import InputError
from attnflow_experiments.training import corpora
from attnflow_experiments.training.corpora import Row, Tagged
from attnflow_experiments.training.derived import cut_rows, flipped_rows, inner_rows
from attnflow_experiments.training.lexicon import Lexicon, build_lexicon

LABELS = {"VBZ": 0, "VBP": 1}
HELD_ATTRACTORS = {1: 1_000, 2: 500, 3: 300, 4: 150, 5: 60}
"""Number of attractors → number of rows of that kind that are held out as well."""
MIN_CONTINUED = 4
"""Held-out prefixes of this many words or more may not begin a training row either."""
MAX_WORDS = 60


@dataclass(frozen=True)
class Sentence:
    """A whole sentence, the indices of its subject and verb, and the verb's number."""

    words: tuple[str, ...]
    subject: int
    verb: int
    label: int

    @property
    def prefix(self) -> str:
        """The words before the verb."""
        return " ".join(self.words[: self.verb])


@dataclass(frozen=True)
class HeldOut:
    """What the model is evaluated on and never trained on."""

    natural: tuple[Row, ...]
    sentences: tuple[Sentence, ...]
    attractors: dict[int, tuple[Row, ...]]
    development: tuple[Row, ...] = ()

    @property
    def prefixes(self) -> frozenset[str]:
        """Every held-out prefix."""
        rows = itertools.chain(self.natural, self.development, *self.attractors.values())
        return frozenset([p for p, _ in rows] + [s.prefix for s in self.sentences])


@dataclass(frozen=True)
class TrainingData:
    """Rows by source, the vocabulary and the nouns."""

    sources: dict[str, tuple[Row, ...]]
    held_out: HeldOut
    vocabulary: tuple[str, ...]
    lexicon: Lexicon


def read_rows(path: Path) -> list[Row]:
    """Read the distinct prefixes of one of the agreement data's files, in the file's order."""
    if not path.is_file():
        msg = f"{path} is missing: give the folder that holds numpred.val and numpred.test.1 … 5"
        raise InputError(msg)
    rows: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        label, _, prefix = line.partition("\t")
        rows.setdefault(prefix, LABELS[label])
    return list(rows.items())


def read_sentences(path: Path) -> list[Sentence]:
    """Read the file of whole sentences."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    columns = [line.split("\t") for line in lines]
    return [Sentence(tuple(c[0].split()), int(c[1]), int(c[2]), LABELS[c[3]]) for c in columns]


def held_out_rows(folder: Path, count: int = 2_000) -> list[Row]:
    """The held-out natural rows only, for which ``numpred.val`` is enough."""
    return _shuffle(read_rows(folder / "numpred.val"))[:count]


def split_rows(
    folder: Path, count: int = 2_000, development: int = 0
) -> tuple[list[Row], list[Row], HeldOut]:
    """Natural rows, rows with attractors, and what is held out, independent of any seed."""
    natural = _shuffle(read_rows(folder / "numpred.val"))
    sentences = tuple(read_sentences(folder / "full_sentences" / "wiki-dev.txt"))
    held_attractors, attractors = {}, []
    for number, size in HELD_ATTRACTORS.items():
        rows = _shuffle(read_rows(folder / f"numpred.test.{number}"))
        held_attractors[number] = tuple(rows[:size])
        attractors += rows[size:]
    end = count + development
    held_out = HeldOut(
        tuple(natural[:count]), sentences, held_attractors, tuple(natural[count:end])
    )
    return natural[end:], attractors, held_out


def _shuffle(rows: list[Row]) -> list[Row]:
    return random.Random(2020).sample(rows, len(rows))


def load_training_data(sva: Path, tagged: Path, development: int = 0) -> TrainingData:
    """Load everything for training from the agreement data (``sva``) and the tagged corpora."""
    brown, masc, ewt = corpora.find_files(tagged)
    natural, attractors, held_out = split_rows(sva, development=development)
    frequent = _words(p for p, _ in itertools.chain(natural, attractors))
    sentences = [*corpora.read_brown(brown), *corpora.read_masc(masc)]
    parsed = list(corpora.read_conllu(ewt))
    trees: list[Tagged] = [[(c[1], c[4]) for c in sentence] for sentence in parsed]
    lexicon = build_lexicon([*sentences, *trees], frequent)
    vocabulary = tuple(sorted({*frequent, *lexicon.number}))
    known = set(vocabulary)
    rows = itertools.chain(natural, attractors)
    sources: dict[str, Iterable[Row]] = {
        "natural": natural,
        "attractors": attractors,
        "inner": (r for p, _ in rows for r in inner_rows(p, lexicon)),
        "cut": (r for row in attractors for r in cut_rows(row, lexicon)),
        "corpora": itertools.chain(
            (r for s in sentences for r in corpora.adjacent_rows(s, known)),
            (r for s in parsed for r in corpora.parsed_rows(s, known)),
        ),
    }
    clean = {name: tuple(_clean(found, held_out)) for name, found in sources.items()}
    flipped = (r for row in (*clean["cut"], *clean["natural"]) for r in flipped_rows(row, lexicon))
    clean["flipped"] = tuple(_clean(flipped, held_out))
    return TrainingData(clean, held_out, vocabulary, lexicon)


def _words(prefixes: Iterable[str]) -> set[str]:
    return {word for prefix in prefixes for word in prefix.split()}


def _clean(rows: Iterable[Row], held_out: HeldOut) -> Iterator[Row]:
    """Distinct rows that neither equal nor continue a held-out prefix, of 1 to 60 words."""
    forbidden = held_out.prefixes
    seen = set()
    for prefix, label in rows:
        words = prefix.split()
        starts = (" ".join(words[:end]) for end in range(MIN_CONTINUED, len(words)))
        if not words or len(words) > MAX_WORDS or prefix in seen or prefix in forbidden:
            continue
        if not any(start in forbidden for start in starts):
            seen.add(prefix)
            yield prefix, label
