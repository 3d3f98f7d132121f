"""Training rows and held-out rows of the verb-number task.

Held out are 2,000 distinct natural prefixes and all prefixes of the file with whole sentences.
No training row equals a held-out prefix, and none continues one of four words or more: such a row
would show the verb that was asked for.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attnflow.errors import InputError
from attnflow.paper.training import corpora
from attnflow.paper.training.corpora import FORMS, Row, Tagged
from attnflow.paper.training.lexicon import QUANTITIES, Lexicon, build_lexicon

LABELS = {"VBZ": 0, "VBP": 1}
HELD_ATTRACTORS = {1: 1_000, 2: 500, 3: 300, 4: 150, 5: 60}
"""How many rows with that many attractors are held out as well."""
CORPORA = ("brown.zip", "masc_tagged.zip", "ud_english_ewt.conllu.gz")
CONTINUED = 4
"""Held-out prefixes of this many words or more may not begin a training row either."""


@dataclass(frozen=True)
class Sentence:
    """A whole sentence: where its subject and its verb are, and the verb's number."""

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
    """What the model is judged on and never trained on."""

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
    """Rows by source, with the words and nouns they are made of."""

    sources: dict[str, tuple[Row, ...]]
    held_out: HeldOut
    vocabulary: tuple[str, ...]
    lexicon: Lexicon


def read_rows(path: Path) -> list[Row]:
    """Distinct prefixes of one of the agreement data's files, in the file's order."""
    if not path.is_file():
        msg = f"{path} is missing: give the folder that holds numpred.val and numpred.test.1 … 5"
        raise InputError(msg)
    rows: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        label, _, prefix = line.partition("\t")
        rows.setdefault(prefix, LABELS[label])
    return list(rows.items())


def read_sentences(path: Path) -> list[Sentence]:
    """The file of whole sentences."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    columns = [line.split("\t") for line in lines]
    return [Sentence(tuple(c[0].split()), int(c[1]), int(c[2]), LABELS[c[3]]) for c in columns]


def held_out_rows(folder: Path, count: int = 2_000) -> list[Row]:
    """The held-out natural rows alone, for which ``numpred.val`` is enough."""
    return _shuffled(read_rows(folder / "numpred.val"))[:count]


def split(
    folder: Path, count: int = 2_000, development: int = 0
) -> tuple[list[Row], list[Row], HeldOut]:
    """Natural rows, rows with attractors, and what is held out: the same whatever the seed."""
    natural = _shuffled(read_rows(folder / "numpred.val"))
    sentences = tuple(read_sentences(folder / "full_sentences" / "wiki-dev.txt"))
    held, attractors = {}, []
    for number, size in HELD_ATTRACTORS.items():
        rows = _shuffled(read_rows(folder / f"numpred.test.{number}"))
        held[number] = tuple(rows[:size])
        attractors += rows[size:]
    end = count + development
    out = HeldOut(tuple(natural[:count]), sentences, held, tuple(natural[count:end]))
    return natural[end:], attractors, out


def _shuffled(rows: list[Row]) -> list[Row]:
    return random.Random(2020).sample(rows, len(rows))


def load(sva: Path, tagged: Path, development: int = 0) -> TrainingData:
    """Everything for training: ``sva`` is the agreement data, ``tagged`` holds the corpora."""
    for name in CORPORA:
        if not (tagged / name).is_file():
            msg = f"{tagged} has no {name}; give the folder that holds {', '.join(CORPORA)}"
            raise InputError(msg)
    natural, attractors, held = split(sva, development=development)
    frequent = _words(p for p, _ in itertools.chain(natural, attractors))
    of_brown, of_masc, of_trees = (tagged / name for name in CORPORA)
    sentences = [*corpora.brown(of_brown), *corpora.masc(of_masc)]
    parsed = list(corpora.universal_dependencies(of_trees))
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
    clean = {name: tuple(_clean(found, held)) for name, found in sources.items()}
    flipped = (r for row in (*clean["cut"], *clean["natural"]) for r in flipped_rows(row, lexicon))
    clean["flipped"] = tuple(_clean(flipped, held))
    return TrainingData(clean, held, vocabulary, lexicon)


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


DETERMINERS = (
    {"a": "the", "an": "the", "this": "these", "that": "those", "each": "all", "every": "all",
     "another": "other", "one": "two"},
    {"these": "this", "those": "that", "many": "a", "several": "a", "few": "a", "both": "the",
     "all": "every", "two": "one", "three": "one", "four": "one", "five": "one", "various": "a",
     "most": "the", "such": "such"},
)  # fmt: skip

ARTICLES = frozenset(
    ("the", "a", "an", "this", "that", "these", "those", "his", "her", "its", "their")
)


def flipped_rows(row: Row, lexicon: Lexicon) -> Iterator[Row]:
    """The row with its subject, the last word and only noun of that number, in the other number."""
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


def _words(prefixes: Iterable[str]) -> set[str]:
    return {word for prefix in prefixes for word in prefix.split()}


def _clean(rows: Iterable[Row], held: HeldOut) -> Iterator[Row]:
    """Distinct rows that neither equal nor continue a held-out prefix, of a length that fits."""
    forbidden = held.prefixes
    seen = set()
    for prefix, label in rows:
        words = prefix.split()
        starts = (" ".join(words[:end]) for end in range(CONTINUED, len(words)))
        if not words or len(words) > 60 or prefix in seen or prefix in forbidden:
            continue
        if not any(start in forbidden for start in starts):
            seen.add(prefix)
            yield prefix, label
