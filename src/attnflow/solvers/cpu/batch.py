"""Many short texts of one length: each thread takes whole texts.

Threads that shared the sinks of every text in turn would wait for each other at its end, which
takes as long as a short text itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.io.progress import progress_bar
from attnflow.records.types import FloatArray
from attnflow.solvers.cpu.bounds import make_bounds
from attnflow.solvers.cpu.network import ByteArray, LongArray, make_network
from attnflow.solvers.cpu.pairs import solve_sinks
from attnflow.solvers.cpu.working import (
    SharedParts,
    is_causal,
    source_arrays,
    statistics_of,
    work_together,
)
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import PairFlow, Sources
from attnflow.solvers.threads import cores


class PreparedCpuBatch:
    """Capacities ``[layer, item, query, key]``; nothing is held between calls."""

    nbytes = 0

    def __init__(self, weights: FloatArray) -> None:
        self._weights = weights

    def solve(
        self, sources: Sources, sinks: LongArray, execution: Execution
    ) -> tuple[FloatArray, dict[str, Any]]:
        """The maximum flow from every source to every sink, ``[item, source, sink]``."""
        items, count = sources.edges.shape[:2]
        workers = min(execution.threads or cores(), items)
        values = np.zeros((items, len(sinks), count))
        gaps = np.full_like(values, np.inf)  # of pairs that nobody has solved
        # A row per item, so that counting needs no lock; the sum is the progress.
        proofs, stop = np.zeros((items, 3), np.int64), np.zeros(1, np.uint8)
        parts = SharedParts(range(items))

        def work() -> None:
            for item in parts:
                own = Sources(sources.edges[item], sources.layers)
                results = (values[item], gaps[item], proofs[item], stop)
                _solve_item(np.ascontiguousarray(self._weights[:, item]), own, sinks, results)

        with progress_bar("flow", values.size, shown=execution.progress) as show:
            work_together([work] * workers, stop, lambda: show(int(proofs.sum())))
            show(values.size)
        supply = sources.edges.sum(-1)[:, None]
        return values.swapaxes(1, 2), statistics_of(gaps, supply, proofs.sum(axis=0), workers)

    def solve_pair(self, edges: FloatArray, layer: int, source: int, sink: int) -> PairFlow:
        """Not of a batch: a pair is of one text."""
        raise NotImplementedError


def _solve_item(
    weights: FloatArray,
    sources: Sources,
    sinks: LongArray,
    results: tuple[FloatArray, FloatArray, LongArray, ByteArray],
) -> None:
    """Fill the values and gaps, ``[sink, source]``, of one text."""
    values, gaps, proofs, stop = results
    if stop[0]:
        return
    depth, size, _ = weights.shape
    network, bounds = make_network(weights), make_bounds(depth, size, sinks=0)
    known = np.zeros(values.shape, bool)
    filled = (values, gaps, known, proofs, stop)
    solve_sinks(network, bounds, sinks, source_arrays(sources), is_causal(weights), filled)
