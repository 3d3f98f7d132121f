"""A question with everything needed to answer it but the attention."""

from __future__ import annotations

from dataclasses import dataclass

from attnflow.edges import EDGES, EdgeOptions
from attnflow.edges.checks import check_probabilities
from attnflow.methods import METHODS, Answer, Effort
from attnflow.question import Question
from attnflow.records import Array, AttentionRecord


@dataclass(frozen=True)
class Task:
    """Attention → edges → method: the path of the library's middle."""

    method: str
    options: EdgeOptions
    question: Question
    effort: Effort = Effort()  # noqa: RUF009 - frozen
    edges: str = "attention"

    def __call__(self, layers: tuple[Array, ...]) -> Answer:
        """Answer for layers of ``[…, head, query, key]``, checking them first."""
        check_probabilities(layers)
        graph = EDGES[self.edges](AttentionRecord(layers), self.options)
        return METHODS[self.method](graph, self.question, self.effort)
