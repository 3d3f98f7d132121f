"""Many maximum flows on a GPU: one warp a pair, every pair exact and certified."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from attnflow.errors import InputError
from attnflow.records.types import FloatArray
from attnflow.solvers.cuda.device import Device, cuda_device, number_of
from attnflow.solvers.cuda.memory import GRAPH, pack, words_of
from attnflow.solvers.cuda.run import Run
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import LongArray, PairFlow, Sources

LARGEST = (1 << 13) - 1
"""Positions: two layers' excess must fit into the fast memory of a multiprocessor."""


class CudaSolver:
    """The solver that CuPy compiles for a GPU; ``device`` is the one that runs it."""

    name = "cuda"
    batches = True

    def __init__(self, device: Device | None = None) -> None:
        self._device = device

    def accept(self, array: Any) -> Any:
        """The array on the GPU, in float64; one that is there already is not copied."""
        return self._on(array).array(array)

    def prepare(self, weights: Any) -> PreparedCudaGraph:
        """Graphs of these capacities, ``[layer, query, key]`` or ``[layer, item, query, key]``."""
        return PreparedCudaGraph(self._on(weights), weights)

    def _on(self, array: Any) -> Device:
        return self._device or cuda_device(number_of(array))


class PreparedCudaGraph:
    """Capacities on the device, and what is known of every row. Pieces are solved one at a time."""

    def __init__(self, device: Device, weights: Any) -> None:
        size = weights.shape[-1]
        if size > LARGEST:
            msg = f"device='cuda' solves texts of up to {LARGEST} positions, not {size}; use 'cpu'"
            raise InputError(msg)
        self._device, self._single = device, weights.ndim == 3
        self._weights = device.array(weights[:, None] if self._single else weights)
        self._lock = threading.Lock()
        depth, items = self._weights.shape[:2]
        rows, words = (items, depth, size), words_of(size)
        own, sums = device.empty(rows, np.float64), device.empty(rows, np.float64)
        usable = device.empty((*rows, words), np.uint32)
        above = device.upload(np.zeros(items, np.int32))
        self._known = (own, sums, usable, above)
        addresses = [device.address(each) for each in (self._weights, *self._known)]
        strides = (items * size * size, size * size)
        self._graph = device.upload(pack(GRAPH, addresses, *strides, depth, size, words))
        args = (self._graph, *self._known, np.int32(items))
        device.launch("describe_rows", (-(-items * depth * size // 4), 1, 1), 128, args)

    @property
    def nbytes(self) -> int:
        """The memory of what is known of the rows."""
        return sum(int(each.nbytes) for each in self._known)

    def solve(
        self, sources: Sources, sinks: LongArray, execution: Execution
    ) -> tuple[FloatArray, dict[str, Any]]:
        """The maximum flow from every source to every sink, and statistics.

        ``[source, sink]``, with ``item`` before them for a batch. An interrupt (Ctrl-C) stops every
        warp after the pair it is at.
        """
        with self._lock:
            run = Run(self._device, self._graph, self._weights, self._known[-1], sources)
            values = run.solve(np.asarray(sinks), execution)
            return (values[0] if self._single else values), run.statistics()

    def solve_pair(self, edges: Any, layer: int, source: int, sink: int) -> PairFlow:
        """The flow of one pair on every edge, with its proof; a single pair is the CPU's work."""
        from attnflow.solvers.cpu.pair import solve_pair

        weights = self._device.download(self._weights[: layer - 1, 0])
        return solve_pair(np.ascontiguousarray(weights), edges, source, sink)
