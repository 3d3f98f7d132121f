"""The options of `explain` that a run takes for all rows, in one place."""

from __future__ import annotations

from typing import Any, TypedDict

from attnflow.edges.options import Heads
from attnflow.errors import InputError, shown
from attnflow.pipeline.config import Layers, Query, TargetSpec


class RowOptions(TypedDict, total=False):
    """Keywords with the meaning and the defaults of `attnflow.explain`."""

    layer: int | None
    layers: Layers
    query: Query
    heads: Heads
    residual: float | None
    discard: float
    correction: str | None
    normalize: bool
    words: bool
    contrast: TargetSpec
    source: str
    steps: int | None
    truncate: bool
    bos: bool
    batch_size: int


OPTIONS = tuple(RowOptions.__annotations__)
HINTS = {
    "target": "; give target_column= for targets",
    "method": "; give methods=, one or several",
}


def check_options(given: dict[str, Any]) -> None:
    """Refuse keywords that a run does not have."""
    for name in given:
        if name not in OPTIONS:
            hint = HINTS.get(name, "")
            msg = f"{shown(name)} is no option of run; allowed: {', '.join(OPTIONS)}{hint}"
            raise InputError(msg)
