"""How each target is computed; steps that several targets share are done once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from attnflow.errors import InputError
from attnflow.models.adapter import ModelAdapter
from attnflow.models.loading import load_model
from attnflow.shipped import find_shipped
from attnflow_experiments.reproduce import cases, figures, sentiment, tables
from attnflow_experiments.reproduce.download import AGREEMENT, SENTIMENT, data_folder
from attnflow_experiments.reproduce.request import Request
from attnflow_experiments.reproduce.results import compute_pieces, open_checkpoint
from attnflow_experiments.training.corpora import Row
from attnflow_experiments.training.data import held_out_rows, read_sentences
from attnflow_experiments.training.sentiment import read_sentiment


class TargetBuilder:
    """Computes the targets of one request."""

    def __init__(self, request: Request, *, progress: bool) -> None:
        self.request, self.progress = request, progress
        self._explained: dict[int, tables.Explained] = {}

    def check_inputs(self, name: str) -> None:
        """Raise an error if a target lacks an input, before any work starts."""
        if name == "table3":
            self._sentiment_model()
        elif name == "subjects":
            self._sentences_file()
        elif name == "figure4":
            figures.find_language_model(self.request.language_model)

    @cached_property
    def model(self) -> ModelAdapter:
        """The verb-number model."""
        return load_model(self.request.model or "verbs")

    @cached_property
    def nouns(self) -> dict[str, int]:
        """The nouns that the model knows: 0 singular, 1 plural."""
        name = self.request.model or "verbs"
        return cases.read_nouns(find_shipped(name) or Path(name))

    @cached_property
    def rows(self) -> list[Row]:
        """Held-out sentences up to the verb, and its number."""
        folder = data_folder(self.request.data, AGREEMENT, "agreement")
        return held_out_rows(folder, self.request.count)

    def table1(self) -> tables.Table:
        """Agreement with blank-out."""
        return self._table("table1", tables.blank_out_importance)

    def table2(self) -> tables.Table:
        """Agreement with gradients."""
        return self._table("table2", tables.gradient_importance)

    def _table(self, name: str, measure: tables.Measure) -> tables.Table:
        def compute(piece: slice) -> tables.Correlations:
            texts, labels = zip(*self.rows[piece], strict=True)
            if piece.start not in self._explained:  # Tables 1 and 2 share the explanations
                self._explained[piece.start] = tables.explanations(texts, self.model)
            importances = measure(texts, labels, self.model)
            layers = range(1, self.model.depth + 1)
            return tables.correlate(self._explained[piece.start], importances, layers)

        return tables.summarize_pieces(self._pieces(name, len(self.rows), compute))

    def relevance(self) -> tables.Table:
        """Tables 1 and 2 at the last layer, with flow on relevance beside the paper's methods."""

        def compute(piece: slice) -> tables.Correlations:
            return tables.agreements(self.rows[piece], self.model)

        return tables.summarize_pieces(self._pieces("relevance", len(self.rows), compute))

    def relevance3(self) -> tables.Table:
        """The same of Table 3, with the shipped sentiment model."""
        model = load_model("sentiment")
        folder = data_folder(self.request.sentiment, SENTIMENT, "sst2")
        rows = list(read_sentiment(folder / "dev.tsv"))[: self.request.count]

        def compute(piece: slice) -> tables.Correlations:
            return tables.agreements(rows[piece], model)

        return tables.summarize_pieces(self._pieces("relevance3", len(rows), compute))

    def table3(self) -> dict[str, Any]:
        """A sentiment model: as defined, and as the published script did it."""
        model = load_model(self._sentiment_model())
        folder = data_folder(self.request.sentiment, SENTIMENT, "sst2")
        texts, labels = zip(*read_sentiment(folder / "dev.tsv"), strict=True)
        pieces = self._pieces(
            "table3", len(texts), lambda at: sentiment.compute_piece(texts[at], labels[at], model)
        )
        published = sentiment.published_script(texts[: sentiment.PUBLISHED_COUNT], model)
        return {**sentiment.summarize_pieces(pieces), "published": published}

    def _sentiment_model(self) -> str:
        if self.request.sentiment_model is None:
            msg = (
                "table3 needs a 6-layer encoder fine-tuned on SST-2: train one with 'attnflow "
                "train sentiment' and give it as --sentiment-model, or request other targets"
            )
            raise InputError(msg)
        return self.request.sentiment_model

    def _pieces(self, name: str, size: int, compute: Callable[[slice], Any]) -> list[Any]:
        checkpoint = open_checkpoint(name, self.request)
        return compute_pieces(checkpoint, size, compute, progress=self.progress)

    def subjects(self) -> dict[str, Any]:
        """How often the subject has the highest score, in whole sentences."""
        sentences = read_sentences(self._sentences_file())
        pieces = self._pieces(
            "subjects",
            len(sentences),
            lambda at: cases.find_subjects(sentences[at], self.model, self.nouns),
        )
        return cases.summarize_subjects([row for piece in pieces for row in piece])

    def _sentences_file(self) -> Path:
        """The file of whole sentences, which is not in the public archive."""
        folder = self.request.data
        path = None if folder is None else folder / "full_sentences" / "wiki-dev.txt"
        if path is None or not path.is_file():
            msg = (
                "subjects needs full_sentences/wiki-dev.txt in the folder given with --data; give "
                "such a folder, or request other targets"
            )
            raise InputError(msg)
        return path

    def flips(self) -> list[dict[str, Any]]:
        """Predictions before and after the subject's number is changed."""
        return cases.predict_pairs(self.model)

    def errors(self) -> dict[str, Any]:
        """The model's errors, and the nouns with the highest scores there."""
        pieces = self._pieces(
            "errors",
            len(self.rows),
            lambda at: cases.find_errors(self.rows[at], self.model, self.nouns),
        )
        errors = [error for piece in pieces for error in piece]
        return cases.summarize_errors(errors, len(self.rows), self.nouns)

    def figure(self, name: str) -> dict[str, Any]:
        """Figures 1 to 3."""
        return {"files": figures.draw_sentences(name, self.model, self.request.out)}

    def figure4(self) -> dict[str, Any]:
        """Figure 4, and the probabilities that it shows."""
        model = load_model(figures.find_language_model(self.request.language_model))
        drawn = [
            figures.draw_pronoun(model, index, self.request.out)
            for index in range(len(figures.PRONOUNS))
        ]
        files, texts, probabilities = map(list, zip(*drawn, strict=True))
        return {
            "model": Path(model.name).name,
            "texts": texts,
            "files": files,
            "chances": probabilities,
        }
