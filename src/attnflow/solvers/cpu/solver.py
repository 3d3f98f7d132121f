"""Many maximum flows on the CPU, every pair exact and certified: of one text, or of a batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from attnflow.errors import InputError
from attnflow.io.progress import progress_bar
from attnflow.records.arrays import to_numpy
from attnflow.records.types import Array, FloatArray
from attnflow.solvers.cpu.network import (
    MOST_POSITIONS,
    SLOTS,
    ByteArray,
    IntArray,
    LongArray,
    Network,
    larger,
    make_network,
)
from attnflow.solvers.cpu.pair import solve_pair
from attnflow.solvers.cpu.pairs import (
    BOUND_MET,
    CLOSED_FORM,
    CUT_FOUND,
    Bounds,
    make_bounds,
    solve_sinks,
)
from attnflow.solvers.execution import Execution, SharedParts, cores, work_together
from attnflow.solvers.interface import BoolArray, PairFlow, PreparedGraph, Sources, check_gaps

FEW, ROUNDS = 16, 24
LEAST_SIZE, LEAST_LAYERS = 256, 16
"""Few sources of deep graphs have their flows spread first; shorter texts are searched sooner."""
DENSE_BYTES = 1 << 27
"""Weights that take more have residuals in a table, a sixth slower and an eighth of the memory."""
NETWORK_BYTES = 2 << 30  # of all threads' networks together


class CpuSolver:
    """The solver that numba compiles for this machine."""

    name = "cpu"

    def __init__(self, weights: Array | None = None) -> None:
        """Batches of texts like these are solved at once if they are short."""
        # All threads work on a long text together, with the memory of one.
        self.batches = weights is None or weights.shape[-1] < LEAST_SIZE

    def accept(self, array: Array) -> FloatArray:
        """The array as NumPy."""
        accepted: FloatArray = to_numpy(array)
        return accepted

    def prepare(self, weights: FloatArray) -> PreparedGraph:
        """Graphs of these capacities, ``[layer, query, key]`` or ``[layer, item, query, key]``."""
        if weights.shape[-1] > MOST_POSITIONS:
            msg = (
                f"flow through dense layers is for up to {MOST_POSITIONS} positions, "
                f"not {weights.shape[-1]}; shorten the text"
            )
            raise InputError(msg)
        if weights.ndim == 4:
            return PreparedCpuBatch(weights)
        return PreparedCpuGraph(np.ascontiguousarray(weights))


@dataclass
class Buffers:
    """What a solve works on and leaves for the next: bounds of sinks, and a network per thread."""

    bounds: Bounds
    networks: list[Network]
    solves: int = 0


class PreparedCpuGraph:
    """Capacities with the buffers of earlier solves, of which one at a time uses them."""

    def __init__(self, weights: FloatArray) -> None:
        self._weights = weights
        self._causal = is_causal(weights)
        self._buffers = self._no_buffers()
        self._lock = threading.Lock()

    def _no_buffers(self) -> Buffers:
        depth, size, _ = self._weights.shape
        return Buffers(make_bounds(depth, size, sinks=0), [])

    @property
    def nbytes(self) -> int:
        """The memory of bounds and networks, unless a solve is at work on them."""
        arrays: list[Any] = [*self._buffers.bounds]
        for network in self._buffers.networks:
            arrays += [*network, *network.residuals]
        # Every network refers to the weights themselves, which belong to the graph.
        return sum(
            each.nbytes
            for each in arrays
            if isinstance(each, np.ndarray) and each is not self._weights
        )

    def solve(
        self, sources: Sources, sinks: LongArray, execution: Execution
    ) -> tuple[FloatArray, dict[str, Any]]:
        """The maximum flow from every source to every sink, ``[source, sink]``, and statistics.

        An interrupt (Ctrl-C) stops every thread after the pair it is at.
        """
        # A sink is one thread's: threads write its bounds without a lock.
        different, places = np.unique(sinks, return_inverse=True)
        if len(different) < len(sinks):
            values, statistics = self.solve(sources, different, execution)
            return values[:, places], statistics
        with self._lock:
            # The buffers are this solve's alone, and go back only when all its threads have ended.
            # An interrupt may come after a thread has started and before it is recorded: such a
            # thread is never waited for, and what it works on is never used again.
            buffers, self._buffers = self._buffers, self._no_buffers()
            found = self._solve(sources, sinks, execution, buffers)
            self._buffers = buffers
            return found

    def _solve(
        self, sources: Sources, sinks: LongArray, execution: Execution, buffers: Buffers
    ) -> tuple[FloatArray, dict[str, Any]]:
        stop = np.zeros(1, np.uint8)  # kernels don't see exceptions: they read this flag
        # Threads take sinks and not pairs: the bounds of a sink serve all sources.
        workers = min(execution.threads or cores(), len(sinks), most_networks(self._weights.nbytes))
        shape = (len(sinks), len(sources.edges))
        # A row per thread, so that counting needs no lock; the sum is the progress.
        proofs = np.zeros((workers, 3), np.int64)
        arrays = source_arrays(sources)
        parts = SharedParts(_split(len(sinks), workers))
        # A graph that is solved only once needs no cache of bounds.
        if buffers.solves == 1:
            buffers.bounds = make_bounds(*self._weights.shape[:2])
        buffers.solves += 1
        bounds, networks = buffers.bounds, buffers.networks

        def work(number: int) -> None:
            for part in parts:
                # Slices are views: threads write into different rows of the same arrays.
                results = (values[part], gaps[part], known[part], proofs[number], stop)
                network = networks[number]
                solve_sinks(network, bounds, sinks[part], arrays, self._causal, results)
                while network.residuals.counts[1]:
                    network = networks[number] = larger(network)
                    solve_sinks(network, bounds, sinks[part], arrays, self._causal, results)

        with progress_bar("flow", shape[0] * shape[1], shown=execution.progress) as show:
            values, gaps, known = self._spread(sources, sinks, show)
            proofs[0, BOUND_MET] = known.sum()
            if not known.all():
                self._add_networks(networks, workers)
                tasks = [partial(work, number) for number in range(workers)]
                work_together(tasks, stop, lambda: show(int(proofs.sum())))
            show(values.size)
        supply = arrays[0].sum(1)
        return values.T, statistics_of(gaps, supply, proofs.sum(axis=0), workers)

    def _spread(
        self, sources: Sources, sinks: LongArray, show: Callable[[int], None]
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Values and gaps, ``[sink, source]``, of few and deep sources, and which are known."""
        values = np.zeros((len(sinks), len(sources.edges)))
        gaps, known = np.full_like(values, np.inf), np.zeros(values.shape, bool)
        deep = np.flatnonzero(sources.layers >= LEAST_LAYERS)
        if not 0 < len(deep) <= FEW or self._weights.shape[-1] < LEAST_SIZE:
            return values, gaps, known
        import torch

        from attnflow.solvers.spreading import Effort, spread

        weights = torch.from_numpy(self._weights)
        for source in deep:
            below = weights[: sources.layers[source] - 1]
            edges = torch.from_numpy(np.array(sources.edges[source]))
            try:
                found, missing = spread(
                    below, edges, sinks, causal=self._causal, effort=Effort(ROUNDS), show=show
                )
            except RuntimeError as failure:
                # torch has no error of its own for memory that is not a GPU's.
                if "allocate memory" not in str(failure):
                    raise
                break  # a search takes less memory
            known[:, source] = np.isfinite(missing)
            values[:, source] = np.where(known[:, source], found, 0.0)
            gaps[:, source] = missing
        return values, gaps, known

    def _add_networks(self, networks: list[Network], workers: int) -> None:
        depth, size, _ = self._weights.shape
        slots = SLOTS * depth * size if self._weights.nbytes > DENSE_BYTES else None
        while len(networks) < workers:
            networks.append(make_network(self._weights, slots=slots))

    def solve_pair(self, edges: FloatArray, layer: int, source: int, sink: int) -> PairFlow:
        """The flow of one pair on every edge, with its proof."""
        return solve_pair(self._weights[: layer - 1], edges, source, sink)


def most_networks(nbytes: int) -> int:
    """How many threads may have a network of weights this large; one, whatever it takes.

    >>> most_networks(80 * 80 * 12 * 8), most_networks(2048 * 2048 * 30 * 8)
    (3495, 17)
    """
    own = nbytes if nbytes <= DENSE_BYTES else nbytes // 8
    return max(1, NETWORK_BYTES // max(own, 1))


def _split(count: int, workers: int) -> list[slice]:
    """Shares of the sinks, small enough that no thread waits long for the last."""
    step = max(1, count // (8 * workers))
    return [slice(start, start + step) for start in range(0, count, step)]


class PreparedCpuBatch:
    """Capacities ``[layer, item, query, key]``; nothing is held between calls.

    Each thread takes whole texts. If threads shared the sinks of every text in turn, they would
    wait for each other at its end, which takes as long as a short text itself.
    """

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
        gaps = np.full_like(values, np.inf)  # until a pair is solved
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


def source_arrays(sources: Sources) -> tuple[FloatArray, IntArray, LongArray]:
    """The sources as kernels want them: edges, the keys by falling edge, layers."""
    # Those of a batch may lie far apart, for which kernels would be compiled once more.
    edges = np.ascontiguousarray(sources.edges)
    # Sorted once for all sinks: the order depends on the source alone.
    orders = np.argsort(-edges, axis=1, kind="stable").astype(np.int32)
    return edges, orders, sources.layers


def is_causal(weights: FloatArray) -> bool:
    """Whether no position attends to a later one, also in attention that a caller brings."""
    return not any(np.triu(layer, 1).any() for layer in weights)


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
