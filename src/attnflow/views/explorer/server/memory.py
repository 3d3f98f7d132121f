"""How much memory a request takes, from shapes, and a budget that all requests share.

The estimates are upper bounds of what is held at the same time: attention as it was captured,
graphs in float64, those of single heads, of chance, and the buffers of solvers. Nothing is
allocated before a request has its share of the budget.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attnflow.edges import EDGE_RULES
from attnflow.evaluation.blanking_check import is_cheap
from attnflow.methods.question import BATCH_BYTES
from attnflow.pipeline.blanking import BLANK_BATCH
from attnflow.views.explorer.server.limits import GIB, ApiError, Job, Limits

if TYPE_CHECKING:
    from attnflow.edges import EdgeRule
    from attnflow.models.adapter import ModelAdapter

SINGLE, DOUBLE = 4, 8  # bytes of a number: in the model, in a graph
EXTRA_TOKENS = 8  # that a vision model may add to its patches
PIXEL_BYTES = 32  # of an image while it is decoded and made ready for the model
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Shape:
    """What decides how much memory an input takes."""

    adapter: ModelAdapter
    rule: EdgeRule
    tokens: int
    threads: int

    @property
    def _map(self) -> int:
        """Numbers of one map of every step, the heads merged."""
        size = self.tokens + (EXTRA_TOKENS if self.adapter.has_grid else 0)
        # A decoder layer with cross-attention has two steps.
        steps = self.adapter.depth * (2 if self.adapter.has_source else 1)
        return steps * size**2

    @property
    def forward(self) -> int:
        """A forward pass with what is captured of it, and what a rule makes of that."""
        attention = SINGLE * self._map * self.adapter.heads
        needs = self.rule.needs
        kept = attention * (3 if needs.gradients else 1)
        if self.rule.amounts:
            kept = 2 * attention
        elif not self.rule.fuses_heads:
            kept += 2 * DOUBLE * self._map * self.adapter.heads
        return kept + self._one_run(whole=needs.blocks or needs.target or needs.zeroing)

    @property
    def beside(self) -> int:
        """A second pass, whose attention is shown beside edges that are amounts."""
        return replace(self, rule=EDGE_RULES["attention"]).forward if self.rule.amounts else 0

    def _one_run(self, *, whole: bool = False) -> int:
        """What the network holds while it runs: a layer, or all where they are kept."""
        if self.adapter.estimates_memory:
            return self.adapter.row_bytes(self.tokens, gradients=whole)
        one = 4 * SINGLE * self._map * self.adapter.heads // self.adapter.depth
        return one * (self.adapter.depth if whole else 1)

    @property
    def merged(self) -> int:
        """Graphs of merged heads: with and without a residual, and of chance."""
        return 6 * DOUBLE * self._map

    @property
    def single(self) -> int:
        """Graphs of single heads, and those of chance."""
        return 4 * DOUBLE * self._map * self.adapter.heads

    @property
    def solving(self) -> int:
        """The buffers of the solvers: bounds, and a network for every thread."""
        return (4 + 6 * self.threads) * DOUBLE * self._map

    @property
    def measuring(self) -> int:
        """Methods that run the model again, with gradients, in batches of a fixed size."""
        return max(BATCH_BYTES, self._one_run(whole=True))

    @property
    def checking(self) -> int:
        """Blanking every token, to check methods by it: in batches, and only where it is cheap."""
        if not self.adapter.estimates_memory or not is_cheap(self.adapter, self.tokens):
            return 0
        runs = 1 + self.tokens + self.tokens // 2  # whole, without each token, each split word
        return max(self._one_run(), min(BATCH_BYTES, runs * self._one_run()))

    def blanking(self, sets: int) -> int:
        """Forward passes of blanked inputs, in batches."""
        return min(sets, BLANK_BATCH) * self._one_run()


class Memory:
    """A budget of bytes that requests wait for."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, needed: int, job: Job) -> Iterator[None]:
        """A share of the budget, while inside; a request that needs too much is refused."""
        most = min(self.limits.request_memory, self.limits.memory)
        if needed > most:
            msg = (
                f"this would take about {needed / GIB:.1f} GiB of memory, and a request may take "
                f"{most / GIB:.1f}; try a shorter text or fewer layers"
            )
            raise ApiError(413, "too-large", msg)
        with self._changed:
            while self.taken + needed > self.limits.memory:
                job.check()
                self._changed.wait(POLL_SECONDS)
            self.taken += needed
        try:
            yield
        finally:
            with self._changed:
                self.taken -= needed
                self._changed.notify_all()
