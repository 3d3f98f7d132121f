"""The flow network of one thread: arrays that are allocated once and reused for every pair.

Nodes are (layer, position). ``capacity[k, i, j]`` is the edge from (k + 1, i) to (k, j). For a pair
(source in layer l, sink) the source's edges become ``excess`` on layer l − 1 and the sink's edges
``demand`` on layer 1, so that only layers 1 … l − 1 are searched, of which ``top`` = l − 1 is the
highest.

A pair changes little of ``residual``. Each changed edge is noted among the ``parents`` of its lower
end, which serves two purposes: searches find the few edges that carry flow without scanning a
column, and afterwards only these edges are reset, so that no pair pays for the size of the network.

``low`` and ``high`` limit the positions everywhere: those outside can't carry flow of the pair, and
their entries are stale.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from attnflow.records import FloatArray

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
ByteArray = npt.NDArray[np.uint8]
BoolArray = npt.NDArray[np.bool_]

# A capacity that carries nothing. Subtractions leave residues of this size on edges that are full:
# without the tolerance, searches would follow them and send next to nothing, again and again.
NEGLIGIBLE = 1e-15


class Network(NamedTuple):
    """Capacities, what is left of them, and working arrays of the searches; see `make_network`."""

    capacity: FloatArray  # [layer, query, key], never written
    residual: FloatArray  # [layer, query, key]
    excess: FloatArray  # [layer, position], flow that arrived and was not yet sent on
    demand: FloatArray  # [position] of layer 1, what the sink still takes from there
    reach: FloatArray  # [layer, position], a bound on what the node can send to the sink
    share: FloatArray  # [layer, position], what it can send without crossing other columns
    room: FloatArray  # [position], what a position of the layer being filled still takes
    open: IntArray  # [order], the positions that still take something
    level: IntArray  # [layer, position], the distance to the sink; 0 unreached, −1 used up
    arc: IntArray  # [layer, position], the next edge to try
    reached: IntArray  # [layer, order], positions in the order in which a search reached them
    found: IntArray  # [layer], how many are in `reached`
    missing: IntArray  # [layer, order], positions a search has not reached
    lacking: IntArray  # [layer], how many are in `missing`
    segment: IntArray  # [layer, level], where that level begins in `reached`
    stack: IntArray  # [depth of a path, (layer, position)]
    offered: FloatArray  # [depth of a path], what the node there may pass on
    sent: FloatArray  # [depth of a path], what arrived at the sink through it
    touched: ByteArray  # [layer, query, key], whether the edge has ever carried this pair's flow
    parents: IntArray  # [layer, key, order], the queries whose edges to this key were touched
    senders: IntArray  # [layer, key], how many are in `parents`


def make_network(capacity: FloatArray) -> Network:
    """A network for any pair on these capacities, ``[layer, query, key]``."""
    # Everything has its largest possible size, so that no search has to grow an array. `capacity`
    # is not copied: it is never written, and all threads read the same one.
    depth, size, _ = capacity.shape
    nodes = (depth + 1, size)
    # A path in the residual network goes up as well as down, but visits no node twice.
    longest = depth * size + 2
    return Network(
        capacity=capacity,
        residual=capacity.copy(),
        excess=np.zeros(nodes),
        demand=np.zeros(size),
        reach=np.zeros(nodes),
        share=np.zeros(nodes),
        room=np.zeros(size),
        open=np.zeros(size, np.uint32),
        level=np.zeros(nodes, np.int32),
        arc=np.zeros(nodes, np.int32),
        reached=np.zeros(nodes, np.uint32),
        found=np.zeros(depth + 1, np.int32),
        missing=np.zeros(nodes, np.uint32),
        lacking=np.zeros(depth + 1, np.int32),
        segment=np.zeros((depth + 1, longest + 2), np.int32),
        stack=np.zeros((longest, 2), np.uint32),
        offered=np.zeros(longest),
        sent=np.zeros(longest),
        touched=np.zeros((depth, size, size), np.uint8),
        parents=np.zeros((depth, size, size), np.uint32),
        senders=np.zeros((depth, size), np.int32),
    )


@njit(cache=True, nogil=True, inline="always")
def note_edge(network: Network, layer: int, query: int, key: int) -> None:
    """Remember that this edge carries flow."""
    # An edge is noted once and stays noted if its flow is handed back later: whoever goes through
    # `parents` must look at the residual as well. `touched` keeps the list free of duplicates.
    if not network.touched[layer, query, key]:
        network.touched[layer, query, key] = 1
        network.parents[layer, key, network.senders[layer, key]] = query
        network.senders[layer, key] += 1


@njit(cache=True, nogil=True)
def restore(network: Network, top: int, low: int, high: int) -> None:
    """Make the residuals the capacities again."""
    # Layer 0 is left out: edges to the sink are `demand`, which is set for every pair. Capacities
    # are copied, because adding the flow back would collect rounding errors from pair to pair.
    residual, capacity, touched = network.residual, network.capacity, network.touched
    parents, senders = network.parents, network.senders
    for layer in range(1, top):
        for key in range(low, high):
            for entry in range(senders[layer, key]):
                query = parents[layer, key, entry]
                residual[layer, query, key] = capacity[layer, query, key]
                touched[layer, query, key] = 0
            senders[layer, key] = 0
