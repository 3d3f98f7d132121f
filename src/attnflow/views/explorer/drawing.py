"""What the graph of a view is drawn from: its columns, its edges, and what is traced in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnflow.pipeline.session import Session
from attnflow.records import FloatArray
from attnflow.records.arrays import to_numpy
from attnflow.views.explorer.schema import DrawnEdges, pack
from attnflow.views.wording.cuts import MOST

MOST_EDGES = 15_000  # in a document, shared by all positions
SHARE = 10  # of the traces of a short text, one in so many is there of a long one
MOST_AMOUNTS = 200
FEWEST_EDGES = 4  # of each position, however many positions there are


def columns_of(session: Session) -> list[str]:
    """A name for each step of the graph; an encoder–decoder says which kind of step it is."""
    activations = session.activations
    if activations.ends is None:
        return ["input", *(f"L{layer}" for layer in range(1, session.depth + 1))]
    names = {}
    before = 0
    for layer, end in enumerate(activations.steps, start=1):
        names[end] = f"L{layer}"
        if end - before == 2:
            names[end - 1] = f"L{layer} self"
            names[end] = f"L{layer} cross"
        before = end
    return ["input", *(names[step] for step in sorted(names))]


def strongest_edges(session: Session) -> DrawnEdges:
    """The strongest edges of every position: all of them where there are few tokens."""
    maps = session.maps
    steps, size = len(maps), maps[0].shape[-1]
    count = min(size, max(FEWEST_EDGES, MOST_EDGES // (steps * size)))
    # Map by map: all of a long text together may take more memory than there is.
    kept = [_strongest(to_numpy(each), count) for each in maps]
    step = np.repeat(np.arange(1, steps + 1), [len(each[0]) for each in kept])
    query, key, weight = (np.concatenate(each) for each in zip(*kept, strict=True))
    order = np.argsort(-weight, kind="stable")
    return {
        "step": pack(step[order], "u2"),
        "query": pack(query[order], "u2"),
        "key": pack(key[order], "u2"),
        "weight": pack(weight[order]),
        "kept": int(count),
    }


def carrying_edges(session: Session) -> DrawnEdges:
    """The edges between tokens that carry 90 % of all amounts, for the target and against it."""
    maps = np.stack([to_numpy(each) for each in session.maps])
    maps[:, range(session.size), range(session.size)] = 0.0  # which stay in place
    sizes = np.abs(maps).ravel()
    order = np.argsort(-sizes, kind="stable")[:MOST_AMOUNTS]
    passed = np.cumsum(sizes[order])
    count = 1 + int(np.searchsorted(passed, MOST * sizes.sum())) if sizes.any() else 0
    order = order[:count]
    step, query, key = np.unravel_index(order, maps.shape)
    return {
        "step": pack(step + 1, "u2"),
        "query": pack(query, "u2"),
        "key": pack(key, "u2"),
        "weight": pack(maps.ravel()[order]),
        "kept": 0,
    }


def _strongest(weights: FloatArray, count: int) -> tuple[Any, Any, FloatArray]:
    """Queries, keys and weights of the strongest edges of every position that are not 0."""
    keys = np.argpartition(-weights, count - 1, axis=-1)[..., :count]
    strongest = np.take_along_axis(weights, keys, -1)
    nonzero = strongest > 0
    return np.nonzero(nonzero)[0], keys[nonzero], strongest[nonzero]


def traced_pairs(
    top: FloatArray, layers: Sequence[int], most: int, key: int
) -> list[tuple[int, int]]:
    """Which (layer, token) pairs are traced: all, or the highest-scored of the last layer."""
    order = [key, *(int(at) for at in np.argsort(-top, kind="stable") if at != key)]
    if len(layers) * len(order) <= most:
        return [(layer, at) for layer in reversed(layers) for at in order]
    return [(layers[-1], at) for at in order[: max(1, most // SHARE)]]
