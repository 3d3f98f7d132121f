"""One target after the other, each kept in a file, so that an interrupted run goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attnflow.errors import InputError
from attnflow.evaluation.gradients import gradients
from attnflow.models.loading import load_model
from attnflow.models.reading import Adapter
from attnflow.records import Attribution
from attnflow.reproduce import cases, pictures, tables
from attnflow.reproduce.download import AGREEMENT, SENTIMENT, data_folder
from attnflow.training.data import held_out_rows, read_sentences
from attnflow.training.sentiment import read_sentiment

PUBLISHED_COUNT = 101
"""How many sentences the published script for Table 3 took."""
SENTIMENT_LAYERS = (1, 3, 5, 6)


@dataclass(frozen=True)
class Request:
    """What to reproduce from.

    Attributes:
        out: The folder for results and figures.
        data: The agreement data's folder; ``None`` fetches it from its public home.
        sentiment: The SST-2 folder; ``None`` fetches it.
        sentiment_model: The folder or hub name of a 6-layer encoder fine-tuned on SST-2.
        language_model: For Figure 4; ``None`` is the small one that a package carries.
        count: How many held-out sentences.
    """

    out: Path
    data: Path | None = None
    sentiment: Path | None = None
    sentiment_model: str | None = None
    language_model: str | None = None
    count: int = 2_000


class Work:
    """The steps that several targets share, each done once."""

    def __init__(self, request: Request, *, progress: bool) -> None:
        self.request, self.progress = request, progress

    @cached_property
    def model(self) -> Adapter:
        """The shipped model."""
        return load_model()

    @cached_property
    def rows(self) -> list[tuple[str, int]]:
        """Held-out sentences up to the verb, and its number."""
        folder = data_folder(self.request.data, AGREEMENT, "agreement")
        return held_out_rows(folder, self.request.count)

    @cached_property
    def explained(self) -> dict[str, list[Attribution]]:
        """Their explanations by every method."""
        return tables.explanations([t for t, _ in self.rows], self.model, progress=self.progress)

    def table(self, importance: tables.Importance) -> tables.Table:
        """Tables 1 and 2."""
        texts, labels = zip(*self.rows, strict=True)
        wanted = importance(texts, labels, self.model, progress=self.progress)
        return tables.correlate(self.explained, wanted, range(1, self.model.depth + 1))

    def table3(self) -> dict[str, Any]:
        """As defined, and as the published script did it."""
        name = self.request.sentiment_model
        if name is None:
            msg = (
                "Table 3 needs a 6-layer encoder fine-tuned on SST-2: make one with "
                "'attnflow train sentiment', or name one, and give it as --sentiment-model"
            )
            raise InputError(msg)
        model = load_model(name)
        folder = data_folder(self.request.sentiment, SENTIMENT, "sst2")
        rows = read_sentiment(folder / "dev.tsv")
        texts, labels = zip(*rows, strict=True)
        explained = tables.explanations(texts, model, progress=self.progress)
        wanted = tables.sloped(texts, labels, model, progress=self.progress)
        first = texts[:PUBLISHED_COUNT]
        everywhere = tables.explanations(first, model, progress=self.progress, query="all")
        positive = gradients(list(first), model, target=1)
        right = [one.prediction for one in explained["raw"]]
        answers = model.network.config.id2label  # type: ignore[attr-defined] # a text model
        hits = [p is not None and p.label == answers[y] for p, y in zip(right, labels, strict=True)]
        return {
            "rows": len(rows),
            "accuracy": sum(hits) / len(hits),
            "defined": tables.correlate(explained, wanted, SENTIMENT_LAYERS),
            "published": tables.as_published(everywhere, positive, SENTIMENT_LAYERS),
        }

    def subjects(self) -> dict[str, Any]:
        """Needs the file of whole sentences, which has no public home of its own."""
        folder = self.request.data
        path = None if folder is None else folder / "full_sentences" / "wiki-dev.txt"
        if path is None or not path.is_file():
            msg = "subjects needs full_sentences/wiki-dev.txt in the folder given with --data"
            raise InputError(msg)
        return cases.subjects(read_sentences(path), self.model, progress=self.progress)

    def figure(self, name: str) -> list[str]:
        """Figures 1 to 3."""
        return pictures.draw(name, self.model, self.request.out)

    def figure4(self) -> dict[str, Any]:
        """Figure 4, and the chances it shows."""
        model = load_model(pictures.language_model(self.request.language_model))
        files = pictures.draw_pronouns(model, self.request.out)
        texts = [pictures.pronoun_text(model, *parts[:2]) for parts in pictures.PRONOUNS]
        chances = [
            pictures.pronoun_chances(model, text, parts[-1])
            for text, parts in zip(texts, pictures.PRONOUNS, strict=True)
        ]
        return {
            "model": Path(model.name).name,
            "texts": texts,
            "files": files,
            "chances": chances,
        }


TARGETS: dict[str, Callable[[Work], Any]] = {
    "table1": lambda work: work.table(tables.blanked),
    "table2": lambda work: work.table(tables.sloped),
    "subjects": Work.subjects,
    "flips": lambda work: cases.flips(work.model),
    "errors": lambda work: cases.errors(work.rows, work.model),
    "figure1": lambda work: work.figure("figure1"),
    "figure2": lambda work: work.figure("figure2"),
    "figure3": lambda work: work.figure("figure3"),
    "figure4": Work.figure4,
    "table3": Work.table3,
}


def run(targets: Iterable[str], request: Request, *, progress: bool = True) -> dict[str, Any]:
    """Make what is asked for; what the folder already has from the same request is kept."""
    wanted = list(targets) or list(TARGETS)
    for name in wanted:
        if name not in TARGETS:
            msg = f"target={name!r} is unknown; allowed: {', '.join(TARGETS)}"
            raise InputError(msg)
    if request.count < 1:
        msg = f"count={request.count} must be at least 1"
        raise InputError(msg)
    request.out.mkdir(parents=True, exist_ok=True)
    work = Work(request, progress=progress)
    return {name: _kept(name, work) for name in wanted}


def _kept(name: str, work: Work) -> Any:
    path = work.request.out / f"{name}.json"
    conditions = {"count": work.request.count}
    if path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["conditions"] == conditions:
            return known["result"]
        msg = f"{path} was made with {known['conditions']}, not {conditions}: choose another folder"
        raise InputError(msg)
    result = TARGETS[name](work)
    content = json.dumps({"conditions": conditions, "result": result}, indent=1)
    part = path.with_suffix(".part")
    part.write_text(content + "\n", encoding="utf-8")
    part.replace(path)
    return result
