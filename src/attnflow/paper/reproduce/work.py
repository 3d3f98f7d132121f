"""How each target is made; steps that several share are done once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from attnflow.errors import InputError
from attnflow.models.adapter import ModelAdapter
from attnflow.models.loading import load_model
from attnflow.paper import verbs
from attnflow.paper.checkpoint import in_pieces
from attnflow.paper.reproduce import cases, pictures, sentiment, tables
from attnflow.paper.reproduce.download import AGREEMENT, SENTIMENT, data_folder
from attnflow.paper.reproduce.request import Request
from attnflow.paper.training.corpora import Row
from attnflow.paper.training.data import held_out_rows, read_sentences
from attnflow.paper.training.sentiment import read_sentiment


class Work:
    """The making of targets from one request."""

    def __init__(self, request: Request, *, progress: bool) -> None:
        self.request, self.progress = request, progress
        self._explained: dict[int, tables.Explained] = {}

    def check(self, name: str) -> None:
        """Say what a target lacks, before any work starts."""
        if name == "table3":
            self._sentiment_model()
        elif name == "subjects":
            self._sentences()
        elif name == "figure4":
            pictures.language_model(self.request.language_model)

    @cached_property
    def model(self) -> ModelAdapter:
        """The verb-number model."""
        return load_model(self.request.model) if self.request.model else load_model()

    @cached_property
    def nouns(self) -> dict[str, int]:
        """The nouns it knows: 0 singular, 1 plural."""
        return cases.read_nouns(Path(self.request.model or verbs.FOLDER))

    @cached_property
    def rows(self) -> list[Row]:
        """Held-out sentences up to the verb, and its number."""
        folder = data_folder(self.request.data, AGREEMENT, "agreement")
        return held_out_rows(folder, self.request.count)

    def table1(self) -> tables.Table:
        """Agreement with blank-out."""
        return self._table("table1", tables.blanked)

    def table2(self) -> tables.Table:
        """Agreement with gradients."""
        return self._table("table2", tables.sloped)

    def _table(self, name: str, importance: tables.Importance) -> tables.Table:
        def make(piece: slice) -> tables.Correlations:
            texts, labels = zip(*self.rows[piece], strict=True)
            if piece.start not in self._explained:  # Table 2 asks for what Table 1 had
                self._explained[piece.start] = tables.explanations(texts, self.model)
            wanted = importance(texts, labels, self.model)
            layers = range(1, self.model.depth + 1)
            return tables.correlate(self._explained[piece.start], wanted, layers)

        return tables.summed_up(self._in_pieces(name, len(self.rows), make))

    def table3(self) -> dict[str, Any]:
        """A sentiment model: as defined, and as the published script did it."""
        model = load_model(self._sentiment_model())
        folder = data_folder(self.request.sentiment, SENTIMENT, "sst2")
        texts, labels = zip(*read_sentiment(folder / "dev.tsv"), strict=True)
        pieces = self._in_pieces(
            "table3", len(texts), lambda at: sentiment.piece(texts[at], labels[at], model)
        )
        published = sentiment.as_published(texts[: sentiment.PUBLISHED_COUNT], model)
        return {**sentiment.table(pieces), "published": published}

    def _sentiment_model(self) -> str:
        if self.request.sentiment_model is None:
            msg = (
                "table3 needs a 6-layer encoder fine-tuned on SST-2: make one with 'attnflow "
                "train sentiment' and give it as --sentiment-model, or ask for other targets"
            )
            raise InputError(msg)
        return self.request.sentiment_model

    def _in_pieces(self, name: str, size: int, make: Callable[[slice], Any]) -> list[Any]:
        path = self.request.out / f"{name}.pieces.json"
        conditions = self.request.conditions(name)
        return in_pieces(path, conditions, size, make, progress=self.progress)

    def subjects(self) -> dict[str, Any]:
        """How often the subject is found, in whole sentences."""
        sentences = read_sentences(self._sentences())
        pieces = self._in_pieces(
            "subjects",
            len(sentences),
            lambda at: cases.find_subjects(sentences[at], self.model, self.nouns),
        )
        return cases.subjects([row for piece in pieces for row in piece])

    def _sentences(self) -> Path:
        """The file of whole sentences, which has no public home of its own."""
        folder = self.request.data
        path = None if folder is None else folder / "full_sentences" / "wiki-dev.txt"
        if path is None or not path.is_file():
            msg = (
                "subjects needs full_sentences/wiki-dev.txt in the folder given with --data; or "
                "ask for other targets"
            )
            raise InputError(msg)
        return path

    def flips(self) -> list[dict[str, Any]]:
        """The subject's number changed."""
        return cases.flips(self.model)

    def errors(self) -> dict[str, Any]:
        """Where the model errs."""
        pieces = self._in_pieces(
            "errors",
            len(self.rows),
            lambda at: cases.find_errors(self.rows[at], self.model, self.nouns),
        )
        found = [case for piece in pieces for case in piece]
        return cases.errors(found, len(self.rows), self.nouns)

    def figure(self, name: str) -> dict[str, Any]:
        """Figures 1 to 3."""
        return {"files": pictures.draw(name, self.model, self.request.out)}

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
