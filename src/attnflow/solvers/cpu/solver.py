"""Many maximum flows on the CPU: threads share the sinks, every pair is exact and certified."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.errors import InputError
from attnflow.io.progress import progress_bar
from attnflow.records import FloatArray
from attnflow.solvers.cpu.network import LongArray, make_network
from attnflow.solvers.cpu.pairs import BOUND_MET, CLOSED_FORM, CUT_FOUND, solve_sinks
from attnflow.solvers.threads import cores

POLL_SECONDS = 0.05  # how soon the bar moves and an interrupt is heard


@dataclass(frozen=True, eq=False)
class Sources:
    """Where flow starts: for each source its edges, ``[source, key]``, and the layer it is in."""

    edges: FloatArray
    layers: LongArray


def max_flows(
    weights: FloatArray,
    sources: Sources,
    sinks: LongArray,
    *,
    threads: int | None = None,
    progress: bool = False,
) -> tuple[FloatArray, dict[str, Any]]:
    """The maximum flow from every source to every sink, ``[source, sink]``, and statistics.

    ``weights`` are the capacities, ``[layer, query, key]``; sinks are positions of the layer below
    the first. An interrupt (Ctrl-C) stops every thread after the pair it is at.
    """
    weights = weights[: sources.layers.max()]
    workers = min(_threads(threads), len(sinks))
    values = np.zeros((len(sinks), len(sources.edges)))
    gaps = np.zeros_like(values)
    proofs = np.zeros((workers, 3), np.int64)
    stop = np.zeros(1, np.uint8)
    orders = np.argsort(-sources.edges, axis=1, kind="stable").astype(np.int32)
    causal = not np.triu(weights, 1).any()
    parts = iter(_parts(len(sinks), workers))  # of a list: safe to share between threads

    def work(proofs: Any) -> None:
        network = make_network(weights)
        for part in parts:
            asked = (sources.edges, orders, sources.layers)
            solve_sinks(
                network, sinks[part], asked, causal, (values[part], gaps[part], proofs, stop)
            )

    with (
        progress_bar("flow", values.size, shown=progress) as show,
        ThreadPoolExecutor(workers) as pool,
    ):
        running = [pool.submit(work, own) for own in proofs]
        try:
            while wait(running, timeout=POLL_SECONDS).not_done:
                show(int(proofs.sum()))
        finally:
            stop[0] = 1
        show(values.size)
        for future in running:
            future.result()
    return values.T, _statistics(gaps, proofs.sum(axis=0), workers)


def _threads(asked: int | None) -> int:
    if asked is None:
        return cores()
    if asked < 1:
        msg = f"threads={asked} must be at least 1, or None for one a core"
        raise InputError(msg)
    return asked


def _parts(count: int, workers: int) -> list[slice]:
    """Shares of the sinks, small enough that no thread waits long for the last."""
    step = max(1, count // (8 * workers))
    return [slice(start, start + step) for start in range(0, count, step)]


def _statistics(gaps: FloatArray, proofs: Any, workers: int) -> dict[str, Any]:
    return {
        "pairs": gaps.size,
        "closed_form": int(proofs[CLOSED_FORM]),
        "bound_met": int(proofs[BOUND_MET]),
        "cut_found": int(proofs[CUT_FOUND]),
        "largest_gap": float(np.abs(gaps).max()),
        "threads": workers,
    }
