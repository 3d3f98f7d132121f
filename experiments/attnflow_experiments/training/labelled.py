"""Labelled texts in the layout of GLUE's SST-2: what is read, and which labels there are."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from attnflow.errors import InputError, shown
from attnflow_experiments.training.corpora import Row

LAYOUT = "a header, then lines of a text, a tab and a label"
NAMED = 8
"""So many labels are named in a sentence; of more it says how many."""


class Line(NamedTuple):
    """A text and its label as they are written, and where."""

    text: str
    label: str
    where: str


def read_lines(path: Path) -> list[Line]:
    """Read the texts and labels of a file, plain or gzipped."""
    if not path.is_file():
        msg = f"{path} is missing: give a folder with train.tsv(.gz) and dev.tsv, each {LAYOUT}"
        raise InputError(msg)
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        # Not splitlines(), which also splits at characters that texts may hold.
        header, *rows = content.decode("utf-8-sig").replace("\r\n", "\n").rstrip("\n").split("\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        msg = f"{path} can't be read: {error}"
        raise InputError(msg) from error
    lines = []
    for number, row in enumerate(rows, 2):
        text, tab, label = (part.strip(" ") for part in row.rpartition("\t"))
        if not (tab and text.strip() and label):
            msg = f"{path}, line {number}, is {shown(row)}; it needs a text, a tab and a label"
            raise InputError(msg)
        lines.append(Line(text.strip(), label, f"{path}, line {number}"))
    if not lines:
        msg = f"{path} has no texts: it needs {LAYOUT}"
        raise InputError(msg)
    if (first := header.rpartition("\t")[2].strip(" ")) in {line.label for line in lines}:
        msg = (
            f"{path} begins with a text of label {shown(first)}: put a header in front, such as "
            "text, a tab and label"
        )
        raise InputError(msg)
    return lines


def read_training_lines(folder: Path) -> list[Line]:
    """Read the texts to train on: train.tsv.gz, or train.tsv."""
    compressed = folder / "train.tsv.gz"
    return read_lines(compressed if compressed.exists() else folder / "train.tsv")


def read_held_out_lines(folder: Path) -> dict[str, list[Line]]:
    """Read the texts to score on: dev.tsv, and the labelled test texts where they are there."""
    held_out = {"dev.tsv": read_lines(folder / "dev.tsv")}
    if (test := folder / "test-labeled.tsv").exists():
        held_out[test.name] = read_lines(test)
    return held_out


def find_labels(lines: Sequence[Line]) -> tuple[str, ...]:
    """The labels in texts to train on: numbers in their order, other names in the alphabet's."""
    found = {line.label for line in lines}
    if len(found) < 2:
        msg = f"all texts have the label {shown(min(found))}; a classifier needs two labels or more"
        raise InputError(msg)
    if len(found) > 2 and 2 * len(found) > len(lines):
        msg = (
            f"{len(lines)} texts have {len(found)} different labels, such as "
            f"{shown(lines[0].label)}; the label is what stands behind the last tab of a line"
        )
        raise InputError(msg)
    if all(_is_number(label) for label in found):
        return tuple(sorted(found, key=int))
    return tuple(sorted(found))


def check_labels(labels: Sequence[str], lines: Sequence[Line]) -> tuple[str, ...]:
    """The labels that were given, each of which must be the label of a text."""
    given = tuple(label.strip() for label in labels)
    if len(given) < 2 or not all(given) or len(set(given)) < len(given):
        msg = f"labels={shown(','.join(given))} must be two or more different names"
        raise InputError(msg)
    used = {label for _, label in number(lines, given, lines)}
    if unused := [name for at, name in enumerate(given) if at not in used]:
        msg = (
            f"no text to train on has the label {shown(unused[0])}; there are "
            f"{listed(find_labels(lines), 'and')}"
        )
        raise InputError(msg)
    return given


def number(lines: Sequence[Line], labels: Sequence[str], all_lines: Sequence[Line]) -> list[Row]:
    """Texts with the numbers of their labels.

    All lines have their labels either by name or as these numbers, which ``all_lines`` show.
    """
    numbers = {name: at for at, name in enumerate(labels)}
    if not any(line.label in numbers for line in all_lines):
        numbers = {str(at): at for at in range(len(labels))}
    for line in lines:
        if line.label not in numbers:
            allowed = f"{listed(labels)}, or for all texts the numbers of these, from 0"
            msg = f"{line.where}, has the label {shown(line.label)}; allowed: {allowed}"
            raise InputError(msg)
    return [(line.text, numbers[line.label]) for line in lines]


def decided(labels: Sequence[str]) -> str:
    """What a classifier with these labels decides, as outputs say it.

    >>> decided(["ham", "spam"])
    'whether a text is ham or spam'
    """
    if len(labels) > NAMED:
        return f"which of {len(labels)} labels a text has"
    return f"whether a text is {listed(labels)}"


def listed(labels: Sequence[str], last: str = "or") -> str:
    """Labels in a sentence; of many, the first."""
    if len(labels) > NAMED:
        return f"{', '.join(labels[:NAMED])} … ({len(labels)} labels)"
    return f" {last} ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))


def _is_number(label: str) -> bool:
    return label.removeprefix("-").isdecimal() and label.isascii()
