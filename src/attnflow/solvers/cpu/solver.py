"""Many maximum flows on the CPU: threads share the sinks, every pair is exact and certified."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from attnflow.errors import InputError
from attnflow.io.progress import progress_bar
from attnflow.records.arrays import to_numpy
from attnflow.records.types import Array, FloatArray
from attnflow.solvers.cpu.batch import PreparedCpuBatch
from attnflow.solvers.cpu.bounds import Bounds, make_bounds
from attnflow.solvers.cpu.network import MOST_POSITIONS, ByteArray, Network, larger, make_network
from attnflow.solvers.cpu.pair import solve_pair
from attnflow.solvers.cpu.pairs import BOUND_MET, solve_sinks
from attnflow.solvers.cpu.residuals import SLOTS
from attnflow.solvers.cpu.working import (
    SharedParts,
    source_arrays,
    statistics_of,
    work_together,
)
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import BoolArray, LongArray, PairFlow, PreparedGraph, Sources
from attnflow.solvers.threads import cores

FEW, ROUNDS = 16, 24
LEAST_SIZE, LEAST_LAYERS = 256, 16
"""Few sources of deep graphs have their flows spread first; shorter texts are searched sooner."""
DENSE_BYTES = 1 << 27
"""Weights that take more have residuals in a table, a sixth slower and an eighth of the memory."""
NETWORK_BYTES = 2 << 30  # of all threads' networks together
OWN_BYTES = 13  # of each entry of the weights that a network holds itself


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


class PreparedCpuGraph:
    """Capacities with what earlier pieces leave for later ones: bounds, and a network per thread.

    Pieces are solved one at a time, so that threads which use the same graph share its buffers.
    """

    def __init__(self, weights: FloatArray) -> None:
        self._weights = weights
        # Derived from the weights, so that it also holds for attention that a caller brings.
        self._causal = not any(np.triu(layer, 1).any() for layer in weights)
        self._bounds: Bounds = make_bounds(len(weights), weights.shape[1], sinks=0)
        self._pieces = 0
        self._networks: list[Network] = []
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """The memory of bounds and networks."""
        arrays: list[Any] = [*self._bounds]
        for network in self._networks:
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
        stop = np.zeros(1, np.uint8)  # kernels don't see exceptions: they read this flag
        with self._lock:
            try:
                return self._solve(sources, sinks, execution, stop)
            except BaseException:
                # An interrupt may come between a thread's start and the moment that anybody knows
                # of it. Such a thread ends soon, but what it works on must never be used again.
                stop[0] = 1
                self._networks = []
                self._bounds = make_bounds(len(self._weights), self._weights.shape[1], sinks=0)
                self._pieces = 0
                raise

    def _solve(
        self, sources: Sources, sinks: LongArray, execution: Execution, stop: ByteArray
    ) -> tuple[FloatArray, dict[str, Any]]:
        # Threads take sinks and not pairs: the bounds of a sink serve all sources.
        workers = min(execution.threads or cores(), len(sinks), most_networks(self._weights.nbytes))
        shape = (len(sinks), len(sources.edges))
        # A row per thread, so that counting needs no lock; the sum is the progress.
        proofs = np.zeros((workers, 3), np.int64)
        arrays = source_arrays(sources)
        parts = SharedParts(_split(len(sinks), workers))
        # A graph that is solved once needs no room for bounds that nobody asks for again.
        if self._pieces == 1:
            self._bounds = make_bounds(*self._weights.shape[:2])
        self._pieces += 1
        bounds = self._bounds

        def work(number: int) -> None:
            for part in parts:
                # Slices are views: threads write into different rows of the same arrays.
                results = (values[part], gaps[part], known[part], proofs[number], stop)
                network = self._networks[number]
                solve_sinks(network, bounds, sinks[part], arrays, self._causal, results)
                while network.residuals.counts[1]:
                    network = self._networks[number] = larger(network)
                    solve_sinks(network, bounds, sinks[part], arrays, self._causal, results)

        with progress_bar("flow", shape[0] * shape[1], shown=execution.progress) as show:
            values, gaps, known = self._spread(sources, sinks, show)
            proofs[0, BOUND_MET] = known.sum()
            if not known.all():
                self._make_networks(workers)
                tasks = [partial(work, number) for number in range(workers)]
                work_together(tasks, stop, lambda: show(int(proofs.sum())))
            show(values.size)
        return values.T, statistics_of(gaps, proofs.sum(axis=0), workers)

    def _spread(
        self, sources: Sources, sinks: LongArray, show: Callable[[int], None]
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Values and gaps, ``[sink, source]``, of few and deep sources, and which are known."""
        values = np.zeros((len(sinks), len(sources.edges)))
        gaps, known = np.zeros_like(values), np.zeros(values.shape, bool)
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
            gaps[:, source] = np.where(known[:, source], missing, 0.0)
        return values, gaps, known

    def _make_networks(self, workers: int) -> None:
        depth, size, _ = self._weights.shape
        slots = SLOTS * depth * size if self._weights.nbytes > DENSE_BYTES else None
        while len(self._networks) < workers:
            self._networks.append(make_network(self._weights, slots=slots))

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
