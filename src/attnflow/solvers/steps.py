"""What happens between the matrix products of spread flows (`spreading.py`), on any device.

Arrays are ``[sink, position]``, of the nodes of one layer; those of `Nodes` are also kept for all
layers, ``[layer, sink, position]``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

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
