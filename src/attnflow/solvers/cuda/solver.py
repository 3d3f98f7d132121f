"""Many maximum flows on a GPU: one warp a pair, every pair exact and certified."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from attnflow.errors import AttnflowError, CertificateError, InputError
from attnflow.io.progress import progress_bar
from attnflow.records.types import FloatArray
from attnflow.solvers.cuda.device import (
    GRAPH,
    PAIRS,
    Device,
    OutOfMemory,
    bytes_of_pair,
    cuda_device,
    most_blocks,
    number_of,
    pack,
    rounded,
    shared_bytes,
    usual_blocks,
    words_of,
)
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import LongArray, PairFlow, Sources, check_gaps
from attnflow.solvers.spreading import MOST_FULL, Effort, Nodes, Sweep, Tensor, spread

THREADS = 512
SHARED = 32 * (8 + 4)  # bytes: two numbers for each warp


class ByKernels:
    """See `attnflow.solvers.spreading.Steps`; tensors are on the device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._scratch: tuple[Tensor, ...] = ()

    def limit(
        self, layer: Tensor, held: Tensor, nodes: Nodes, sweep: Sweep
    ) -> tuple[Tensor, Tensor]:
        """See `Steps`."""
        sinks, size = held.shape
        if not self._scratch or self._scratch[0].shape != held.shape:
            self._scratch = _make_scratch(held)
        tensors = (held, *nodes, *self._scratch)
        first = (_address(layer[0]), np.int64(layer.stride(0)), np.float64(sweep.forget))
        numbers = (size, int(sweep.causal), MOST_FULL)
        self._launch("limit_rates", sinks, first, tensors, numbers)
        return self._scratch[:2]

    def weigh(self, nodes: Nodes, into: Tensor) -> None:
        """See `Steps`."""
        sinks, size = into.shape
        self._launch("weigh_nodes", sinks, (), (*nodes[1:], into), (size,))

    def _launch(
        self, name: str, blocks: int, first: Any, tensors: Any, numbers: tuple[int, ...]
    ) -> None:
        args = (*first, *map(_address, tensors), *map(np.int32, numbers))
        self._device.launch(name, (blocks, 1, 1), THREADS, args, SHARED, with_torch=True)


def _make_scratch(held: Tensor) -> tuple[Tensor, ...]:
    """Rates and what arrives, and lists of nodes with full edges: their rates and numbers."""
    import torch

    full = held.new_empty((len(held), MOST_FULL))
    return torch.empty_like(held), torch.empty_like(held), full, full.to(torch.int32)


def _address(tensor: Tensor) -> Any:
    # A kernel that read other numbers than torch does would prove what is not so.
    if not tensor.is_contiguous():
        msg = f"a tensor of strides {tensor.stride()} is not laid out row by row"
        raise ValueError(msg)
    return np.uint64(tensor.data_ptr())


WAYS = ("closed_form", "bound_met", "cut_found")
BOUND_MET = WAYS.index("bound_met")
NO_ROOM, UNFINISHED = 3, 4  # in solve.cu, after the three ways of proof
COLUMNS_FROM = 7
"""From this layer on, whole columns are poured first: faster, and it leaves as little to repair."""
TILE, TILE_SHARED = 64, 2 * 16 * 65 * 8  # of bound_next: positions, bytes
FEW, ROUNDS, PATIENCE, MOST_SINKS = 16, 32, 10, 2048
LEAST_SIZE, LEAST_LAYERS = 64, 16
"""Few sources of deep graphs have their flows spread first; of many, warps work side by side."""
SHARE_OF_SPREAD = 0.08  # for each of a few arrays of spread flows
SHARE_OF_MEMORY = 0.4  # for the bounds of a piece, and for the pairs in flight, each


class CudaRun:
    """What is computed once for all pieces, and what they found."""

    def __init__(
        self, device: Device, graph: Any, weights: Any, above: Any, sources: Sources
    ) -> None:
        # `graph` is the packed structure of the weights, [layer, item, query, key].
        self._device, self._graph, self._weights, self._above = device, graph, weights, above
        self._depth, self._items, self._size, _ = weights.shape
        self._edges = device.array(sources.edges).reshape(self._items, -1, self._size)
        self._count = int(self._edges.shape[1])
        self._order = device.empty(self._edges.shape, np.int32)
        self._layers = device.upload(sources.layers.astype(np.int32))
        self._heights = sources.layers
        self._supply = device.sums(self._edges)  # [item, source]
        self._deepest = max(1, int(sources.layers.max()) - 1)
        rows = self._items * self._count
        args = (self._edges, self._order, np.int64(rows), np.int32(self._size))
        device.launch("rank_edges", (-(-rows * self._size // 128), 1, 1), 128, args)
        self._proofs = np.zeros(UNFINISHED + 1, np.int64)
        self._largest_gap = 0.0
        self._in_flight = 0

    def solve(self, sinks: LongArray, execution: Execution) -> FloatArray:
        """The maximum flows, ``[item, source, sink]``."""
        with progress_bar(
            "flow", self._items * self._count * len(sinks), shown=execution.progress
        ) as show:
            values, known = self._spread(sinks, show)
            rest = np.flatnonzero(~known.all((0, 1)))
            if len(rest):
                self._search(sinks[rest], values, known, rest, show)
            show(values.size)
        return values

    def _spread(self, sinks: LongArray, show: Any) -> tuple[FloatArray, Any]:
        """The flows of few and deep sources that need no search, and which pairs these are."""
        values = np.zeros((self._items, self._count, len(sinks)))
        known = np.zeros(values.shape, bool)
        deep = np.flatnonzero(self._heights >= LEAST_LAYERS)
        if not len(deep) or len(deep) * self._items > FEW or self._size < LEAST_SIZE:
            return values, known
        from torch.cuda import OutOfMemoryError

        weights, edges = self._device.tensor(self._weights), self._device.tensor(self._edges)
        if weights is None:
            return values, known
        causal = self._device.download(self._above) == 0
        room = int(SHARE_OF_SPREAD * self._device.free_bytes())
        effort = Effort(ROUNDS, PATIENCE, room, MOST_SINKS, ByKernels(self._device))
        for item, source in np.ndindex(self._items, self._count):
            if source not in deep:
                continue
            try:
                found, gaps = spread(
                    weights[: self._heights[source] - 1, item],
                    edges[item, source],
                    sinks,
                    causal=bool(causal[item]),
                    effort=effort,
                    show=show,
                )
            except OutOfMemoryError:
                break  # a search takes less memory
            closed = np.isfinite(gaps)
            values[item, source], known[item, source] = found, closed
            self._proofs[BOUND_MET] += closed.sum()
            largest = check_gaps(gaps[closed], self._supply[item, source])
            self._largest_gap = max(self._largest_gap, largest)
        return values, known

    def _search(
        self, sinks: LongArray, values: FloatArray, known: Any, places: LongArray, show: Any
    ) -> None:
        """Fill in the values of the pairs that are not known, of the sinks at these places."""
        per_sink = self._items * (16 * self._size * self._deepest + 17 * self._count + 8)
        step = int(SHARE_OF_MEMORY * self._device.free_bytes()) // per_sink
        step = max(1, min(step, len(sinks)))
        stop = self._device.stop_flag()
        start, done = 0, int(known.sum())
        while start < len(sinks):
            at = places[start : start + step]
            open_pairs = ~known[:, :, at].transpose(0, 2, 1)
            piece = sinks[start : start + step]
            try:
                found = self._solve_piece(
                    piece, open_pairs, stop, lambda now, before=done: show(before + now)
                )
            except OutOfMemory:
                if step == 1:
                    raise AttnflowError(_too_large(self._size)) from None
                step //= 2
                continue
            chosen = np.where(open_pairs, found, values[:, :, at].transpose(0, 2, 1))
            values[:, :, at] = chosen.transpose(0, 2, 1)
            start += step
            done += int(open_pairs.sum())

    def statistics(self) -> dict[str, Any]:
        """How the flows were found, of all pieces; ``threads`` is the pairs in flight."""
        return {
            "pairs": int(self._proofs.sum()),
            **{way: int(self._proofs[number]) for number, way in enumerate(WAYS)},
            "largest_gap": self._largest_gap,
            "threads": self._in_flight,
        }

    def _solve_piece(self, sinks: LongArray, wanted: Any, stop: Any, show: Any) -> FloatArray:
        """The values of some sinks, ``[item, slot, source]``, of the pairs that are wanted."""
        device, slots = self._device, len(sinks)
        on_device = device.upload(sinks.astype(np.int32))
        reach, share = self._bound(on_device, slots)
        shape = (self._items, slots, self._count)
        values, gaps = device.empty(shape, np.float64), device.empty(shape, np.float64)
        proofs = device.upload(np.full(shape, UNFINISHED, np.uint8))
        given = (self._edges, self._order, self._layers, on_device, reach, share)
        addresses = [device.address(each) for each in (*given, values, gaps, proofs)]
        blocks = usual_blocks(self._deepest, self._size)
        chosen = np.flatnonzero(wanted)
        again, jobs = chosen, None
        while True:
            # Pairs that found no room are solved again with more, so that most take little.
            count = len(again)
            if count < wanted.size:
                jobs = device.upload(again.astype(np.int64))
            listed = 0 if jobs is None else device.address(jobs)
            numbers = (count, self._items, self._count, slots)
            pairs = device.upload(pack(PAIRS, (*addresses, listed), *numbers))
            self._launch(pairs, count, blocks, stop, show)
            ways = device.download(proofs).ravel()[chosen]
            if (ways == UNFINISHED).any():
                msg = "device='cuda' did not finish a pair; please report this, and use 'cpu'"
                raise CertificateError(msg)
            again = chosen[ways == NO_ROOM]
            if not len(again):
                break
            blocks = min(4 * blocks, most_blocks(self._deepest, self._size))
        self._proofs += np.bincount(ways, minlength=len(self._proofs))
        supply = np.broadcast_to(self._supply[:, None], shape)
        largest = check_gaps(device.download(gaps)[wanted], supply[wanted])
        self._largest_gap = max(self._largest_gap, largest)
        found: FloatArray = device.download(values)
        return found

    def _bound(self, sinks: Any, slots: int) -> tuple[Any, Any]:
        """``reach`` and ``share`` of these sinks, ``[layer − 1, item, slot, position]``."""
        device, size, items = self._device, self._size, self._items
        shape = (self._deepest, items, slots, size)
        reach, share = device.empty(shape, np.float64), device.empty(shape, np.float64)
        whole = device.empty((items, slots), np.float64)
        asked = (self._graph, sinks, np.int32(slots), np.int32(items))
        found = (reach, share, whole)
        device.launch("bound_first", (-(-items * slots // 4), 1, 1), 128, (*asked, *found))
        grid = (-(-size // TILE), -(-slots // TILE), items)
        for layer in range(1, self._deepest):
            args = (*asked, np.int32(layer), *found)
            device.launch("bound_next", grid, 256, args, TILE_SHARED)
        return reach, share

    def _launch(self, pairs: Any, count: int, blocks: int, stop: Any, show: Any) -> None:
        """Solve the pairs, as many at a time as there is memory for."""
        device = self._device
        each, shared = bytes_of_pair(self._depth, self._size, blocks), shared_bytes(self._size)
        room = int(SHARE_OF_MEMORY * device.free_bytes()) // each
        warps = max(1, min(count, device.together("solve_pairs", shared), room))
        while True:
            try:
                memory = device.empty(rounded(warps * each), np.uint8)
                break
            except OutOfMemory:
                if warps == 1:
                    raise
                warps //= 2
        self._in_flight = max(self._in_flight, warps)
        taken = device.upload(np.zeros(1, np.uint64))
        args = (self._graph, pairs, taken, stop, memory, np.int64(each), np.int32(blocks))
        device.launch("solve_pairs", (warps, 1, 1), 32, (*args, np.int32(COLUMNS_FROM)), shared)
        try:
            device.wait(lambda: show(min(count, int(device.peek(taken)[0]))))
        except BaseException:
            # The kernel still writes into this memory: it is told to stop, and waited for.
            stop[0] = 1
            device.wait(lambda: None)
            raise


def _too_large(size: int) -> str:
    return (
        f"the GPU has too little free memory for flow among {size} positions; free some "
        f"(torch.cuda.empty_cache()), or use device='cpu'"
    )


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
            run = CudaRun(self._device, self._graph, self._weights, self._known[-1], sources)
            values = run.solve(np.asarray(sinks), execution)
            return (values[0] if self._single else values), run.statistics()

    def solve_pair(self, edges: Any, layer: int, source: int, sink: int) -> PairFlow:
        """The flow of one pair on every edge, with its proof; a single pair is the CPU's work."""
        from attnflow.solvers.cpu.pair import solve_pair

        weights = self._device.download(self._weights[: layer - 1, 0])
        return solve_pair(np.ascontiguousarray(weights), edges, source, sink)
