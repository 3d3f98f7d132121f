"""What every maximum-flow solver offers, and which ones there are.

A graph is prepared once and solved often, for many (sources, sinks) pieces: a prepared graph caches
the solver's buffers and bounds between them. A solver for another device is one more entry here;
the methods do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from attnflow.errors import InputError
from attnflow.records.kinds import FloatArray
from attnflow.solvers.execution import Execution

LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Sources:
    """Where flow starts: for each source its edges, ``[source, key]``, and the layer it is in."""

    edges: FloatArray
    layers: LongArray


@dataclass(frozen=True, eq=False)
class PairFlow:
    """One maximum flow in full.

    Attributes:
        value: The maximum flow.
        flow: What passes over every edge, ``[layer, query, key]``.
        capacity: The capacity of every edge, of the source's layer only the source's.
        cut: Which edges a minimum cut takes.
        routes: Positions from the source down to the sink, and the amount, the largest first.
    """

    value: float
    flow: FloatArray
    capacity: FloatArray
    cut: BoolArray
    routes: tuple[tuple[Any, float], ...]


class PreparedGraph(Protocol):
    """A graph ready for maximum flows; several threads may use it, one after the other."""

    @property
    def nbytes(self) -> int:
        """How much memory is held between calls, beside the graph itself."""

    def solve(
        self, sources: Sources, sinks: LongArray, execution: Execution
    ) -> tuple[FloatArray, dict[str, Any]]:
        """The maximum flow from every source to every sink, ``[source, sink]``, and statistics.

        Sinks are positions of the layer below the first. An interrupt (Ctrl-C) stops the work.
        """

    def solve_pair(self, edges: FloatArray, layer: int, source: int, sink: int) -> PairFlow:
        """The flow of one pair on every edge, with its proof."""


class FlowSolver(Protocol):
    """A way to compute maximum flows."""

    @property
    def name(self) -> str:
        """The device it runs on."""

    def prepare(self, weights: FloatArray) -> PreparedGraph:
        """A graph of these capacities, ``[layer, query, key]``, ready to be solved."""


def find_solver(device: str) -> FlowSolver:
    """The solver of a device; ``"auto"`` is the best that there is."""
    from attnflow.solvers.cpu.solver import CpuSolver  # numba takes its time

    solvers: dict[str, FlowSolver] = {"cpu": CpuSolver()}
    if device == "auto":
        return solvers["cpu"]
    if device not in solvers:
        msg = f"device={device!r} is unknown; allowed: 'auto', {', '.join(map(repr, solvers))}"
        raise InputError(msg)
    return solvers[device]
