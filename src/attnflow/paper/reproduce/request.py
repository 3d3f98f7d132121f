"""What to reproduce from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEPENDS = {
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
}
"""Of a request, what each target's result depends on."""


@dataclass(frozen=True)
class Request:
    """What to reproduce from.

    Attributes:
        out: The folder for results and figures.
        data: The agreement data's folder; ``None`` fetches it from its public home.
        model: A verb-number model's folder; ``None`` is the shipped one.
        sentiment: The SST-2 folder; ``None`` fetches it.
        sentiment_model: The folder or hub name of a 6-layer encoder fine-tuned on SST-2.
        language_model: For Figure 4; ``None`` is the small one that a package carries.
        count: How many held-out sentences.
    """

    out: Path
    data: Path | None = None
    model: str | None = None
    sentiment: Path | None = None
    sentiment_model: str | None = None
    language_model: str | None = None
    count: int = 2_000

    def conditions(self, target: str) -> dict[str, Any]:
        """What must be the same for a kept result to be this request's."""
        return {name: getattr(self, name) for name in DEPENDS[target]}
