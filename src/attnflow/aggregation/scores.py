"""What every method takes and returns beside the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attnflow.records import Array, LayeredGraph
from attnflow.records.selection import Selection


@dataclass(frozen=True)
class Execution:
    """How to work, which changes no value: threads (None is all cores) and a progress bar."""

    threads: int | None = None
    progress: bool = False


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores, ``[layer, query, key]`` or ``[layer, head, query, key]``, and how they were found."""

    scores: Array
    statistics: Mapping[str, Any] = field(default_factory=dict)


Method = Callable[[LayeredGraph, Selection, Execution], Scores]


def merge_statistics(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One account of several: the largest of what is called largest, the sum of the rest."""
    merged: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if name.startswith("largest") or name == "threads":
                merged[name] = max(merged.get(name, value), value)
            else:
                merged[name] = merged.get(name, 0) + value
    return merged
