"""Maximum flow on relevance where the relevance is, proven to a share of the largest flow.

The edges of all layers of a long prompt fit into no memory but the GPU's. Nearly all flows are as
large as a cut that is known beforehand: everything that can arrive at the sink. What shows it needs
no search:

1. Each edge counts for no more than can arrive at its upper end from the sources. What is left into
   a sink is the upper bound.
2. What a position has to hand on to the sink (its *need*) is met by what the sources sent there,
   which may wait. For all sinks at once this is one pass over the edges.
3. What is missing is pulled from the layer above, over all edges in proportion, so that no edge is
   overloaded where its lower end is not; and from there further up. What is missing at the top was
   promised in vain: the rest is a flow.

The few sinks for which the two bounds differ are solved by the CPU's exact solver, on the strongest
edges between other positions, with all that leads from the sources and into the sink. The minimum
cut that it finds is measured with every edge there is, on the device, which makes the upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnflow.errors import InputError
from attnflow.records.sparse import LongArray, SparseLayer
from attnflow.records.types import FloatArray
from attnflow.solvers.cpu.temporal.solver import CpuTemporalNetwork
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import BoolArray
from attnflow.solvers.temporal import Flows, Positions, check_set, check_sets

SHARE = 1e-4  # of the largest flow: how far any of them may be from its maximum
BLOCK = 1 << 26  # entries of a layer that are worked on at a time
SINKS = 1 << 10  # that are bounded at a time, where flow is pulled
SEARCHED = 1 << 6  # sinks that are handed to the exact solver at a time
STRONGEST = (1 << 20, 1 << 22, 1 << 24)  # edges that it gets, more where fewer prove too little
SAMPLE = 1 << 22  # entries that tell how strong the strongest are


class BoundedNetwork:
    """Positive or negative entries of relevance ``[layer, query, key]`` as a network to be solved.

    ``sign`` says which, and ``without_first`` leaves out what leads to the first position. Flow may
    wait in columns. The relevance is read where it is, and never copied: it must not change.
    """

    def __init__(
        self,
        relevance: Sequence[Tensor] | Tensor,
        sources: Positions,
        sign: float = 1.0,
        *,
        share: float = SHARE,
        without_first: bool = False,
    ) -> None:
        """Find out how much can arrive at each node."""
        self._without_first = without_first
        self._relevance, self._sign, self._share = relevance, sign, share
        self._depth, self._size = len(relevance), int(relevance[0].shape[-1])
        self._device = relevance[0].device
        chosen = check_set("sources", sources, self._size)
        self._sources = torch.from_numpy(chosen).to(self._device)
        self._is_source = torch.zeros(self._size, dtype=torch.bool, device=self._device)
        self._is_source[self._sources] = True
        # By node: what the sources send to it, and what others can.
        self._supply, self._others = relevance[0].new_zeros(2, self._depth, self._size)
        # By layer and its queries: what can arrive there.
        self._reach = relevance[0].new_zeros(self._depth + 1, self._size)
        self._reach[:, self._sources] = torch.inf
        for layer in range(self._depth, 0, -1):
            self._supply[layer - 1] = self._block(layer, self._sources).sum(0)
            if layer < self._depth:  # above, nothing arrives but at the sources
                for rows in self._rows():
                    block = self._block(layer, rows)
                    block[self._is_source[rows]] = 0
                    self._others[layer - 1] += block.sum(0)
            arrived = self._supply[layer - 1] + self._others[layer - 1]
            self._reach[layer - 1] = self._reach[layer] + arrived
        if not torch.isfinite(self._others.sum() + self._supply.sum()):
            msg = "relevance has entries that are infinite or NaN"
            raise InputError(msg)

    @property
    def nbytes(self) -> int:
        """How much memory it holds, beside the relevance."""
        return int(self._supply.nbytes + self._others.nbytes + self._reach.nbytes)

    def solve(self, sinks: Sequence[Positions], execution: Execution | None = None) -> Flows:
        """The maximum flow to each set of positions, none of which holds a source."""
        execution = Execution() if execution is None else execution
        sets = check_sets("sinks", sinks, self._size)
        lower, upper = np.zeros(len(sets)), np.full(len(sets), np.inf)
        with _exact_products():
            if sets and all(len(each) == 1 for each in sets):
                at = np.concatenate(sets)
                bounds = self._bounds_of_tokens()
                lower, upper = bounds[0][at], bounds[1][at]
            for some in _chunks(self._open(lower, upper), SINKS):
                bounds = self._bounds_by_pulling([sets[each] for each in some])
                lower[some] = np.maximum(lower[some], bounds[0])
                upper[some] = np.minimum(upper[some], bounds[1])
            searched = len(self._open(lower, upper))
            self._search(sets, lower, upper, execution)
        largest = max(upper.max(initial=0.0), np.finfo(np.float32).tiny)
        statistics = {
            "sinks": len(sets),
            "searched": searched,
            "largest_gap": float((upper - lower).max(initial=0.0) / largest),
            "threads": 1,
        }
        return Flows(lower, upper, statistics)

    # -- layers

    def _rows(self) -> Iterator[slice]:
        step = max(1, BLOCK // self._size)
        for start in range(0, self._size, step):
            yield slice(start, min(start + step, self._size))

    def _block(self, layer: int, rows: slice | Tensor, keys: Tensor | None = None) -> Tensor:
        """Capacities of some rows, and of some keys: no more than can arrive at each row.

        Only those of slices of rows have no entries from a position to itself.
        """
        block = self._relevance[layer - 1].detach()[rows]
        block = (block if keys is None else block[:, keys]) * self._sign
        block = torch.minimum(block.clamp_(min=0), self._reach[layer][rows, None], out=block)
        if self._without_first:
            block.masked_fill_(keys == 0, 0.0) if keys is not None else block[:, 0].zero_()
        if keys is None and isinstance(rows, slice):
            block.diagonal(rows.start).zero_()
        return block

    def _times(self, layer: int, right: Tensor) -> Tensor:
        """The capacities of a layer times ``[key, sink]``."""
        return torch.cat([self._block(layer, rows) @ right for rows in self._rows()])

    # -- bounds

    def _open(self, lower: FloatArray, upper: FloatArray) -> LongArray:
        """The sinks whose bounds are too far apart."""
        finite = upper[np.isfinite(upper)]
        allowed = self._share * finite.max(initial=0.0)
        found: LongArray = np.flatnonzero(~(upper - lower <= allowed))
        return found

    def _bounds_of_tokens(self) -> tuple[FloatArray, FloatArray]:
        """Of all positions, without anything that is pulled."""
        total = (self._supply + self._others).double().sum(0)
        missing = torch.zeros_like(total)
        for rows in self._rows():
            need = self._supply.new_zeros(len(range(self._size)[rows]), self._size)
            for layer in range(1, self._depth):
                need += self._block(layer, rows)
                need -= self._supply[layer][rows, None]
                need.clamp_(min=0)
            need[self._is_source[rows]] = 0
            missing += need.sum(0)
        return (total - missing).cpu().numpy(), total.cpu().numpy()

    def _bounds_by_pulling(self, sets: Sequence[LongArray]) -> tuple[FloatArray, FloatArray]:
        """Of some sinks; what their needs lack is pulled from further up."""
        inside = self._members(sets)
        void = inside | self._is_source[:, None]
        total = torch.stack([self._supply[:, at].double().sum() for at in self._tensors(sets)])
        later = torch.zeros_like(inside, dtype=self._supply.dtype)  # demands of layers above
        for layer in range(1, self._depth):
            later += self._into(layer, sets, inside, void)
        total += later.double().sum(0)
        need, beyond = torch.zeros_like(later), torch.zeros_like(later)
        waiting = self._supply[1:].sum(0)[:, None]  # at or above a node's layer
        for layer in range(1, self._depth):
            demand = self._into(layer, sets, inside, void)
            later -= demand
            need += demand
            # What can arrive at all meets no more than this.
            beyond += demand
            beyond -= (self._supply[layer] + self._others[layer])[:, None]
            beyond.clamp_(min=0)
            own = self._supply[layer][:, None]
            need = (need - own).clamp_(min=0)
            waiting = waiting - own
            if layer == self._depth - 1:
                break
            limit = self._others[layer][:, None] - self._out_of(layer + 1, sets, inside)
            # What supply further up will meet may wait for it.
            pulled = torch.minimum((need + later - waiting).clamp_(min=0), need)
            pulled = torch.minimum(pulled, limit.clamp_(min=0))
            need -= pulled
            share = torch.where(limit > 0, pulled / limit, 0.0)
            need += self._times(layer + 1, share).masked_fill_(void, 0.0)
        beyond.masked_fill_(void, 0.0)
        lower, upper = total - need.double().sum(0), total - beyond.double().sum(0)
        return lower.clamp(min=0).cpu().numpy(), upper.cpu().numpy()

    def _tensors(self, sets: Sequence[LongArray]) -> list[Tensor]:
        return [torch.from_numpy(each).to(self._device) for each in sets]

    def _members(self, sets: Sequence[LongArray]) -> Tensor:
        """``[position, sink]``: who belongs to which."""
        inside = torch.zeros(self._size, len(sets), dtype=torch.bool)
        for number, each in enumerate(sets):
            inside[torch.from_numpy(each), number] = True
        return inside.to(self._device)

    def _into(self, layer: int, sets: Sequence[LongArray], inside: Tensor, void: Tensor) -> Tensor:
        """``[query, sink]``: what leads from others than the sources into each sink."""
        if all(len(each) == 1 for each in sets):
            keys = torch.from_numpy(np.concatenate(sets)).to(inside.device)
            found = torch.cat([self._block(layer, rows, keys) for rows in self._rows()])
        else:
            found = self._times(layer, inside.to(self._supply.dtype))
        return found.masked_fill_(void, 0.0)

    def _out_of(self, layer: int, sets: Sequence[LongArray], inside: Tensor) -> Tensor:
        """``[key, sink]``: what leads from each sink to others."""
        if all(len(each) == 1 for each in sets):
            rows = torch.from_numpy(np.concatenate(sets)).to(inside.device)
            return self._block(layer, rows).T
        whole = inside.to(self._supply.dtype)
        products = [whole[rows].T @ self._block(layer, rows) for rows in self._rows()]
        return torch.stack(products).sum(0).T

    # -- what is left, solved exactly on the strongest edges

    def _search(
        self,
        sets: Sequence[LongArray],
        lower: FloatArray,
        upper: FloatArray,
        execution: Execution,
    ) -> None:
        """Improve bounds that are too far apart."""
        for count in STRONGEST:
            left = self._open(lower, upper)
            if not len(left):
                return
            layers, complete = self._strongest(count)
            network = CpuTemporalNetwork(layers, self._depth, self._one_source(), None, 0.0)
            for some in _chunks(left, SEARCHED):
                chosen = [sets[each] for each in some]
                inside = self._members(chosen)
                void = inside | self._is_source[:, None]
                demands = np.zeros((len(some), self._depth, self._size))
                for layer in range(1, self._depth):
                    demands[:, layer] = self._into(layer, chosen, inside, void).T.cpu()
                values, sides = network.solve_beside(chosen, demands)
                lower[some] = np.maximum(lower[some], values)
                upper[some] = np.minimum(upper[some], self._cuts(sides))
            if complete:
                return

    def _one_source(self) -> LongArray:
        """Of several sources the first, which stands for all: their edges are added up."""
        found: LongArray = self._sources[:1].cpu().numpy()
        return found

    def _strongest(self, count: int) -> tuple[list[SparseLayer], bool]:
        """Layers from the top down with about so many edges; whether these are all that matter."""
        inner = range(2, self._depth)  # what leads to the input leads to no other edge
        # Odd, so that a sample of some layers has all of their columns.
        step = self._size**2 * len(inner) // SAMPLE | 1
        sample = [
            self._inner(layer, rows).flatten()[::step] for layer in inner for rows in self._rows()
        ]
        drawn = torch.cat(sample) if sample else self._supply.new_zeros(0)
        most = count // step
        threshold = 0.0
        if most < int((drawn > 0).sum()):
            threshold = float(drawn.topk(max(1, most)).values[-1])
        found = []
        source = int(self._sources[0])
        for layer in range(self._depth, 0, -1):
            parts = []
            for rows in self._rows() if layer in inner else ():
                block = self._inner(layer, rows)
                at = torch.nonzero(block > threshold)
                parts.append((at[:, 0] + rows.start, at[:, 1], block[at[:, 0], at[:, 1]]))
            found.append(self._sparse(parts, source, self._supply[layer - 1]))
        return found, threshold == 0.0

    def _inner(self, layer: int, rows: slice) -> Tensor:
        """Capacities between positions that are no sources."""
        block = self._block(layer, rows)
        block[self._is_source[rows]] = 0
        block[:, self._is_source] = 0
        return block

    def _sparse(self, parts: Sequence[Any], source: int, supply: Tensor) -> SparseLayer:
        """Entries on the host, with what the sources send as the row of one."""
        supply = supply.masked_fill(self._is_source, 0.0)
        sent = torch.nonzero(supply)[:, 0]
        parts = [*parts, (torch.full_like(sent, source), sent, supply[sent])]
        queries, keys, values = (
            np.concatenate([each.cpu().numpy() for each in several])
            for several in zip(*parts, strict=True)
        )
        order = np.argsort(queries, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(queries, minlength=self._size))])
        return SparseLayer(starts, keys[order].astype(np.int32), values[order])

    def _cuts(self, sides: BoolArray) -> FloatArray:
        """What cuts hold of all edges; ``sides`` are the sinks', ``[sink, layer, position]``."""
        total = torch.zeros(len(sides), dtype=torch.float64)
        for layer in range(1, self._depth + 1):
            below = torch.from_numpy(sides[:, layer - 1].T.copy()).to(self._device)
            if layer < self._depth:
                above = torch.from_numpy(~sides[:, layer].T).to(self._device)
            else:
                above = self._is_source[:, None].expand_as(below)
            crossing = self._times(layer, below.to(self._supply.dtype))
            total += torch.where(above, crossing, 0.0).double().sum(0).cpu()
        found: FloatArray = total.numpy()
        return found


def _chunks(numbers: LongArray, most: int) -> Iterator[LongArray]:
    for start in range(0, len(numbers), most):
        yield numbers[start : start + most]


@contextmanager
def _exact_products() -> Iterator[None]:
    """Products of matrices in float32, whatever else was chosen for models."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_float32_matmul_precision(before)
