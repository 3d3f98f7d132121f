"""How much of a session is in its document, for each host of the page."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Extent:
    """How much of a session goes into its document; the rest is computed by a server, or left out.

    Attributes:
        all_queries: Up to this many tokens, every position can be explained.
        solved: Up to this many tokens, methods that solve every score apart are included; up to an
            eighth of them, those that solve a system as large as the graph.
        pairs: At most this many (layer, token) pairs are traced.
        heads: At most this many scores of single heads are solved separately.
        blanks: Up to this many tokens, each is blanked out, and methods are included that run the
            model many times.
        trace_edges: At most this many edges of a trace are included, the strongest.
        verified: Of so many traces, the edges of the cut are removed from the model.
        all_methods: Whether methods are offered whose scores are not in the document.
    """

    all_queries: int
    solved: int
    pairs: int
    heads: int
    blanks: int
    trace_edges: int = 1500
    verified: int = 0
    all_methods: bool = False

    def most(self, cost: str) -> float:
        """Up to how many tokens a method of that cost is included."""
        most = {"matrix": math.inf, "pair": self.solved, "query": self.solved // 8}
        return {**most, "pass": math.inf, "passes": self.blanks}[cost]


SERVED = Extent(all_queries=32, solved=64, pairs=1, heads=0, blanks=0, all_methods=True)
STANDALONE = Extent(
    all_queries=40, solved=1024, pairs=100, heads=20_000, blanks=128, trace_edges=250, verified=5
)
