"""Maximum flow on relevance where the relevance is, between two bounds.

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
Of very many edges it gets a small part, and is asked only where bounds are far apart.
Mostly bounds are a small share of the largest flow apart then; `largest_gap` says how far they are.
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

SHARE = 1e-4  # of the largest flow: bounds that are further apart are worth a search
# The same where the exact solver would get a small part of the edges, and prove little.
GROSS = 1e-2
ROWS = 1 << 11  # of a layer that are worked on at a time, fewer where these are long
BLOCK = 1 << 26  # entries at most
FEW = 1 << 4  # sinks for which products with one column after the other are quicker
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
        # Whether some position reads a later one; otherwise half of each layer is left alone.
        self._ahead = any(
            bool(each[rows, rows.stop :].any()) for each in relevance for rows in self._rows()
        )
        for layer in range(self._depth, 0, -1):
            self._supply[layer - 1] = self._some_rows(layer, self._sources).sum(0)
            if layer < self._depth:  # above, nothing arrives but at the sources
                for rows, keys, block in self._blocks(layer):
                    block.masked_fill_(self._is_source[rows, None], 0.0)
                    self._others[layer - 1, keys] += block.sum(0)
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
            share = self._share if self._few_edges() else max(self._share, GROSS)
            searched = len(self._open(lower, upper, share))
            if searched:
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
        step = max(1, min(ROWS, BLOCK // self._size))
        for start in range(0, self._size, step):
            yield slice(start, min(start + step, self._size))

    def _blocks(self, layer: int) -> Iterator[tuple[slice, slice, Tensor]]:
        """Capacities by rows: which rows, the keys that these may read, and all between them."""
        for rows in self._rows():
            yield rows, self._read_by(rows), self._block(layer, rows)

    def _read_by(self, rows: slice) -> slice:
        return slice(0, self._size if self._ahead else rows.stop)

    def _block(self, layer: int, rows: slice) -> Tensor:
        """Capacities of rows: no more than can arrive at each, and none to a position itself."""
        block = self._clipped(layer, rows, self._relevance[layer - 1][rows, self._read_by(rows)])
        block.diagonal(rows.start).zero_()
        if self._without_first:
            block[:, 0] = 0
        return block

    def _some_rows(self, layer: int, rows: Tensor) -> Tensor:
        """Those of some rows, with what is between a position and itself."""
        block = self._clipped(layer, rows, self._relevance[layer - 1][rows])
        if self._without_first:
            block[:, 0] = 0
        return block

    def _some_keys(self, layer: int, keys: Tensor) -> Tensor:
        """``[query, key]`` of some keys, with what is between a position and itself."""
        whole = slice(0, self._size)
        block = self._clipped(layer, whole, self._relevance[layer - 1][:, keys])
        return block.masked_fill_(keys == 0, 0.0) if self._without_first else block

    def _clipped(self, layer: int, rows: slice | Tensor, given: Tensor) -> Tensor:
        most = self._reach[layer][rows, None]
        none = torch.zeros_like(most)
        if self._sign > 0:
            return torch.clamp(given.detach(), none, most)
        return torch.clamp(given.detach(), -most, none).neg_()

    def _times(self, layer: int, right: Tensor) -> Tensor:
        """The capacities of a layer times ``[key, sink]``."""
        return torch.cat([_product(block, right[keys]) for _, keys, block in self._blocks(layer)])

    # -- bounds

    def _few_edges(self) -> bool:
        """Whether the exact solver may take most of them: about half have the sign."""
        seen = self._size**2 if self._ahead else self._size**2 // 2
        return (self._depth - 2) * seen // 2 <= STRONGEST[-1]

    def _open(self, lower: FloatArray, upper: FloatArray, share: float | None = None) -> LongArray:
        """The sinks whose bounds are too far apart."""
        finite = upper[np.isfinite(upper)]
        allowed = (self._share if share is None else share) * finite.max(initial=0.0)
        found: LongArray = np.flatnonzero(~(upper - lower <= allowed))
        return found

    def _bounds_of_tokens(self) -> tuple[FloatArray, FloatArray]:
        """Of all positions, without anything that is pulled."""
        total = (self._supply + self._others).double().sum(0)
        missing = torch.zeros_like(total)
        for rows in self._rows():
            keys = self._read_by(rows)
            need = self._supply.new_zeros(rows.stop - rows.start, keys.stop)
            for layer in range(1, self._depth):
                need += self._block(layer, rows)
                need -= self._supply[layer][rows, None]
                need.clamp_(min=0)
            need.masked_fill_(self._is_source[rows, None], 0.0)
            missing[keys] += need.sum(0)
        return (total - missing).cpu().numpy(), total.cpu().numpy()

    def _bounds_by_pulling(self, sets: Sequence[LongArray]) -> tuple[FloatArray, FloatArray]:
        """Of some sinks; what their needs lack is pulled from further up."""
        inside = self._members(sets)
        void = inside | self._is_source[:, None]
        total = self._sums(self._supply.double().sum(0), sets)
        ends = [self._at_ends(layer, sets, inside) for layer in range(1, self._depth)]
        demands = [into.masked_fill_(void, 0.0) for into, _ in ends]
        later = torch.zeros_like(inside, dtype=self._supply.dtype)  # demands of layers above
        for demand in demands:
            later += demand
        total += later.double().sum(0)
        need, beyond = torch.zeros_like(later), torch.zeros_like(later)
        waiting = self._supply[1:].sum(0)[:, None]  # at or above a node's layer
        for layer, demand in enumerate(demands, 1):
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
            limit = self._others[layer][:, None] - ends[layer][1]
            # What supply further up will meet may wait for it.
            pulled = torch.minimum((need + later - waiting).clamp_(min=0), need)
            pulled = torch.minimum(pulled, limit.clamp_(min=0))
            need -= pulled
            share = torch.where(limit > 0, pulled / limit, 0.0)
            need += self._times(layer + 1, share).masked_fill_(void, 0.0)
        beyond.masked_fill_(void, 0.0)
        lower, upper = total - need.double().sum(0), total - beyond.double().sum(0)
        return lower.clamp(min=0).cpu().numpy(), upper.cpu().numpy()

    def _sums(self, of: Tensor, sets: Sequence[LongArray]) -> Tensor:
        """``[sink]``: what all positions of each have together."""
        numbers = np.repeat(np.arange(len(sets)), [len(each) for each in sets])
        at = torch.from_numpy(np.concatenate(sets)).to(self._device)
        found = of.new_zeros(len(sets))
        return found.index_add_(0, torch.from_numpy(numbers).to(self._device), of[at])

    def _members(self, sets: Sequence[LongArray]) -> Tensor:
        """``[position, sink]``: who belongs to which."""
        inside = np.zeros((self._size, len(sets)), bool)
        for number, each in enumerate(sets):
            inside[each, number] = True
        return torch.from_numpy(inside).to(self._device)

    def _at_ends(
        self, layer: int, sets: Sequence[LongArray], inside: Tensor
    ) -> tuple[Tensor, Tensor]:
        """``[query, sink]``: what leads into each sink, and ``[key, sink]``: out of it."""
        if all(len(each) == 1 for each in sets):
            at = torch.from_numpy(np.concatenate(sets)).to(self._device)
            return self._some_keys(layer, at), self._some_rows(layer, at).T
        whole, into = inside.to(self._supply.dtype), []
        out_of = torch.zeros_like(whole)
        for rows, keys, block in self._blocks(layer):
            into.append(_product(block, whole[keys]))
            out_of[keys] += _product(block.T, whole[rows])
        return torch.cat(into), out_of

    # -- what is left, solved exactly on the strongest edges

    def _search(
        self,
        sets: Sequence[LongArray],
        lower: FloatArray,
        upper: FloatArray,
        execution: Execution,
    ) -> None:
        """Improve bounds that are too far apart.

        Where there are too many edges for all of them, the strongest are tried once: if they are
        not enough, more are no better, since capacities are much alike.
        """
        for count in STRONGEST:
            left = self._open(lower, upper)
            if not len(left):
                return
            layers, there = self._strongest(count)
            network = CpuTemporalNetwork(layers, self._depth, self._one_source(), None, 0.0)
            for some in _chunks(left, SEARCHED):
                chosen = [sets[each] for each in some]
                inside = self._members(chosen)
                void = inside | self._is_source[:, None]
                demands = np.zeros((len(some), self._depth, self._size))
                for layer in range(1, self._depth):
                    into, _ = self._at_ends(layer, chosen, inside)
                    demands[:, layer] = into.masked_fill_(void, 0.0).T.cpu()
                values, sides = network.solve_beside(chosen, demands)
                lower[some] = np.maximum(lower[some], values)
                upper[some] = np.minimum(upper[some], self._cuts(sides))
            if there <= count or there > STRONGEST[-1]:
                return

    def _one_source(self) -> LongArray:
        """Of several sources the first, which stands for all: their edges are added up."""
        found: LongArray = self._sources[:1].cpu().numpy()
        return found

    def _strongest(self, count: int) -> tuple[list[SparseLayer], int]:
        """Layers from the top down with about so many edges, and how many there are, about."""
        inner = range(2, self._depth)  # what leads to the input leads to no other edge
        # Odd, so that a sample of some layers has all of their columns.
        step = self._size**2 * len(inner) // SAMPLE | 1
        blocks = (block for layer in inner for _, block in self._inner(layer))
        sample = [block.flatten()[::step].contiguous() for block in blocks]  # without the blocks
        drawn = torch.cat(sample) if sample else self._supply.new_zeros(0)
        most, there = count // step, int((drawn > 0).sum())
        threshold = 0.0
        if most < there:
            threshold = float(drawn.topk(max(1, most)).values[-1])
        found = []
        source = int(self._sources[0])
        for layer in range(self._depth, 0, -1):
            parts = []
            for rows, block in self._inner(layer) if layer in inner else ():
                at = torch.nonzero(block > threshold)
                parts.append((at[:, 0] + rows.start, at[:, 1], block[at[:, 0], at[:, 1]]))
            found.append(self._sparse(parts, source, self._supply[layer - 1]))
        return found, there * step

    def _inner(self, layer: int) -> Iterator[tuple[slice, Tensor]]:
        """Capacities between positions that are no sources."""
        for rows, keys, block in self._blocks(layer):
            block.masked_fill_(self._is_source[rows, None], 0.0)
            block.masked_fill_(self._is_source[keys], 0.0)
            yield rows, block

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


def _product(left: Tensor, right: Tensor) -> Tensor:
    """The product of a large matrix and one of few columns, or many."""
    if right.shape[1] > FEW:
        return left @ right
    return torch.stack([left @ column for column in right.T.contiguous()], dim=1)


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
