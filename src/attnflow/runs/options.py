"""The options of `explain` that a run takes for all rows, in one place."""

from __future__ import annotations

from typing import TypedDict

from attnflow.edges.options import Heads
from attnflow.pipeline.request import Layers, Query, TargetSpec


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
