"""Maximum flows of deep graphs by flows that are spread over all edges.

In a deep graph only the two ends are narrow: nearly always everything that the source sends
arrives, or the sink is filled. One of the two sums, V, then bounds the flow, and a flow that meets
it is proven to be the maximum. Such a flow need not be searched edge by edge. Steered by a weight
h ≥ 0 of every node, a node that holds e sends

    A[i, j] · min(1, φ · h[j])  over its edge to j,  with φ such that all of e leaves,

which keeps to the capacities A by construction, so that whatever arrives is a lower bound. Weights
that lead to the sink are those of a random walk that is told where to arrive (Doob): a node weighs
as much as those it leads to do on average. They are found in a few rounds, each a sweep of weights
from the sink's layer to the source's and a sweep of flow back. After each, nodes at the end that
got too much weigh less, those that got too little more, and nodes whose edges were full weigh less.
All of it is matrix products that all sinks share; no flow is kept. A pair that is still open after
the last round is left to a search.

Arrays are ``[sink, position]``, of the nodes of one layer; those of `Nodes` are also kept for all
layers, ``[layer, sink, position]``. `Steps` is what a device does between two products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from attnflow.records.types import FloatArray
from attnflow.solvers.interface import MET, LongArray, check_gaps

MOST_FULL = 256  # nodes a sink, in one layer, whose edges are full: others send nothing
STEPS = 50  # of Newton's method
LESS = 0.8  # factor by which nodes weigh less that got more than they can pass on
PARTS = 4  # of products with causal layers
WORTH_PARTS = {"cpu": 1 << 26}  # terms from which on a product is made in parts
WORTH_PARTS_ELSEWHERE = 1 << 31  # starting them takes longer than what they save
ROWS = 1 << 22  # entries of rows whose limits are found at a time
SMALLEST = 1e-100  # of weights, beside the largest
LEAST = 1e-300  # divides instead of zero

Tensor = Any


class Nodes(NamedTuple):
    """What is known of the nodes that send, and the weights of those that they lead to."""

    weights: Tensor
    products: Tensor  # weights times capacities, summed
    sums: Tensor  # capacities that lead anywhere, summed
    factors: Tensor  # how much less nodes weigh whose edges were full in rounds before


class Sweep(NamedTuple):
    """How flow is sent down."""

    causal: bool  # no edge leads to a later position
    forget: float  # of `Nodes.factors`, the share that this sweep replaces


class Steps(Protocol):
    """What a device does between two products."""

    def limit(
        self, layer: Tensor, held: Tensor, nodes: Nodes, sweep: Sweep
    ) -> tuple[Tensor, Tensor]:
        """The rate at which nodes send what they hold, and what arrives from those without one.

        These have full edges: their rate is 0, and they weigh less from now on. A rate is what a
        node gives for each unit of capacity and weight. Both may be overwritten by the next call.
        """

    def weigh(self, nodes: Nodes, into: Tensor) -> None:
        """The weights of nodes by what they lead to, `scaled`."""


class InTorch:
    """The steps by torch, on whatever device the tensors are."""

    def limit(
        self, layer: Tensor, held: Tensor, nodes: Nodes, sweep: Sweep
    ) -> tuple[Tensor, Tensor]:
        """See `Steps`."""
        import torch

        rate, extra = ratio(held, nodes.products), torch.zeros_like(held)
        nodes.factors.pow_(1 - sweep.forget)
        sink, node = (rate * _largest(nodes.weights, sweep.causal) > 1.0).nonzero(as_tuple=True)
        amount, even = held[sink, node], rate[sink, node]
        rate[sink, node] = 0.0
        count = sink.bincount(minlength=len(held))
        number = torch.arange(len(sink), device=sink.device) - (count.cumsum(0) - count)[sink]
        for part in (number < MOST_FULL).nonzero().flatten().split(max(1, ROWS // layer.shape[0])):
            at = (sink[part], node[part])
            rows, towards = layer[at[1]], nodes.weights[at[0]]
            higher = _rate_with_limits(rows, towards, amount[part], even[part])
            extra.index_add_(0, at[0], rows * (higher[:, None] * towards).clamp(max=1.0))
            most = (rows * (towards > 0)).sum(1)
            short = most < amount[part]
            nodes.factors[at] *= torch.where(short, 1.0, even[part] / higher) ** sweep.forget
            nodes.sums[at] *= torch.where(short, amount[part] / most / LESS, 1.0)
        return rate, extra

    def weigh(self, nodes: Nodes, into: Tensor) -> None:
        """See `Steps`."""
        into.copy_(scaled(ratio(nodes.products, nodes.sums) * nodes.factors))


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


def times(left: Tensor, layer: Tensor, order: int, into: Tensor = None) -> Tensor:
    """The product ``left @ layer``, without the half of a causal layer that is zero.

    ``order`` says where edges lead: 1 to positions before, −1 to positions after, 0 to any.
    """
    import torch

    size = layer.shape[0]
    product = torch.empty_like(left) if into is None else into
    worth = WORTH_PARTS.get(left.device.type, WORTH_PARTS_ELSEWHERE)
    if order == 0 or left.shape[0] * size * size < worth:
        return torch.mm(left, layer, out=product)
    step = -(-size // PARTS)
    for start in range(0, size, step):
        keys = slice(start, start + step)
        queries = slice(start, None) if order == 1 else slice(0, start + step)
        torch.mm(left[:, queries], layer[queries, keys], out=product[:, keys])
    return product


def scaled(weight: Tensor) -> Tensor:
    """Weights beside the largest of each sink, of which only ratios matter.

    Those so small that products of them lose digits are nothing.
    """
    weight = ratio(weight, weight.amax(1, keepdim=True))
    return weight.masked_fill(weight < SMALLEST, 0.0)


def ratio(above: Tensor, below: Tensor) -> Tensor:
    """Above / below, and 0 where below is 0."""
    return (above / below.clamp_min(LEAST)).masked_fill(below <= 0, 0.0)


def _largest(weight: Tensor, causal: bool) -> Tensor:
    """The largest weight that a node of each position may lead to."""
    return weight.cummax(1).values if causal else weight.amax(1, keepdim=True)


# Rounds. Positions are those of a piece of the text, the same in all layers.

FORGET, LEAST_FORGET = 0.5, 0.08  # what is full changes less and less from round to round
EVENLY = 3  # every so many rounds the end is aimed at evenly, in the others only where it is needed
TIGHTEN = 3  # the round after which bounds are computed that take time
ENTRIES = 1 << 25  # of arrays [sink, query, key] in those bounds


class Span(NamedTuple):
    """What flows pass: layers from the source's to the sinks', of positions from ``low`` on."""

    layers: Sequence[Tensor]
    causal: bool  # no edge leads to a later position
    low: int = 0


class Pairs(NamedTuple):
    """Pairs that are open, by number, and what was found out about each."""

    numbers: Tensor
    start: Tensor  # what the source sends
    end: Tensor  # what there is room for
    last: Tensor  # weights at the end
    bound: Tensor
    gap: Tensor  # between the bound and the best flow so far
    nodes: Nodes

    def chosen(self, which: Tensor) -> Pairs:
        """Some of them."""
        at = which.nonzero().flatten()
        nodes = Nodes(*(each.index_select(1, at) for each in self.nodes))
        return Pairs._make((*(each[at] for each in self[:-1]), nodes))

    def shifted(self, by: int) -> Pairs:
        """The same in a text with more positions before."""
        from torch.nn.functional import pad

        start, end, last = (pad(each, (by, 0)) for each in (self.start, self.end, self.last))
        nodes = Nodes(*(pad(each, (by, 0)) for each in self.nodes))
        return self._replace(start=start, end=end, last=last, nodes=nodes)


def new_pairs(numbers: Tensor, start: Tensor, end: Tensor, span: Span) -> Pairs:
    """Pairs of which nothing is known yet: all nodes weigh the same that may lead to the end."""
    import torch

    end = end.contiguous()  # and so is all that is made like it: kernels read rows
    inside = torch.ones_like(end)
    sums = end.new_empty((len(span.layers), *end.shape))
    if span.causal:
        first = (end > 0).int().argmax(1)
        inside = (torch.arange(end.shape[1], device=end.device) >= first[:, None]).double()
        latest = int(first.max())
        for layer, into in zip(span.layers, sums, strict=True):
            # What rows send to positions from the first on: it is summed from the last.
            head = layer[:, :latest].flip(1).cumsum(1)
            head = torch.nn.functional.pad(head, (1, 0))[:, latest - first]
            into[:] = (layer[:, latest:].sum(1, keepdim=True) + head).T
    else:
        sums[:] = torch.stack([layer.sum(1) for layer in span.layers])[:, None]
    weights = torch.empty_like(sums).copy_(inside)
    nodes = Nodes(weights, sums.clone(), sums, torch.ones_like(sums))
    start = (start * inside).contiguous()
    bound = torch.minimum(start.sum(1), end.sum(1))
    return Pairs(numbers, start, end, torch.ones_like(end), bound, bound.clone(), nodes)


class Bridge:
    """Flows of some pairs. Those that are closed leave."""

    def __init__(self, span: Span, pairs: Pairs, steps: Steps) -> None:
        import torch

        self._torch, self.span, self._steps = torch, span, steps
        self.closed: list[tuple[Tensor, Tensor, Tensor]] = []  # numbers, bounds, gaps
        self._set(pairs)

    def _set(self, pairs: Pairs) -> None:
        self.pairs = pairs
        # Views of each layer, made once: a sweep on a GPU is over before many could be made.
        self._by_layer = [Nodes(*each) for each in zip(*pairs.nodes, strict=True)]

    def build(self, rounds: range, patience: int) -> None:
        """Rounds until all pairs are closed, or the rest is not worth more."""
        torch = self._torch
        fewest, since = len(self.pairs.gap), 0
        for number in rounds:
            arrived = self._send(max(LEAST_FORGET, FORGET / (1 + number / 4)))
            if number == TIGHTEN:
                self._tighten(arrived)
            pairs = self.pairs
            gap = pairs.bound - torch.minimum(arrived, pairs.end).sum(1)
            # If more arrives than was sent, it is not a flow: what overflowed proves nothing.
            gap = torch.where(arrived.sum(1) <= pairs.start.sum(1) + MET, gap, torch.inf)
            pairs.gap.copy_(torch.minimum(pairs.gap, gap))
            count = int((pairs.gap > MET).sum())  # the host waits for the device here, once a round
            fewest, since = min(fewest, count), 0 if count < fewest else since + 1
            if count == 0 or since >= patience:
                break
            pairs.last.copy_(self._aimed(arrived, evenly=number < 2 or number % EVENLY == 2))
            if 2 * count <= len(gap):
                self._leave()
            self._steer()
        self._leave()

    def _aimed(self, arrived: Tensor, *, evenly: bool) -> Tensor:
        """Weights at the end that make more of what is sent fit, or fill more of the room."""
        torch = self._torch
        start, end, last = self.pairs[1:4]
        even = ratio(start.sum(1), end.sum(1))[:, None]
        if evenly:
            return last * ratio(even * end, arrived)
        # Between what is even and what is needed: no more than there is room for if less is sent
        # than there is room, and no less otherwise.
        aim = end * even.sqrt()
        off = torch.where(even < 1, arrived > aim, arrived < aim)
        return torch.where(off, last * ratio(aim, arrived), last)

    def _send(self, forget: float) -> Tensor:
        """What arrives at the end."""
        held, sweep = self.pairs.start, Sweep(self.span.causal, forget)
        for layer, nodes in zip(self.span.layers, self._by_layer, strict=True):
            rate, extra = self._steps.limit(layer, held, nodes, sweep)
            moved = times(rate, layer, self.span.causal)
            held = self._torch.addcmul(extra, nodes.weights, moved)
        return held

    def _steer(self) -> None:
        """Weights of all nodes, from those at the end."""
        self._by_layer[-1].weights.copy_(scaled(self.pairs.last))
        for at in range(len(self._by_layer) - 1, -1, -1):
            nodes, layer = self._by_layer[at], self.span.layers[at]
            times(nodes.weights, layer.T, -self.span.causal, into=nodes.products)
            if at:
                self._steps.weigh(nodes, into=self._by_layer[at - 1].weights)

    def _leave(self) -> None:
        """Go on with the pairs that are open."""
        closed = self.pairs.gap <= MET
        self.closed.append(tuple(each[closed] for each in (self.pairs[0], *self.pairs[4:6])))
        self._set(self.pairs.chosen(~closed))

    def _tighten(self, arrived: Tensor) -> None:
        """Bounds by what each node can pass on, for pairs of which something was lost on the way.

        A start that can't pass on what it holds, or anything, sends less: that is the bound then.
        """
        torch = self._torch
        _, start, end, _, bound, gap, _ = self.pairs
        lossy = (arrived.sum(1) < start.sum(1) - MET) & (gap > MET)
        chosen = lossy.nonzero().flatten()
        while len(chosen):
            # Where the first of all of them begins: a pair of an earlier sink may begin later.
            low = int((end[chosen] > 0).any(0).int().argmax()) if self.span.causal else 0
            step = max(1, ENTRIES // (end.shape[1] - low) ** 2)
            part, chosen = chosen[:step], chosen[step:]
            reach = end[part, low:]
            whole = reach.sum(1, keepdim=True)
            for layer in reversed(self.span.layers):
                each = torch.minimum(layer[low:, low:], reach[:, None])
                reach = torch.minimum(each.sum(2), whole)
            start[part, low:] = torch.minimum(start[part, low:], reach)
            bound[part] = torch.minimum(bound[part], start[part].sum(1))


def joined(bridges: Sequence[Bridge], steps: Steps) -> Bridge:
    """The open pairs of bridges between the same layers, as one."""
    import torch

    span = min((bridge.span for bridge in bridges), key=lambda span: span.low)
    parts = [bridge.pairs.shifted(bridge.span.low - span.low) for bridge in bridges]
    nodes = Nodes(*(torch.cat(each, 1) for each in zip(*(p.nodes for p in parts), strict=True)))
    alike = (torch.cat(each) for each in zip(*(part[:-1] for part in parts), strict=True))
    return Bridge(span, Pairs._make((*alike, nodes)), steps)


TRIAL, TRIAL_ROUNDS = 48, 4  # sinks that show whether spreading pays off for the others
WORTH = 0.5  # the share of them that must be closed
TOGETHER = 6  # rounds after which what is left of all pieces goes on as one


class Effort(NamedTuple):
    """How far to go, how much at a time, and by which steps."""

    rounds: int
    patience: int = 6  # rounds in a row that close nothing
    piece_bytes: int = 1 << 27  # of an array [layer, sink, position]: there are a few
    most_sinks: int = 1 << 20  # in a piece
    steps: Steps = InTorch()


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

    Raises:
        CertificateError: A flow and its bound differ by more than rounding explains.
    """
    import torch

    wanted = np.asarray(sinks)
    with torch.inference_mode():
        source = _Source(weights, edges, wanted, causal, effort)
        order = np.argsort(wanted, kind="stable")
        order = order[~np.isfinite(source.gaps[order])]
        if not len(order):
            return source.values, source.gaps
        trial = np.unique(np.linspace(0, len(order) - 1, TRIAL).astype(np.int64))
        begun = [source.begin(order[trial], TRIAL_ROUNDS)]
        if np.isfinite(source.gaps[order[trial]]).mean() >= WORTH:
            rest = np.delete(order, trial)
            step = effort.piece_bytes // (8 * weights.shape[0] * weights.shape[1])
            step = max(TRIAL, min(effort.most_sinks, step))
            for at in range(0, len(rest), step):
                begun.append(source.begin(rest[at : at + step], TOGETHER))
                show(int(np.isfinite(source.gaps).sum()))
            source.go_on(begun)
    # A flow that is larger than its bound proves nothing, either.
    check_gaps(source.gaps[~np.isposinf(source.gaps)], float(edges.sum()))
    return source.values, source.gaps


class _Source:
    """One source: what is known of its flows, and the way of some sinks at a time to more."""

    def __init__(
        self, weights: Tensor, edges: Tensor, sinks: LongArray, causal: bool, effort: Effort
    ) -> None:
        self._weights, self._edges, self._sinks = weights, edges, sinks
        self._causal, self._effort = causal, effort
        self.values, self.gaps = np.zeros(len(sinks)), np.full(len(sinks), np.inf)
        self._high = len(edges)
        if causal:
            # Flow only moves to earlier positions: none passes the source's last edge.
            used = edges.nonzero()
            self._high = int(used.max()) + 1 if len(used) else 0
            self.gaps[sinks >= self._high] = 0.0
        self._receivable = receivable(weights, edges)

    def begin(self, piece: LongArray, rounds: int) -> Bridge:
        """The first rounds of the pairs with these numbers."""
        import torch

        device, sinks = self._weights.device, self._sinks[piece]
        low, high = int(sinks.min()) if self._causal else 0, self._high
        span = Span(self._weights[1:, low:high, low:high].unbind()[::-1], self._causal, low)
        chosen = torch.as_tensor(sinks, device=device)
        end = self._weights[0, low:high][:, chosen].T
        end = torch.minimum(end, self._receivable[low:high])
        start = self._edges[low:high].expand_as(end)
        if self._causal:
            start = start * (torch.arange(low, high, device=device) >= chosen[:, None])
        pairs = new_pairs(torch.as_tensor(piece, device=device), start, end, span)
        bridge = Bridge(span, pairs, self._effort.steps)
        return self._build(bridge, range(min(rounds, self._effort.rounds)))

    def go_on(self, begun: Sequence[Bridge]) -> None:
        """The other rounds of all pairs that are open, together."""
        begun = [bridge for bridge in begun if len(bridge.pairs.gap)]
        if begun:
            together = joined(begun, self._effort.steps)
            self._build(together, range(TOGETHER, self._effort.rounds))

    def _build(self, bridge: Bridge, rounds: range) -> Bridge:
        bridge.build(rounds, self._effort.patience)
        for numbers, bound, gap in bridge.closed:
            at = numbers.cpu().numpy()
            self.values[at], self.gaps[at] = bound.cpu().numpy(), gap.cpu().numpy()
        return bridge


def receivable(weights: Tensor, edges: Tensor) -> Tensor:
    """What each position of the layer above the sinks' can get from the source at most."""
    import torch

    most = edges
    for layer in reversed(weights[1:].unbind()):
        most = torch.minimum(torch.minimum(layer, most[:, None]).sum(0), edges.sum())
    return most
