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
the last round is left to a search. `bridge.py` has the rounds, `steps.py` what is between products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from attnflow.records.types import FloatArray
from attnflow.solvers.bridge import Bridge, Span, joined, new_pairs
from attnflow.solvers.certificate import check_gaps
from attnflow.solvers.interface import LongArray
from attnflow.solvers.steps import InTorch, Steps

TRIAL, TRIAL_ROUNDS = 48, 4  # sinks that show whether it is worth the while for the others
WORTH = 0.5  # the share of them that must be closed
TOGETHER = 6  # rounds after which what is left of all pieces goes on as one

Tensor = Any


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
