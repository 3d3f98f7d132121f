"""Many maximum flows through sparse layers: threads share the sinks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from attnflow.io.progress import progress_bar
from attnflow.records.sparse import SparseLayers
from attnflow.records.types import FloatArray
from attnflow.solvers.certificate import check_gaps
from attnflow.solvers.cpu.sparse import SparseNetwork, another, make_network, max_flow
from attnflow.solvers.cpu.sparse_pouring import bound_reach
from attnflow.solvers.cpu.working import SharedParts, work_together
from attnflow.solvers.execution import Execution
from attnflow.solvers.threads import cores

NETWORK_BYTES = 2 << 30  # of what all threads have of their own, 12 bytes for every edge


def solve(
    layers: SparseLayers,
    sources: Sequence[tuple[int, int]],
    groups: Sequence[Sequence[int]],
    execution: Execution,
) -> tuple[FloatArray, dict[str, Any]]:
    """The maximum flow from every (layer, position) to every group of positions of layer 0.

    Returns ``[source, group]`` and statistics. An interrupt (Ctrl-C) stops every thread after the
    pair that it is at.
    """
    size = layers.shape[-1]
    edges = sum(len(each.keys) for each in layers)
    most = max(1, NETWORK_BYTES // max(1, 12 * edges))
    workers = min(execution.threads or cores(), len(groups), most)
    values = np.zeros((len(groups), len(sources)))
    gaps = np.full_like(values, np.inf)  # of pairs that nobody has solved
    orders, supply = [], np.zeros(len(sources))
    for column, (layer, query) in enumerate(sources):
        row = layers[layer - 1][query]
        orders.append(np.argsort(-row, kind="stable").astype(np.int32))
        supply[column] = row.sum()
    stop, places = np.zeros(1, np.uint8), SharedParts(range(len(groups)))

    def work(network: SparseNetwork) -> None:
        for place in places:
            if stop[0]:
                return
            sinks = np.zeros(size, bool)
            sinks[list(groups[place])] = True
            bound_reach(network.poured, len(layers) - 1, sinks, groups[place][0])
            for column, (layer, query) in enumerate(sources):
                if stop[0]:
                    return
                found = max_flow(network, layer * size + query, sinks, orders[column])
                values[place, column], gaps[place, column] = found[0], found[1] - found[0]

    first = make_network(layers)
    networks = [first, *(another(first) for _ in range(workers - 1))]
    with progress_bar("flow", values.size, shown=execution.progress) as show:
        tasks = [partial(work, each) for each in networks]
        work_together(tasks, stop, lambda: show(int(np.isfinite(gaps).sum())))
        show(values.size)
    gap = check_gaps(gaps, supply)
    return values.T, {"pairs": values.size, "largest_gap": gap, "threads": workers}
