"""A flow strictly inside all limits: where the search for the analytic centre starts.

The rollout flow is one, too, but may be next to 0 where the centre is not: where a node keeps a
share of 0.002 layer after layer, rollout leaves it 1e-27 after ten, although every edge on the way
would carry 0.002. In another flow a node divides what arrives by what is needed below each of its
edges, as far as their capacities allow, so that nothing vanishes which they do not make vanish.
The mean of both is near no limit that either is far from.
"""

from __future__ import annotations

import numpy as np

from attnflow.records import FloatArray

MOST_STEPS = 100
ACCURATE = 4e-16


def inside_limits(capacity: FloatArray, supply: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The flow on every edge ``[layer, query, key]``, and what it leaves of capacities.

    What is left is no difference of the two: where nearly all passes one node, it would be noise.
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
    for _ in range(MOST_STEPS):
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
