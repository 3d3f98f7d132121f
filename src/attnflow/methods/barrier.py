"""Barrier flow: one flow from a position to all tokens at once, far from every limit.

A maximum flow goes to one token; flows to all tokens at once share the network, and there are many.
The barrier flow is the unique one that maximises Σ over edges of log f + log (c − f), the choice of
Generalized Attention Flow (Azarkhalili & Libbrecht 2025): it sums to 1 and has no ties. It is the
analytic centre of all flows, which Newton's method finds, starting from a flow strictly inside all
limits (`inside_limits`). Each step is a block-tridiagonal system for the potentials of nodes, one
block per layer.

Where capacities differ by many orders of magnitude, potentials are huge compared to their
differences. They are kept from step to step, as sums of two numbers, and only the change is solved
for: so rounding errors shrink with the steps themselves. Where that is not enough, blocks are
solved without any subtraction (`attnflow.solvers.cpu.elimination`), which takes longer.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np

from attnflow.errors import CertificateError
from attnflow.methods.method import Method, Scores
from attnflow.methods.rollout import carried
from attnflow.records import FloatArray, FlowTrace, LayeredGraph, Pair, Selection
from attnflow.records.arrays import to_numpy
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import BoolArray

FILL_STEPS = 100
ACCURATE = 4e-16


def inside_limits(capacity: FloatArray, supply: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A flow ``[layer, query, key]`` strictly inside all limits, and what it leaves of capacities.

    The rollout flow is one, too, but may be next to 0 where the centre is not: where a node keeps a
    share of 0.002 layer after layer, rollout leaves it 1e-27 after ten, although every edge on the
    way would carry 0.002. In another flow a node divides what arrives by what is needed below each
    of its edges, as far as their capacities allow. The mean of both is near no limit that either is
    far from.

    What is left is not computed as a difference: where nearly all passes one node, that would be
    noise.
    """
    flow, left = np.zeros_like(capacity), np.zeros_like(capacity)
    needs = _needs(capacity, supply)
    for divide in (_by_weight, _by_need):
        arrived, ended = supply, 0.0
        for layer in reversed(range(len(capacity))):
            elsewhere = _elsewhere(arrived) + ended
            sent, kept = divide(capacity[layer], needs[layer], arrived, elsewhere)
            flow[layer] += sent / 2
            left[layer] += kept / 2
            ended += float(arrived[~capacity[layer].any(1)].sum())  # at nodes that read nothing
            arrived = sent.sum(0)
    return flow, left


def _needs(capacity: FloatArray, supply: FloatArray) -> FloatArray:
    """How many edges need what passes each edge: itself, and its part of those below its node."""
    reached = np.zeros((len(capacity), len(supply)), dtype=bool)
    above = supply > 0
    for layer in reversed(range(len(capacity))):
        reached[layer] = above
        above = (capacity[layer][above] > 0).any(0)
    needs = np.ones_like(capacity)
    below = np.zeros(len(supply))
    for layer, edges in enumerate(capacity):
        used = (edges > 0) & reached[layer][:, None]
        needs[layer] += below / np.maximum(used.sum(0), 1)
        below = np.where(used, needs[layer], 0.0).sum(1)
    return needs


def _by_weight(
    capacity: FloatArray, _: FloatArray, arrived: FloatArray, elsewhere: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What each node sends along its edges and what that leaves of them, as in rollout."""
    return arrived[:, None] * capacity, elsewhere[:, None] * capacity


def _by_need(
    capacity: FloatArray, need: FloatArray, arrived: FloatArray, elsewhere: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The same, where an edge has c·t·n / (c + t·n) of its capacity c and need n.

    The t of a node is that at which all is sent that arrived; where this is more than half of what
    its edges carry, what is left of them is divided so instead.
    """
    little = arrived <= elsewhere
    share = need * _fill(capacity, need, np.where(little, arrived, elsewhere))[:, None]
    total = np.where(capacity > 0, capacity + share, 1.0)
    less, more = capacity * share / total, capacity * capacity / total
    swap = ~little[:, None]
    return np.where(swap, more, less), np.where(swap, less, more)


def _fill(capacity: FloatArray, need: FloatArray, total: FloatArray) -> FloatArray:
    """The t of every row at which Σ c·t·n / (c + t·n) is its total, at most half of Σ c.

    The sum is concave in t, so that Newton's steps come from below and never pass it.
    """
    some = capacity > 0
    need, safe = np.where(some, need, 0.0), np.where(some, capacity, 1.0)
    slope = need.sum(1)
    found: FloatArray = np.divide(total, slope, out=np.zeros_like(total), where=slope > 0)
    for _ in range(FILL_STEPS):
        part = safe / (safe + need * found[:, None])
        missing = total - (need * part).sum(1) * found
        slope = (need * part**2).sum(1)
        change = np.divide(missing, slope, out=np.zeros_like(total), where=slope > 0)
        found += change
        if (np.abs(change) <= ACCURATE * found).all():
            break
    return found


def _elsewhere(arrived: FloatArray) -> FloatArray:
    """What arrived at all other nodes, for each."""
    before = np.concatenate([[0.0], np.cumsum(arrived[:-1])])
    after = np.concatenate([np.cumsum(arrived[:0:-1])[::-1], [0.0]])
    elsewhere: FloatArray = before + after
    return elsewhere


MOST_STEPS = 400
DECREMENT = 1e-10  # Newton's decrement at which a flow is taken for the optimum
WORST = 1e-9  # what it may be where rounding allows no more
FAST_STEPS = 80  # after which blocks are solved with care
LEAST_FLOWS = (1e-20, 1e-16, 1e-15)
"""Of all that flows, 1; less is left as it starts. Where edges are so far apart that the first
fails, the others leave out what rounding takes from a score of 1 anyway."""
EPSILON = float(np.finfo(np.float64).eps)
NOISE = 1e-6  # a decrement below this that does not halve any more is rounding
SAME = 1e-7  # of what a step changes at a node, which may be out of balance
CORRECTIONS = 6
FEASIBLE = 1e-10
NEARLY = 0.1
INSIDE = 0.99  # of the way to the nearest limit


class AnalyticCentre(NamedTuple):
    """The flow on every edge, ``[layer, query, key]``, and Newton's last decrement."""

    flow: FloatArray
    decrement: float


def find_analytic_centre(capacity: FloatArray, supply: FloatArray) -> AnalyticCentre:
    """The flow of which ``supply`` is what the source sends to each position above.

    Raises:
        CertificateError: Rounding leaves it farther from the optimum than `WORST`.
    """
    flow, left = inside_limits(capacity, supply)
    for least in LEAST_FLOWS:
        found = _climb(flow, left, _free_edges(capacity, flow, left, least))
        centre = AnalyticCentre(_balanced(found.flow, supply), found.decrement)
        over = max(0.0, float((centre.flow - capacity).max(initial=0.0)))
        if centre.decrement <= WORST and over <= FEASIBLE:
            return centre
    msg = (
        f"method='barrier' came no nearer to its optimum than a decrement of "
        f"{centre.decrement:.1e} with edges overfull by {over:.1e} (allowed: {WORST:.0e} and "
        f"{FEASIBLE:.0e}): their weights, from {capacity[capacity > 0].min():.1e} to "
        f"{capacity.max():.1e}, are too far apart. Use method='flow', or leave the smallest out "
        "with discard="
    )
    raise CertificateError(msg)


def _climb(flow: FloatArray, left: FloatArray, free: BoolArray) -> AnalyticCentre:
    """Newton's method from a flow and what it leaves of capacities; free edges change."""
    potential = _Sum(*np.zeros((2, len(flow) + 1, flow.shape[1])))
    decrement, careful = 0.0, False
    for number in range(MOST_STEPS):
        if not free.any():
            break
        before = decrement
        step = _newton_step(flow, left, free, potential, careful=careful)
        stuck = NOISE > step.decrement > before / 2 > 0 or number == FAST_STEPS
        if not careful and (stuck or not step.balance <= SAME):  # or NaN
            careful = True
            step = _newton_step(flow, left, free, potential, careful=True)
        decrement, potential = step.decrement, step.potential
        if decrement <= DECREMENT or NOISE > decrement > before / 2 > 0:
            break
        # Near the optimum Newton's own step is inside, and best.
        length = 1.0
        if decrement >= 0.25:
            length = _length(flow[free], left[free], step.flow[free])
        flow, left = flow + length * step.flow, left - length * step.flow
    return AnalyticCentre(flow, decrement)


class _Step(NamedTuple):
    """A direction in which the barrier rises while every node stays in balance.

    Attributes:
        flow: ``[layer, query, key]``.
        potential: Of all nodes, at which it is found.
        decrement: Newton's.
        balance: How far a node is out of balance, beside what the step changes there, at most.
    """

    flow: FloatArray
    potential: _Sum
    decrement: float
    balance: float


class _Sum(NamedTuple):
    """Numbers with twice the digits: a sum of two that is not added up."""

    high: FloatArray
    low: FloatArray

    def plus(self, other: FloatArray) -> _Sum:
        high, rest = _two_sum(self.high, other)
        return _Sum(*_two_sum(high, self.low + rest))


def _two_sum(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A sum and what was rounded off it, which together are exact (Knuth)."""
    total = first + second
    part = total - first
    return total, (first - (total - part)) + (second - part)


def _less_potentials(slope: FloatArray, potential: _Sum) -> FloatArray:
    """The slope of every edge less the difference of potentials along it, rounded once."""
    high, low = potential
    apart, rest = _two_sum(high[:-1, None, :], -high[1:, :, None])
    total, more = _two_sum(slope, apart)
    gap: FloatArray = total + (rest + more + (low[:-1, None, :] - low[1:, :, None]))
    return gap


def _balanced(flow: FloatArray, supply: FloatArray) -> FloatArray:
    """The flow with what rounding left at nodes divided as the rest is."""
    flow = flow.copy()
    arrived = supply
    for layer in flow[::-1]:
        sent = layer.sum(1)
        layer *= np.divide(arrived, sent, out=np.zeros_like(sent), where=sent > 0)[:, None]
        arrived = layer.sum(0)
    return flow


def _free_edges(
    capacity: FloatArray, flow: FloatArray, left: FloatArray, least: float
) -> BoolArray:
    """The edges whose flow can change; on the others nothing flows, or all that can.

    What goes to a node that passes next to nothing on can't change either. Where all edges of a
    node are full, it has all that flows, and what goes to it follows from what goes to the others.
    """
    free: BoolArray = (flow > least) & (left > least)
    for layer in range(len(capacity) - 1):
        idle = ~free[layer].any(1) & capacity[layer].any(1) & (flow[layer + 1].sum(0) < 0.5)
        free[layer + 1][:, idle] = False
    return _without_lone(free)


def _without_lone(free: BoolArray) -> BoolArray:
    """Without edges that are the only one of a node, whose balance fixes what flows there."""
    free = free.copy()
    while True:
        degree = free.sum(2)  # of the nodes above the input
        degree[:-1] += free[1:].sum(1)
        lone = degree == 1
        if not lone.any():
            return free
        free &= ~lone[:, :, None]
        free[1:] &= ~lone[:-1, None, :]


def _newton_step(
    flow: FloatArray, left: FloatArray, free: BoolArray, potential: _Sum, *, careful: bool
) -> _Step:
    """Newton's direction; with care, potentials are corrected until every node is in balance."""
    safe = np.where(free, flow, 1.0)
    left = np.where(free, left, 1.0)
    slope = np.where(free, 1 / safe - 1 / left, 0.0)
    # The inverse of the second derivative, written so that tiny flows do not overflow.
    near, far = np.minimum(safe, left), np.maximum(safe, left)
    weight = np.where(free, near**2 / (1 + (near / far) ** 2), 0.0)
    best: _Step | None = None
    for _ in range(CORRECTIONS if careful else 1):
        # Far from the optimum a step, or its square, may be infinite: such a step is never better.
        with np.errstate(over="ignore", invalid="ignore"):
            gap = np.where(free, _less_potentials(slope, potential), 0.0)
            change = _potentials(weight, weight * gap, careful=careful)
            potential = potential.plus(change)
            step = weight * (gap - change[1:, :, None] + change[:-1, None, :])
            curved = np.where(free, (step / safe) ** 2 + (step / left) ** 2, 0.0)
            found = _Step(step, potential, float(np.sqrt(curved.sum())), _imbalance(step, free))
        if best is not None and not found.balance < best.balance:
            break
        best = found
        if best.balance <= SAME:
            break
    assert best is not None
    return best


def _imbalance(step: FloatArray, free: BoolArray) -> float:
    """What leaves a node less what enters it, beside what changes there; the largest."""
    leaves, enters = step[:-1].sum(2), step[1:].sum(1)
    size = np.abs(step[:-1]).sum(2) + np.abs(step[1:]).sum(1)
    apart = np.abs(leaves - enters) / np.where(size > 0, size, 1.0)
    return float(np.where(free[:-1].any(2), apart, 0.0).max(initial=0.0))


def _potentials(weight: FloatArray, pushed: FloatArray, *, careful: bool) -> FloatArray:
    """Potentials of all nodes, ``[layer, position]``, 0 at the input, that balance every step.

    Nodes of a layer are joined to those of the layers above and below only, so that eliminating
    layer after layer leaves one dense system per layer.
    """
    depth, size = weight.shape[:2]
    right = pushed.sum(2)
    right[:-1] -= pushed[1:].sum(1)
    scaled: list[FloatArray] = []
    solved: list[FloatArray] = []
    # Between the nodes of a layer, and from them to the input, by way of the layers below. Sums of
    # these make the diagonal, so that nothing is subtracted.
    across, down, vector = np.zeros((size, size)), weight[0].sum(1), right[0]
    for layer in range(depth):
        above = weight[layer + 1].T if layer + 1 < depth else np.zeros((size, 0))
        # Where all ends, or all edges below are full, balance follows from that of other nodes.
        down = np.where(weight[layer].any(1), down, above.sum(1))
        both = _solve_block(across, np.column_stack([vector, down, above]), careful=careful)
        solved.append(both[:, 0])
        scaled.append(both[:, 2:])
        if layer + 1 < depth:
            joined = weight[layer + 1]
            across = joined @ scaled[-1]
            np.fill_diagonal(across, 0.0)
            down = joined @ both[:, 1]
            vector = right[layer + 1] + joined @ solved[-1]
    potential = np.zeros((depth + 1, size))
    potential[depth] = solved[-1]
    for layer in reversed(range(depth - 1)):
        potential[layer + 1] = solved[layer] + scaled[layer] @ potential[layer + 2]
    return potential


def _solve_block(across: FloatArray, right: FloatArray, *, careful: bool) -> FloatArray:
    """The system of one layer: of ``right``, all columns but the first make the diagonal, too."""
    if not careful:
        diagonal = across.sum(1) + right[:, 1:].sum(1)
        # A node that nothing passes stays at 0; the others are connected: a solution exists.
        diagonal = np.where(diagonal > 0, diagonal * (1 + 4 * EPSILON), 1.0)
        with contextlib.suppress(np.linalg.LinAlgError):
            return np.linalg.solve(np.diag(diagonal) - across, right).astype(np.float64)
    from attnflow.solvers.cpu.elimination import solve_network

    found: FloatArray = solve_network(across, right)
    return found


def _length(flow: FloatArray, left: FloatArray, step: FloatArray) -> float:
    """How far to go along a step: to where the barrier is largest, or nearly, inside all limits."""
    down, up = step / flow, step / left
    room = INSIDE / max(float(-down.min()), float(up.max()))

    def rises(length: float) -> bool:
        return float((down / (1 + length * down) - up / (1 - length * up)).sum()) >= 0

    least, most = 0.0, room
    if rises(most):
        return most
    while least == 0.0 or most - least > NEARLY * most:
        middle = (least + most) / 2
        least, most = (middle, most) if rises(middle) else (least, middle)
        if most < 1e-9 * room:
            break
    return least


def score(graph: LayeredGraph, selection: Selection, _: Execution) -> Scores:
    """The flow from every selected position to all tokens of ``to_layer``."""
    if graph.weights.ndim == 4:
        heads = graph.heads
        items = [
            score(
                LayeredGraph(graph.weights[:, item], None if heads is None else heads[:, item]),
                selection,
                _,
            )
            for item in range(graph.weights.shape[1])
        ]
        worst = max(float(item.statistics["largest_decrement"]) for item in items)
        values = np.stack([item.values for item in items], 1)
        return Scores(values, {"largest_decrement": worst})
    weights = to_numpy(graph.weights)[selection.to_layer :]
    edges = to_numpy(graph.weights)[:, None] if graph.heads is None else to_numpy(graph.heads)
    values = np.zeros((len(selection.layers), edges.shape[1], len(selection.queries), graph.size))
    worst = 0.0
    for at, layer in enumerate(selection.layers):
        for head in range(edges.shape[1]):
            for place, query in enumerate(selection.queries):
                supply = edges[layer - 1, head, query]
                below = weights[: layer - selection.to_layer - 1]
                flows, decrement = find_analytic_centre(below, supply)
                values[at, head, place] = flows[0].sum(0) if len(flows) else supply
                worst = max(worst, decrement)
    if selection.groups is not None:
        groups = [selection.groups[key] for key in selection.keys]
        values = np.stack([values[..., list(group)].sum(-1) for group in groups], -1)
    else:
        values = values[..., list(selection.keys)]
    return Scores(values[:, 0] if graph.heads is None else values, {"largest_decrement": worst})


def trace(graph: LayeredGraph, pair: Pair) -> FlowTrace:
    """The part of the joint flow that ends at the key, edge by edge."""
    if graph.source is not None:
        MEMBER.check_pairs(routes=True)
    supply = graph.edges_of(pair)
    flow, _ = find_analytic_centre(to_numpy(graph.weights)[pair.to_layer : pair.layer - 1], supply)
    shares = np.zeros((pair.layer - pair.to_layer, graph.size, graph.size))
    totals = flow.sum(-1, keepdims=True)
    shares[:-1] = np.divide(flow, totals, out=np.zeros_like(flow), where=totals > 0)
    shares[-1, pair.query] = supply
    edges = carried(shares, pair.query, pair.key)
    return FlowTrace.of(pair, float(edges[0].sum()), edges, method=MEMBER.name)


MEMBER = Method(
    name="barrier",
    title="Barrier flow",
    summary="One flow from all tokens at once that stays clear of all limits: it ranks tokens "
    "that flow ties.",
    score=score,
    trace=trace,
    single_heads=True,
    cost="query",
    shown_by_default=False,
    not_for_pairs="the barrier would count the edges that carry the other side along",
)
