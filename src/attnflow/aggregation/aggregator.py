"""An aggregator: how the edges of a graph become scores of input tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from attnflow.errors import InputError
from attnflow.registry import Registry, name_failure

if TYPE_CHECKING:
    from attnflow.records import Array, FlowTrace, LayeredGraph, Pair, Selection
    from attnflow.solvers.execution import Execution


@dataclass(frozen=True, eq=False)
class Scores:
    """``[layer, query, key]`` or ``[layer, head, query, key]``, and how they were computed."""

    values: Array
    statistics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Aggregator:
    """A method by its name, with everything that views need to know of it.

    Attributes:
        name: What users write: ``method="flow"``.
        title: What figures and pages call it.
        score: The scores of a selection.
        trace: How one score came about, edge by edge; ``None`` where a method can't tell.
        residual: The share of the residual connection that the method is usually run with.
        reaches_input: Whether scores are of input tokens; otherwise of the layer directly below.
        cost: What is computed at once: ``"matrix"``, the scores of all positions of a layer;
            ``"query"``, those of one position to all tokens; ``"pair"``, each score by a solve of
            its own.
        single_heads: Whether it has scores of single heads on top of merged layers.
        uses_maps: Whether it reads the rule's maps before rows are made to sum to 1.
        shown_by_default: Whether commands and pages show it where no method is named.
        slot: The place of its colour in the palette; ``None`` is the next free one.
        full: The highest score there can be, which many tokens may share.
        tie_breaker: The method whose scores order tokens that share a score.
        alternative: The method that tells such tokens apart.
    """

    name: str
    title: str
    score: Callable[[LayeredGraph, Selection, Execution], Scores]
    trace: Callable[[LayeredGraph, Pair], FlowTrace] | None = None
    residual: float = 0.5
    reaches_input: bool = True
    cost: Literal["matrix", "query", "pair"] = "matrix"
    single_heads: bool = False
    uses_maps: bool = False
    shown_by_default: bool = True
    slot: int | None = None
    full: float | None = None
    tie_breaker: str = ""
    alternative: str = ""

    def apply(self, graph: LayeredGraph, selection: Selection, execution: Execution) -> Scores:
        """The scores of a selection, of the shape that it asks for."""
        with name_failure(f"method={self.name!r}"):
            scores = self.score(graph, selection, execution)
        if not isinstance(scores, Scores):
            msg = f"method={self.name!r} returned {type(scores).__name__}; it must return Scores"
            raise InputError(msg)
        batch = tuple(graph.weights.shape[1:-2])
        heads = () if graph.heads is None else (int(graph.heads.shape[-3]),)
        ends = (len(selection.queries), len(selection.keys))
        expected = (len(selection.layers), *batch, *heads, *ends)
        if tuple(scores.values.shape) != expected:
            msg = (
                f"method={self.name!r} returned scores of shape {tuple(scores.values.shape)}; this "
                f"selection needs {expected}"
            )
            raise InputError(msg)
        return scores


AGGREGATORS: Registry[Aggregator] = Registry(
    "method",
    "Aggregator",
    {
        "raw": "attnflow.aggregation.raw",
        "rollout": "attnflow.aggregation.rollout",
        "flow": "attnflow.aggregation.flow",
        "barrier": "attnflow.aggregation.barrier",
        "widest": "attnflow.aggregation.widest",
        "additive": "attnflow.aggregation.additive",
        "direct": "attnflow.aggregation.direct",
        "direct-all": "attnflow.aggregation.direct:EVERYWHERE",
    },
)


def merge_statistics(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The statistics of several runs as one.

    Numbers are added up, or their maximum is taken where they are called so; of anything else the
    last is kept.
    """
    merged: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if name.startswith("largest") or name == "threads":
                merged[name] = max(merged.get(name, value), value)
            elif isinstance(value, int | float):
                merged[name] = merged.get(name, 0) + value
            else:
                merged[name] = value
    return merged
