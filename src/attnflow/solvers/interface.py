"""What every maximum-flow solver offers, and which ones there are.

A graph is prepared once and solved often, for many (sources, sinks) pieces: a prepared graph caches
the solver's buffers and bounds between them. A solver for another device is one more entry here;
the methods do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from attnflow.errors import CertificateError, InputError, unknown
from attnflow.records.arrays import on_cpu
from attnflow.records.types import Array, FloatArray
from attnflow.solvers.execution import DEVICES, Execution

LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
WORTH_A_GPU = 1e8
"""Work that takes a few cores seconds; less is finished before a GPU is ready."""


@dataclass(frozen=True, eq=False)
class Sources:
    """Where flow starts: for each source its edges, ``[source, key]``, and the layer it is in.

    In a batch, edges are ``[item, source, key]``, and all items have the same layers.
    """

    edges: Array
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

        Of a batch, ``[item, source, sink]``. Sinks are positions of the layer below the first. An
        interrupt (Ctrl-C) stops the work.
        """

    def solve_pair(self, edges: FloatArray, layer: int, source: int, sink: int) -> PairFlow:
        """The flow of one pair on every edge, with its proof."""


class FlowSolver(Protocol):
    """A way to compute maximum flows."""

    @property
    def name(self) -> str:
        """The device it runs on."""

    @property
    def batches(self) -> bool:
        """Whether it solves a batch at once: weights ``[layer, item, query, key]``."""

    def accept(self, array: Array) -> Any:
        """The array in float64 where the solver can use it; a copy only if needed."""

    def prepare(self, weights: Any) -> PreparedGraph:
        """A graph of these capacities, ``[layer, query, key]``, ready to be solved."""


def find_solver(device: str, weights: Array | None = None, work: float = 0.0) -> FlowSolver:
    """The solver of a device.

    ``"auto"`` is a usable GPU if the weights are already on it or the work (pairs × layers ×
    positions) would keep the CPU busy for some time; otherwise it is the CPU.
    """
    if device not in DEVICES:
        raise InputError(unknown("device", device, DEVICES))
    if device == "auto":
        there = weights is not None and not on_cpu(weights)
        device = "cuda" if (there or work >= WORTH_A_GPU) and _has_cuda() else "cpu"
    if device == "cuda":
        from attnflow.solvers.cuda.solver import CudaSolver

        return CudaSolver()
    from attnflow.solvers.cpu.solver import CpuSolver  # importing numba is slow

    return CpuSolver(weights)


@cache
def _has_cuda() -> bool:
    from attnflow.solvers.cuda.device import why_not

    return why_not() is None


MET = 1e-12
"""A flow this close to a bound is the maximum.

Flow and bound are sums in different orders, which rounding keeps apart: a comparison for equality
would start a search for flows that are complete.
"""
LARGEST_GAP = 1e-9
"""How far a flow may be from its proof, relative to all that its source could send."""
LARGEST_OF_LITTLE = 1e-6
"""The same where a source can send so little that `MET`, at which searches stop, is more."""


def check_gaps(gaps: FloatArray, supply: FloatArray | float) -> float:
    """The largest distance between a flow and what proves it.

    ``supply`` is the sum of the edges of each flow's source: no flow is larger, so that rounding
    is in proportion to it. It is broadcast to the gaps. An infinite gap is a flow that was never
    computed.

    Raises:
        CertificateError: A gap is larger than rounding explains, in either direction.
    """
    found = np.abs(gaps)
    most = np.broadcast_to(supply, found.shape)
    allowed = np.maximum(LARGEST_GAP * most, np.minimum(2 * MET, LARGEST_OF_LITTLE * most))
    wrong = ~(found <= allowed)  # NaN is wrong, too
    if wrong.any():
        worst = np.argmax(found[wrong])
        msg = (
            f"a maximum flow failed its proof: it is {found[wrong][worst]:.2g} from the bound or "
            f"cut that it should equal (allowed: {allowed[wrong][worst]:.1g}, from a source whose "
            f"edges sum to {most[wrong][worst]:.2g}). No result is returned; please report this "
            "input"
        )
        raise CertificateError(msg)
    return float(found.max(initial=0.0))
