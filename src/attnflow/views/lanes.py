"""Where arrows run beside a list: each row that arrows start from has a lane of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Lane(NamedTuple):
    """The arrows from one row to rows below it.

    Attributes:
        source: The row.
        targets: The rows that they lead to, from above to below.
        column: Which lane it is; lane 0 is farthest from the list.
    """

    source: int
    targets: tuple[int, ...]
    column: int


def lanes_of(edges: Sequence[tuple[int, int]]) -> list[Lane]:
    """The lanes of arrows between rows, longer ones farther from the list.

    >>> lanes_of([(0, 3), (1, 2), (2, 3)])
    [Lane(source=0, targets=(3,), column=0), Lane(source=1, targets=(2,), column=1), \
Lane(source=2, targets=(3,), column=2)]
    """
    targets: dict[int, list[int]] = {}
    for source, target in sorted(edges):
        targets.setdefault(source, []).append(target)
    order = sorted(targets, key=lambda source: (source - targets[source][-1], source))
    ends: list[list[int]] = []  # of each lane the rows that are taken
    lanes = []
    for source in order:
        rows = range(source, targets[source][-1] + 1)
        column = next((at for at, taken in enumerate(ends) if not set(taken) & set(rows)), None)
        if column is None:
            column = len(ends)
            ends.append([])
        ends[column] += rows
        lanes.append(Lane(source, tuple(targets[source]), column))
    return lanes
