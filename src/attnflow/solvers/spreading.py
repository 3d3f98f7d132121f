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
All of it is matrix products that all sinks share (`steps.py` has the rest); no flow is kept. A pair
that is still open after the last round is left to a search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from attnflow.records.types import FloatArray
from attnflow.solvers.interface import LongArray
from attnflow.solvers.steps import InTorch, Nodes, Steps, Sweep, ratio, scaled, times

MET = 1e-12
"""As in the searches: a flow this close to its bound is the maximum."""
TRIAL, TRIAL_ROUNDS = 48, 4  # sinks that show whether it is worth the while for the others
WORTH = 0.5  # the share of them that must be closed
FORGET, LEAST_FORGET = 0.5, 0.08  # what is full changes less and less from round to round
EVENLY = 3  # every so many rounds the end is aimed at evenly, in the others only where it is needed
TIGHTEN = 3  # the round after which bounds are computed that take time
ENTRIES = 1 << 25  # of arrays [sink, query, key] in those bounds

Tensor = Any


class Effort(NamedTuple):
    """How far to go, how much at a time, and by which steps."""

    rounds: int
    patience: int = 3  # rounds in a row that close nothing
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
    """
    import torch

    wanted = np.asarray(sinks)
    values, gaps = np.zeros(len(wanted)), np.full(len(wanted), np.inf)
    order = np.argsort(wanted, kind="stable")
    trial = np.unique(np.linspace(0, len(order) - 1, TRIAL).astype(np.int64))
    with torch.inference_mode():
        work = _Work(weights, edges, receivable(weights, edges), causal)
        first = effort._replace(rounds=min(effort.rounds, TRIAL_ROUNDS))
        chosen = order[trial]
        values[chosen], gaps[chosen] = _spread_piece(work, wanted[chosen], first)
        if np.mean(gaps[chosen] <= MET) >= WORTH:
            # Those of the trial that are open get as many rounds as the others.
            rest = order[gaps[order] > MET]
            step = effort.piece_bytes // (8 * weights.shape[0] * weights.shape[1])
            step = max(TRIAL, min(effort.most_sinks, step))
            done = len(order) - len(rest)
            for at in range(0, len(rest), step):
                piece = rest[at : at + step]
                values[piece], gaps[piece] = _spread_piece(work, wanted[piece], effort)
                show(done + at + len(piece))
    return values, np.where(gaps <= MET, gaps, np.inf)


def receivable(weights: Tensor, edges: Tensor) -> Tensor:
    """What each position of the layer above the sinks' can get from the source at most."""
    import torch

    most = edges
    for layer in reversed(weights[1:].unbind()):
        most = torch.minimum(torch.minimum(layer, most[:, None]).sum(0), edges.sum())
    return most


class _Work(NamedTuple):
    """One source's work, of which pieces are some sinks."""

    weights: Tensor
    edges: Tensor
    receivable: Tensor
    causal: bool


def _spread_piece(work: _Work, sinks: LongArray, effort: Effort) -> tuple[FloatArray, FloatArray]:
    """Values and gaps of some sinks."""
    import torch

    low, high = 0, len(work.edges)
    if work.causal:
        # Flow only moves to earlier positions: none passes the source's last edge.
        used = work.edges.nonzero()
        low, high = int(sinks.min()), int(used.max()) + 1 if len(used) else 0
    if low >= high:
        return np.zeros(len(sinks)), np.zeros(len(sinks))
    chosen = torch.as_tensor(sinks, device=work.weights.device)
    layers = work.weights[1:, low:high, low:high].unbind()[::-1]
    demand = work.weights[0, low:high][:, chosen].T
    end = torch.minimum(demand, work.receivable[low:high])
    start = work.edges[low:high].expand_as(end)
    if work.causal:
        start = start * (torch.arange(low, high, device=end.device) >= chosen[:, None])
    bridge = Bridge(layers, start, end, work.causal, effort.steps)
    bridge.build(effort)
    return bridge.bound.cpu().numpy(), bridge.gap.cpu().numpy()


class Bridge:
    """Flows from ``start`` through the layers to ``end``, both ``[sink, position]``.

    Of causal layers no edge leads to a later position.
    """

    def __init__(
        self, layers: Sequence[Tensor], start: Tensor, end: Tensor, causal: bool, steps: Steps
    ) -> None:
        import torch

        self._torch, self._layers, self._causal, self._steps = torch, layers, causal, steps
        # At first all nodes weigh the same that may lead to the end.
        inside = torch.ones_like(end, dtype=torch.bool)
        if causal:
            first = (end > 0).int().argmax(1)
            inside = torch.arange(end.shape[1], device=end.device) >= first[:, None]
        sums = end.new_empty((len(layers), *end.shape))
        for layer, into in zip(layers, sums, strict=True):
            into[:] = layer.flip(1).cumsum(1)[:, -1 - first].T if causal else layer.sum(1)
        weights = inside.double().expand_as(sums).clone()
        self._set_nodes(Nodes(weights, sums.clone(), sums, torch.ones_like(sums)))
        self._start, self._end = start * inside, end.contiguous()
        self.bound = torch.minimum(self._start.sum(1), self._end.sum(1))
        self.gap = self.bound.clone()
        self._pairs = torch.arange(len(end), device=end.device)  # those that are open

    def _set_nodes(self, nodes: Nodes) -> None:
        self._nodes = nodes
        # Views of each layer, made once: a sweep on a GPU is over before many could be made.
        self._by_layer = [Nodes(*each) for each in zip(*nodes, strict=True)]

    def build(self, effort: Effort) -> None:
        """Rounds until all pairs are closed, or the rest is not worth more."""
        torch = self._torch
        last = torch.ones_like(self._end)
        fewest, since = len(self._end), 0
        for number in range(effort.rounds):
            arrived = self._send(max(LEAST_FORGET, FORGET / (1 + number / 4)))
            if number == TIGHTEN:
                self._tighten(arrived)
            gap = self.bound[self._pairs] - torch.minimum(arrived, self._end).sum(1)
            # A flow is none if more arrives than was sent: nothing that overflowed proves anything.
            sent = self._start.sum(1)
            gap = torch.where(arrived.sum(1) <= sent + MET, gap, torch.inf)
            self.gap[self._pairs] = torch.minimum(self.gap[self._pairs], gap)
            still = self.gap[self._pairs] > MET
            count = int(still.sum())  # the host waits for the device here, once a round
            fewest, since = min(fewest, count), 0 if count < fewest else since + 1
            if count == 0 or since >= effort.patience:
                return
            if 2 * count <= len(still):
                self._keep(still)
                arrived, last, sent = arrived[still], last[still], sent[still]
            even = ratio(sent, self._end.sum(1))[:, None]
            if number < 2 or number % EVENLY == 2:
                last = last * ratio(even * self._end, arrived)
            else:
                # Between what is even and what is needed: no more than there is room for if less
                # is sent than there is room, and no less otherwise.
                aim = self._end * even.sqrt()
                off = torch.where(even < 1, arrived > aim, arrived < aim)
                last = torch.where(off, last * ratio(aim, arrived), last)
            self._steer(last)

    def _send(self, forget: float) -> Tensor:
        """What arrives at the end."""
        held, sweep = self._start, Sweep(self._causal, forget)
        for layer, nodes in zip(self._layers, self._by_layer, strict=True):
            rate, extra = self._steps.limit(layer, held, nodes, sweep)
            held = self._torch.addcmul(extra, nodes.weights, times(rate, layer, self._causal))
        return held

    def _steer(self, last: Tensor) -> None:
        """Weights of all nodes, from those at the end."""
        self._nodes.weights[-1] = scaled(last)
        for at in range(len(self._layers) - 1, -1, -1):
            nodes = self._by_layer[at]
            times(nodes.weights, self._layers[at].T, -self._causal, into=nodes.products)
            if at:
                self._steps.weigh(nodes, into=self._by_layer[at - 1].weights)

    def _keep(self, still: Tensor) -> None:
        """Go on with these pairs."""
        self._pairs, self._start, self._end = (
            each[still] for each in (self._pairs, self._start, self._end)
        )
        self._set_nodes(Nodes(*(each[:, still] for each in self._nodes)))

    def _tighten(self, arrived: Tensor) -> None:
        """Bounds by what each node can pass on, for pairs of which something was lost on the way.

        A start that can't pass on what it holds, or anything, sends less: that is the bound then.
        """
        torch = self._torch
        lossy = arrived.sum(1) < self._start.sum(1) - MET
        lossy &= self.gap[self._pairs] > MET
        chosen = lossy.nonzero().flatten()
        while len(chosen):
            low = int((self._end[chosen[0]] > 0).int().argmax()) if self._causal else 0
            step = max(1, ENTRIES // (self._end.shape[1] - low) ** 2)
            part, chosen = chosen[:step], chosen[step:]
            reach = self._end[part, low:]
            whole = reach.sum(1, keepdim=True)
            for layer in reversed(self._layers):
                each = torch.minimum(layer[low:, low:], reach[:, None])
                reach = torch.minimum(each.sum(2), whole)
            self._start[part, low:] = torch.minimum(self._start[part, low:], reach)
            pairs, sent = self._pairs[part], self._start[part].sum(1)
            self.bound[pairs] = torch.minimum(self.bound[pairs], sent)
