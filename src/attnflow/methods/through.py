"""Through time: what a model wrote itself hands on to the position that wrote it.

An edge of weight 1 leads from the input node of every token of the answer to the top node of the
position before, where it was predicted. The graph has no circles, since these edges lead to earlier
positions only, and all that starts at a token of the answer ends in the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnflow.errors import InputError
from attnflow.methods.method import Scores
from attnflow.records import Array, FloatArray
from attnflow.records.arrays import to_numpy
from attnflow.records.selection import Groups
from attnflow.records.sparse import LongArray, SparseLayers
from attnflow.solvers.interface import check_gaps

MOST_BYTES = 4 << 30


def hand_on(rows: FloatArray, answer: Sequence[int]) -> FloatArray:
    """Shares ``[answer, source]`` with those of the answer's own tokens handed on to the prompt.

    T_k = M_k + Σ_i M_k[a_i] · T_i over the tokens i before k, columns of the answer left out.
    """
    found = np.array(rows, np.float64)
    found[:, list(answer)] = 0.0
    for row in range(len(rows)):
        for earlier in range(row):
            found[row] += rows[row, answer[earlier]] * found[earlier]
    return found


def flow_through(weights: Array, top: int, answer: Sequence[int], groups: Groups) -> Scores:
    """``[answer, group]``: maximum flows from the positions that predict to groups of tokens.

    ``weights`` are capacities ``[layer, query, key]`` up to layer ``top``, whose nodes lead on
    (inputs of the answer) and are asked about.
    """
    from attnflow.solvers.cpu.general import ARC_BYTES, ENDLESS, make_arcs, max_flow

    size = int(weights.shape[-1])
    steps, tops, bottoms, held = _entries(weights[:top])
    needed = len(held) * ARC_BYTES
    if needed > MOST_BYTES:
        msg = (
            f"flow through='prompt' of {size} tokens in {top} layers would take "
            f"{needed / 2**30:.0f} GiB; use method='rollout', or a shorter prompt"
        )
        raise InputError(msg)
    inputs = np.arange(size)
    written = np.array(answer)
    sink = (top + 1) * size
    tails = np.concatenate([(steps + 1) * size + tops, written, inputs])
    heads = np.concatenate([steps * size + bottoms, top * size + written - 1, inputs * 0 + sink])
    capacities = np.concatenate([held, np.ones(len(written)), 0.0 * inputs])
    arcs = make_arcs(tails.astype(np.int32), heads.astype(np.int32), capacities, sink + 1)
    ends = arcs.twin[arcs.start[sink] : arcs.start[sink + 1]]  # of the inputs, in their order
    values, gaps = np.zeros((2, len(answer), len(groups)))
    for column, group in enumerate(groups):
        left = arcs.capacity.copy()
        left[ends[[at for at in group if at not in set(answer)]]] = ENDLESS
        for row, at in enumerate(answer):
            value, cut = max_flow(arcs, left.copy(), top * size + at - 1, sink)
            values[row, column], gaps[row, column] = value, cut - value
    # Rows of edges sum to 1: no position sends more.
    return Scores(values, {"pairs": values.size, "largest_gap": check_gaps(gaps, 1.0)})


def _entries(weights: Array) -> tuple[LongArray, LongArray, LongArray, FloatArray]:
    """Layer, query, key and capacity of every edge that is there."""
    if isinstance(weights, SparseLayers):
        counts = [len(each.keys) for each in weights]
        return (
            np.repeat(np.arange(len(weights)), counts),
            np.concatenate([each.queries for each in weights]).astype(np.int64),
            np.concatenate([each.keys for each in weights]).astype(np.int64),
            np.concatenate([each.values for each in weights]).astype(np.float64),
        )
    dense = to_numpy(weights)
    steps, tops, bottoms = np.nonzero(dense)
    return steps, tops, bottoms, dense[steps, tops, bottoms]
