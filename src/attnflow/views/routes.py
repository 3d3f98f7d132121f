"""Routes as runs: a token is named once for all layers that a route stays on it."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attnflow.records import FlowTrace, Route
from attnflow.views.wording.cuts import MOST


class Stretch(NamedTuple):
    """The layers, from the input up, in which a route stays on one token."""

    position: int
    first: int
    last: int

    @property
    def span(self) -> str:
        """The layers in short.

        >>> Stretch(3, 0, 28).span, Stretch(5, 29, 30).span, Stretch(5, 6, 6).span
        ('input–28', 'L29–30', 'L6')
        """
        start = "input" if self.first == 0 else f"L{self.first}"
        return start if self.first == self.last else f"{start}–{self.last}"


def runs(route: Route, base: int = 0) -> list[Stretch]:
    """A route from the input up, ``base`` being the layer that it ends at.

    >>> runs(Route((0, 0, 2, 2), 0.5))
    [Stretch(position=2, first=0, last=1), Stretch(position=0, first=2, last=3)]
    """
    upward = enumerate(reversed(route.positions), start=base)
    found = []
    for position, stay in groupby(upward, key=lambda step: step[1]):
        layers = [layer for layer, _ in stay]
        found.append(Stretch(position, layers[0], layers[-1]))
    return found


def carrying(trace: FlowTrace) -> npt.NDArray[np.bool_]:
    """The edges of the largest routes that carry 90 % of a flow, ``[layer, query, key]``."""
    found = np.zeros(trace.edges.shape, dtype=bool)
    top, left = len(trace.edges) - 1, MOST * abs(trace.value)
    for route in trace.routes:
        if left <= 0:
            break
        for at, (query, key) in enumerate(pairwise(route.positions)):
            found[top - at, query, key] = True
        left -= route.amount
    return found


def place_of_cut(trace: FlowTrace) -> str:
    """Where a minimum cut lies: ``"source"``, ``"input"``, ``"between"``, or nowhere (empty)."""
    if not trace.cut:
        return ""
    top, bottom = trace.to_layer + len(trace.edges), trace.to_layer + 1
    if all(edge.layer == top and edge.query == trace.query for edge in trace.cut):
        return "source"
    if all(edge.layer == bottom and edge.key == trace.key for edge in trace.cut):
        return "input"
    return "between"


def carried(trace: FlowTrace, most: int) -> tuple[float, list[tuple[int, float]]]:
    """The share of a flow that goes directly, and the shares through up to ``most`` other tokens.

    Every route counts once, so that shares sum to 1 at most: the first token is the one that most
    passes through, the next the one that most of the rest passes through.
    """
    if not trace.value:
        return 0.0, []
    ends = {trace.query, trace.key}
    passed = [(set(route.positions) - ends, route.amount) for route in trace.routes]
    direct = sum(amount for tokens, amount in passed if not tokens)
    found: list[tuple[int, float]] = []
    for _ in range(most):
        through: dict[int, float] = {}
        for tokens, amount in passed:
            for at in tokens:
                through[at] = through.get(at, 0.0) + amount
        if not through:
            break
        first = min(through, key=lambda at: (-through[at], at))
        found.append((first, through[first] / trace.value))
        passed = [(tokens, amount) for tokens, amount in passed if first not in tokens]
    return direct / trace.value, found
