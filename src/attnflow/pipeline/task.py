"""A question with everything needed to answer it but the attention."""

from __future__ import annotations

from dataclasses import dataclass

from attnflow.aggregation import METHODS, Execution, Scores
from attnflow.edges import EDGES, EdgeOptions
from attnflow.edges.checks import check_probabilities
from attnflow.records import Activations, Array
from attnflow.records.selection import Selection


@dataclass(frozen=True)
class Task:
    """Attention → edges → method: the path of the library's middle."""

    method: str
    options: EdgeOptions
    question: Selection
    effort: Execution = Execution()  # noqa: RUF009 - frozen
    edges: str = "attention"

    def __call__(self, layers: tuple[Array, ...]) -> Scores:
        """Scores for layers of ``[…, head, query, key]``, checking them first."""
        check_probabilities(layers)
        graph = EDGES[self.edges](Activations(layers), self.options)
        return METHODS[self.method](graph, self.question, self.effort)
