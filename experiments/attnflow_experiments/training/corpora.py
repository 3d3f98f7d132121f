"""Subject–verb prefixes from tagged and parsed English: Brown, MASC, UD English EWT.

Sentences come as (word, Penn tag) pairs. A prefix ends before a finite verb whose form shows its
number; words outside the vocabulary are written as their tag, as the agreement data does.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from pathlib import Path

from attnflow.errors import InputError

FILES = ("brown.zip", "masc_tagged.zip", "ud_english_ewt.conllu.gz")
Tagged = list[tuple[str, str]]
Row = tuple[str, int]
"""A prefix and its label: 0 singular, 1 plural."""

NOUNS = {"NN": 0, "NNS": 1}
FORMS = {"is": 0, "was": 0, "has": 0, "does": 0, "are": 1, "were": 1, "have": 1}
BROWN_TAGS = {
    "NN": "NN", "NNS": "NNS", "NP": "NNP", "NPS": "NNPS", "NR": "NNP", "JJ": "JJ", "JJR": "JJR",
    "JJT": "JJS", "JJS": "JJS", "RB": "RB", "RBR": "RBR", "RBT": "RBS", "VB": "VB", "VBD": "VBD",
    "VBG": "VBG", "VBN": "VBN", "VBZ": "VBZ", "BEZ": "VBZ", "BER": "VBP", "BEDZ": "VBD",
    "BED": "VBD", "HVZ": "VBZ", "HV": "VBP", "DOZ": "VBZ", "DO": "VBP", "CD": "CD", "OD": "JJ",
    "UH": "UH", "IN": "IN", "CC": "CC", "MD": "MD", "FW": "FW",
}  # fmt: skip


def find_files(folder: Path) -> list[Path]:
    """The files of the three corpora; refuses a folder that lacks one."""
    for name in FILES:
        if not (folder / name).is_file():
            msg = f"{folder} has no {name}; give the folder that holds {', '.join(FILES)}"
            raise InputError(msg)
    return [folder / name for name in FILES]


def read_brown(path: Path) -> Iterator[Tagged]:
    """Read the sentences of the Brown corpus, with Penn tags where they are known."""
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            file = name.rsplit("/", 1)[-1]
            if not file.startswith("c") or len(file) != 4:  # texts are ca01 … cr09
                continue
            for line in archive.read(name).decode("latin-1").splitlines():
                if line.strip():
                    yield list(_brown_words(line))


def _brown_words(line: str) -> Iterator[tuple[str, str]]:
    for token in line.split():
        word, _, tag = token.rpartition("/")
        tag = tag.upper().split("-")[0]
        if tag.endswith("$") and word.endswith(("'s", "'")):
            stem, _, ending = word.rpartition("'")
            yield stem, BROWN_TAGS.get(tag[:-1], tag)
            yield "'" + ending, "POS"
        else:
            yield word, BROWN_TAGS.get(tag.rstrip("*"), tag)


def read_masc(path: Path) -> Iterator[Tagged]:
    """Read the sentences of the tagged part of MASC."""
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith(".txt") or name.endswith("categories.txt"):
                continue
            for line in archive.read(name).decode("utf-8", "replace").splitlines():
                pairs = [token.rpartition("_") for token in line.split()]
                if pairs:
                    yield [(word, tag) for word, _, tag in pairs]


def read_conllu(path: Path) -> Iterator[list[list[str]]]:
    """Read parsed sentences: the CoNLL-U columns of each word."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        sentence: list[list[str]] = []
        for line in file:
            if not line.strip():
                if sentence:
                    yield sentence
                sentence = []
            elif line[0] != "#":
                columns = line.rstrip("\n").split("\t")
                if columns[0].isdigit():
                    sentence.append(columns)


def read_sentences(folder: Path) -> list[str]:
    """Read the sentences of all three corpora as plain text, words apart."""
    brown, masc, ewt = find_files(folder)
    sentences = [[word for word, _ in tagged] for tagged in (*read_brown(brown), *read_masc(masc))]
    parsed = [[columns[1] for columns in sentence] for sentence in read_conllu(ewt)]
    return [" ".join(words) for words in sentences + parsed]


def to_agreement_format(sentence: Tagged, vocabulary: set[str]) -> str:
    """The sentence as the agreement data would write it: known words, tags for the others."""
    words = []
    for word, tag in sentence:
        lower = word.lower()
        if lower in vocabulary:
            words.append(lower)
        elif tag in vocabulary:
            words.append(tag)
    return " ".join(words)


def verb_number(word: str, tag: str) -> int | None:
    """0 for a singular, 1 for a plural finite verb; ``None`` if the form does not show it."""
    if word.lower() in FORMS:
        return FORMS[word.lower()]
    return {"VBZ": 0, "VBP": 1}.get(tag)


def adjacent_rows(sentence: Tagged, vocabulary: set[str]) -> Iterator[Row]:
    """Prefixes that end in a common noun, or a noun and one adverb, before a finite verb."""
    for at in range(1, len(sentence)):
        number = verb_number(*sentence[at])
        if number is None:
            continue
        before = at - 2 if sentence[at - 1][1] == "RB" and at > 1 else at - 1
        if sentence[before][1] in NOUNS:
            yield to_agreement_format(sentence[:at], vocabulary), number


def parsed_rows(sentence: list[list[str]], vocabulary: set[str]) -> Iterator[Row]:
    """Prefixes up to the verb of a common noun that is a subject in the parse."""
    tagged = [(columns[1], columns[4]) for columns in sentence]
    for subject, columns in enumerate(sentence):
        if columns[4] not in NOUNS or not columns[7].startswith("nsubj"):
            continue
        head = columns[6]
        for at in range(subject + 1, len(sentence)):
            finite = sentence[at][0] == head or (
                sentence[at][6] == head and sentence[at][7].split(":")[0] in ("cop", "aux")
            )
            if finite:
                number = verb_number(*tagged[at])
                if number is not None:
                    yield to_agreement_format(tagged[:at], vocabulary), number
                break
