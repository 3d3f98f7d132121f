"""One call of the solver: sinks in pieces that fit into memory, pairs again that need more."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.errors import AttnflowError, CertificateError
from attnflow.io.progress import progress_bar
from attnflow.records.types import FloatArray
from attnflow.solvers.certificate import check_gaps
from attnflow.solvers.cuda.device import Device, OutOfMemory
from attnflow.solvers.cuda.memory import (
    PAIRS,
    bytes_of_pair,
    most_blocks,
    pack,
    rounded,
    shared_bytes,
    usual_blocks,
)
from attnflow.solvers.cuda.steps import ByKernels
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import LongArray, Sources
from attnflow.solvers.spreading import Effort, spread

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


class Run:
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
