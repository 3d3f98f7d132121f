"""What solving one text and solving many have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np

from attnflow.records.types import FloatArray
from attnflow.solvers.certificate import check_gaps
from attnflow.solvers.cpu.network import ByteArray, IntArray, LongArray
from attnflow.solvers.cpu.pairs import BOUND_MET, CLOSED_FORM, CUT_FOUND
from attnflow.solvers.interface import Sources

Part = TypeVar("Part")
POLL_SECONDS = 0.05  # how soon the bar moves and an interrupt is noticed


class SharedParts(Iterator[Part]):
    """Parts that several threads take, each part by one of them."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = iter(parts)
        self._lock = threading.Lock()

    def __next__(self) -> Part:
        with self._lock:
            return next(self._parts)


def work_together(
    tasks: Sequence[Callable[[], None]], stop: ByteArray, poll: Callable[[], None]
) -> None:
    """Run each task in a thread, polling meanwhile; an interrupt sets ``stop``, and waits."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        try:
            running = [pool.submit(task) for task in tasks]
            # Waiting in short turns lets this thread receive Ctrl-C and move the bar.
            while wait(running, timeout=POLL_SECONDS).not_done:
                poll()
        finally:
            # After an interrupt the pool waits for its threads, which this ends soon.
            stop[0] = 1
        # Raises what went wrong in a thread, if anything did.
        for future in running:
            future.result()


def source_arrays(sources: Sources) -> tuple[FloatArray, IntArray, LongArray]:
    """The sources as kernels want them: edges, the keys by falling edge, layers."""
    # Those of a batch may lie far apart, for which kernels would be compiled once more.
    edges = np.ascontiguousarray(sources.edges)
    # Sorted once for all sinks: the order depends on the source alone.
    orders = np.argsort(-edges, axis=1, kind="stable").astype(np.int32)
    return edges, orders, sources.layers


def is_causal(weights: FloatArray) -> bool:
    """Whether no position attends to a later one; so for attention that a caller brings, too."""
    return not np.triu(weights, 1).any()


def statistics_of(
    gaps: FloatArray, supply: FloatArray, proofs: Any, workers: int
) -> dict[str, Any]:
    """How many flows were proven in which way, and the largest gap, which is checked.

    ``supply`` is what the source of each flow could send, broadcast to the gaps.
    """
    return {
        "pairs": gaps.size,
        "closed_form": int(proofs[CLOSED_FORM]),
        "bound_met": int(proofs[BOUND_MET]),
        "cut_found": int(proofs[CUT_FOUND]),
        "largest_gap": check_gaps(gaps, supply),
        "threads": workers,
    }
