"""Maximum flows of deep graphs by flows that are spread over all edges.

In a deep graph only the two ends are narrow: nearly always everything that the source sends
arrives, or the sink is filled. One of the two sums, V, then bounds the flow, and a flow that meets
it is proven to be the maximum. Such a flow need not be searched edge by edge. Steered by a weight
h ≥ 0 of every node, a node that holds e sends

    A[i, j] · min(1, φ · h[j])  over its edge to j,  with φ such that all of e leaves,

which keeps to the capacities A by construction, so that whatever arrives is a lower bound. Weights
that lead to the other end are those of a random walk that is told where to arrive (Doob): a node
weighs as much as those it leads to do on average. They are found in a few rounds, each a sweep of
weights from the end to the start and a sweep of flow back. After each, ends that got too much
weigh less, and so do nodes whose edges were full. All of it is matrix products that all sinks
share; no flow is kept. A pair that is still open after the last round is left to a search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from attnflow.records.types import FloatArray
from attnflow.solvers.interface import LongArray

MET = 1e-12
"""As in the searches: a flow this close to its bound is the maximum."""
TRIAL, TRIAL_ROUNDS = 48, 4  # sinks that show whether it is worth the while for the others
WORTH = 0.5  # the share of them that must be closed
MOST_FULL = 16  # nodes a sink, in one layer, whose edges are full: more are a graph that is narrow
STEPS = 50  # of Newton's method
PATIENCE = 3  # rounds in a row that close nothing
NEARLY, LESS = 0.9999, 0.8  # factors by which ends and nodes that got too much get less
PARTS, WORTH_PARTS = 4, 1 << 26  # of products with causal layers, and from how many terms on
SMALLEST = 1e-100  # of weights, beside the largest
LEAST = 1e-300  # divides instead of zero

Tensor = Any


class Effort(NamedTuple):
    """How far to go, and the memory of an array ``[layer, sink, position]``: there are a few."""

    rounds: int
    piece_bytes: int = 1 << 27


class Full(NamedTuple):
    """Nodes of one layer that lead into full edges: ``sink`` and ``node`` number them."""

    sink: Tensor
    node: Tensor
    factor: Tensor  # how much less they weigh


def spread(
    weights: Tensor,
    edges: Tensor,
    sinks: LongArray,
    *,
    causal: bool,
    effort: Effort,
    show: Callable[[int], None] = lambda done: None,
) -> tuple[FloatArray, FloatArray]:
    """Maximum flows from one source to the sinks, and their gaps: infinite where a pair is open.

    ``weights`` are a torch tensor of the layers below the source's, ``[layer, query, key]`` in
    float64, and ``edges`` the source's; both are where the work is to be done.
    """
    import torch

    wanted = np.asarray(sinks)
    values, gaps = np.zeros(len(wanted)), np.full(len(wanted), np.inf)
    order = np.argsort(wanted, kind="stable")
    trial = np.unique(np.linspace(0, len(order) - 1, TRIAL).astype(np.int64))
    rest = np.delete(order, trial)
    step = max(TRIAL, effort.piece_bytes // (8 * weights.shape[0] * weights.shape[1]))
    pieces = [order[trial], *(rest[at : at + step] for at in range(0, len(rest), step))]
    done = 0
    with torch.inference_mode():
        for number, piece in enumerate(pieces):
            rounds = effort.rounds if number else min(effort.rounds, TRIAL_ROUNDS)
            found = _spread_piece(weights, edges, wanted[piece], causal, rounds)
            values[piece], gaps[piece] = found
            if number == 0 and np.mean(gaps[piece] <= MET) < WORTH:
                break
            done += len(piece)
            show(done)
    return values, np.where(gaps <= MET, gaps, np.inf)


def _spread_piece(
    weights: Tensor, edges: Tensor, sinks: LongArray, causal: bool, rounds: int
) -> tuple[FloatArray, FloatArray]:
    """Values and gaps of some sinks."""
    import torch

    low, high = 0, len(edges)
    if causal:
        # Flow only moves to earlier positions: none passes the source's last edge.
        used = edges.nonzero()
        low, high = int(sinks.min()), int(used.max()) + 1 if len(used) else 0
    values, gaps = np.zeros(len(sinks)), np.zeros(len(sinks))
    if low >= high:
        return values, gaps
    chosen = torch.as_tensor(sinks, device=weights.device)
    inner = weights[1:, low:high, low:high].unbind()
    demand = weights[0, low:high][:, chosen].T.contiguous()
    supply = edges[low:high].expand_as(demand)
    if causal:
        supply = supply * (torch.arange(low, high, device=weights.device) >= chosen[:, None])
    # Flow is sent from the narrower end, so that the other has room to spare.
    narrow_source = supply.sum(1) <= demand.sum(1)
    for which, layers, start, end, order in (
        (narrow_source, inner[::-1], supply, demand, 1),
        (~narrow_source, [layer.T for layer in inner], demand, supply, -1),
    ):
        if which.any():
            bridge = _Bridge(layers, start[which], end[which], order if causal else 0)
            bridge.build(rounds)
            at = which.cpu().numpy()
            values[at], gaps[at] = bridge.bound.cpu().numpy(), bridge.gap.cpu().numpy()
    return values, gaps


class _Bridge:
    """Flows from ``start`` through the layers to ``end``, both ``[sink, position]``.

    ``order`` says where edges lead: 1 to positions before, −1 to positions after, 0 to any.
    """

    def __init__(self, layers: Sequence[Tensor], start: Tensor, end: Tensor, order: int) -> None:
        import torch

        self._torch, self._layers, self._order = torch, layers, order
        # Nodes from which the end can be reached, and how much each can send to such nodes.
        reaching = [(end > 0).double()]
        self._sums: list[Tensor] = []
        for layer in reversed(layers):
            self._sums.insert(0, _times(reaching[0], layer.T, -order))
            reaching.insert(0, (self._sums[0] > 0).double())
        start = start * reaching[0]
        self.bound = torch.minimum(start.sum(1), end.sum(1))
        self.gap = self.bound.clone()
        self._start = start * _ratio(self.bound, start.sum(1))[:, None]
        self._end = end
        self._pairs = torch.arange(len(end), device=end.device)  # those that are open
        self._full: list[Full | None] = [None] * len(layers)
        self._steering = reaching[1:]
        # What each node could send if everything were sent: weights times capacities, summed.
        self._products = list(self._sums)

    def build(self, rounds: int) -> None:
        """Rounds until all pairs are closed, or the rest is not worth more."""
        torch = self._torch
        last = torch.ones_like(self._end)
        fewest, since = len(self._end), 0
        for number in range(rounds):
            arrived = self._send()
            if arrived is None:
                return
            gap = self.bound[self._pairs] - torch.minimum(arrived, self._end).sum(1)
            # A flow is none if more arrives than was sent: nothing that overflowed proves anything.
            kept = arrived.sum(1) <= self._start.sum(1) + MET
            gap = torch.where(kept, gap, torch.inf)
            self.gap[self._pairs] = torch.minimum(self.gap[self._pairs], gap)
            still = self.gap[self._pairs] > MET
            count = int(still.sum())
            fewest, since = min(fewest, count), 0 if count < fewest else since + 1
            if count == 0 or since >= PATIENCE:
                return
            if 2 * count <= len(still):
                self._keep(still)
                arrived, last = arrived[still], last[still]
            # At first towards even shares of the end; later, only what got too much weighs less.
            even = self.bound[self._pairs] / self._end.sum(1)
            if number < 2:
                last = last * _ratio(even[:, None] * self._end, arrived)
            else:
                most = self._end * even.clamp(max=NEARLY).sqrt()[:, None]
                last = torch.where(arrived > most, last * _ratio(most, arrived), last)
            self._steer(last)

    def _keep(self, still: Tensor) -> None:
        """Go on with these pairs."""
        self._pairs, self._start, self._end = (
            each[still] for each in (self._pairs, self._start, self._end)
        )
        self._sums = [each[still] for each in self._sums]
        number = still.cumsum(0) - 1
        for at, full in enumerate(self._full):
            if full is not None:
                kept = still[full.sink]
                self._full[at] = Full(number[full.sink[kept]], full.node[kept], full.factor[kept])

    def _steer(self, last: Tensor) -> None:
        """Weights of all nodes, from those at the end."""
        weight = last
        for at in range(len(self._layers) - 1, -1, -1):
            # Only ratios matter. Those so small that products of them lose digits are nothing.
            weight = _ratio(weight, weight.amax(1, keepdim=True))
            weight = weight.masked_fill(weight < SMALLEST, 0.0)
            self._steering[at] = weight
            self._products[at] = _times(weight, self._layers[at].T, -self._order)
            weight = _ratio(self._products[at], self._sums[at])
            full = self._full[at]
            if full is not None:
                weight[full.sink, full.node] *= full.factor

    def _send(self) -> Tensor | None:
        """What arrives at the end; None if too many edges are full for this to be of use."""
        torch = self._torch
        held = self._start
        for at, (layer, weight) in enumerate(zip(self._layers, self._steering, strict=True)):
            # What a node gives for each unit of capacity and weight, were there no limit.
            rate = _ratio(held, self._products[at])
            sink, node = (rate * _largest(weight, self._order) > 1.0).nonzero(as_tuple=True)
            self._full[at] = None
            if len(sink) > MOST_FULL * len(held):
                return None
            if not len(sink):
                held = weight * _times(rate, layer, self._order)
                continue
            rows, towards = layer[node], weight[sink]
            amount, even = held[sink, node], rate[sink, node]
            higher = _rate_with_limits(rows, towards, amount, even)
            most = (rows * (towards > 0)).sum(1)
            short = most < amount
            self._full[at] = Full(sink, node, torch.where(short, 1.0, even / higher))
            self._sums[at][sink, node] *= torch.where(short, amount / most / LESS, 1.0)
            rate[sink, node] = 0.0
            held = weight * _times(rate, layer, self._order)
            held.index_add_(0, sink, rows * (higher[:, None] * towards).clamp(max=1.0))
        return held


def _rate_with_limits(rows: Tensor, towards: Tensor, amount: Tensor, rate: Tensor) -> Tensor:
    """The rate at which rows send their amounts if no edge takes more than its capacity."""
    import torch

    # The sum grows with the rate in pieces of lines that get flatter: from below, Newton's steps
    # never pass the rate that is wanted, and reach it in as many steps as there are pieces at most.
    for _ in range(STEPS):
        limited = rate[:, None] * towards >= 1.0
        growing = (rows * towards).masked_fill(limited, 0.0).sum(1)
        filled = (rows * limited).sum(1)
        better = torch.where(growing > 0, (amount - filled) / growing.clamp_min(LEAST), rate)
        better = torch.maximum(rate, better)
        if bool((better <= rate * (1 + 1e-15)).all()):
            break
        rate = better
    return rate


def _times(left: Tensor, layer: Tensor, order: int) -> Tensor:
    """The product ``left @ layer``, without the half of a causal layer that is zero."""
    size = layer.shape[0]
    if order == 0 or left.shape[0] * size * size < WORTH_PARTS:
        return left @ layer
    product = left.new_empty(left.shape)
    step = -(-size // PARTS)
    for start in range(0, size, step):
        keys = slice(start, start + step)
        queries = slice(start, None) if order == 1 else slice(0, start + step)
        product[:, keys] = left[:, queries] @ layer[queries, keys]
    return product


def _largest(weight: Tensor, order: int) -> Tensor:
    """The largest weight that a node of each position may lead to."""
    if order == 1:
        return weight.cummax(1).values
    if order == -1:
        return weight.flip(1).cummax(1).values.flip(1)
    return weight.amax(1, keepdim=True)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """Above / below, and 0 where below is 0."""
    return (above / below.clamp_min(LEAST)).masked_fill(below <= 0, 0.0)
