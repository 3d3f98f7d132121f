"""Flows from a source to many sinks at once, spread over all edges round by round: see `spreading`.

A round is a sweep of flow down the layers and a sweep of weights back up. Arrays are ``[sink,
position]``, and positions those of a piece of the text, the same in all layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from attnflow.solvers.certificate import MET
from attnflow.solvers.steps import Nodes, Steps, Sweep, ratio, scaled, times

FORGET, LEAST_FORGET = 0.5, 0.08  # what is full changes less and less from round to round
EVENLY = 3  # every so many rounds the end is aimed at evenly, in the others only where it is needed
TIGHTEN = 3  # the round after which bounds are computed that take time
ENTRIES = 1 << 25  # of arrays [sink, query, key] in those bounds

Tensor = Any


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
            # A flow is none if more arrives than was sent: nothing that overflowed proves anything.
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
