"""Flow on relevance: time against maximum-flow libraries, and where the minimum cuts lie.

    python -m attnflow_experiments.relevance_flow FILE.npz … [--sample 8]

Each file holds signed relevance ``edges``, ``[layer, query, key]``, the position ``source`` that
decided, and ``streams``, ``[layer, position]`` for layers 0 … L: the relevance of each position's
stream, whose positive part limits stations. Without files, made-up relevance is measured. Times are
processor time of one thread: attnflow's of all sinks, with preparing the network; a library's of a
sample of sinks, scaled to all, its graph made beforehand. Values are compared.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attnflow.errors import AttnflowError
from attnflow.records import FloatArray
from attnflow.solvers import temporal
from attnflow.solvers.execution import Execution
from attnflow_experiments.bench.baselines import LIBRARIES

TOLERANCE = 1e-6  # of all capacity: libraries round it to integers
SMALL = 64  # positions below which a solve is repeated, as it is shorter than the clock's error
ONE_THREAD = Execution(threads=1)


class Case(NamedTuple):
    """Capacities from one source, and the stations that may limit columns."""

    name: str
    capacities: FloatArray
    source: int
    stations: FloatArray

    @property
    def sinks(self) -> list[int]:
        """Every position but the source."""
        return [at for at in range(self.capacities.shape[1]) if at != self.source]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--sample", type=int, default=8, help="sinks that libraries solve")
    given = parser.parse_args()
    names = [each.name for each in LIBRARIES if each.available]
    heads = ["", "layers × tokens", "free, ms", *(f"{name} ÷ attnflow" for name in names)]
    heads += ["stations, ms", "cut around the token", "around the source", "elsewhere"]
    print("|", " | ".join(heads), "|\n" + "|---" * len(heads) + "|", flush=True)
    for path in given.files or [None]:
        for case in cases_of(path):
            print("|", " | ".join(row(case, given.sample)), "|", flush=True)


def cases_of(path: Path | None) -> list[Case]:
    """What speaks for the answer, and what speaks against it."""
    if path is None:
        rng = np.random.default_rng(0)
        edges = rng.normal(size=(6, 128, 128)) ** 3 * np.exp(rng.normal(0, 1, (6, 128, 1)))
        edges[:, 0] *= 20
        streams, source, name = rng.normal(size=(7, 128)) * 30, 0, "made up"
    else:
        with np.load(path) as file:
            edges, streams, source = file["edges"], file["streams"], int(file["source"])
        name = path.stem
    return [
        Case(f"{name}, {side}", np.maximum(sign * edges, 0), source, stations)
        for side, sign in (("for", 1), ("against", -1))
        for stations in [np.maximum(sign * streams[1:-1].astype(float), 0)]
    ]


def row(case: Case, sample: int) -> list[str]:
    """One case measured."""
    depth, size, _ = case.capacities.shape
    values, seconds = measured(case, None)
    _, limited = measured(case, case.stations)
    cells = [case.name, f"{depth} × {size}", f"{1e3 * seconds:.1f}"]
    sinks = case.sinks[:: max(1, len(case.sinks) // sample)]
    total = float(case.capacities.sum())
    weights = case.capacities / total
    weights[:, np.arange(size), np.arange(size)] = 1.0  # more than any flow
    for library in LIBRARIES:
        if not library.available:
            continue
        solver = library.prepare(weights)
        start = time.process_time()
        found = [solver(depth * size + case.source, sink) * total for sink in sinks]
        taken = (time.process_time() - start) * len(case.sinks) / len(sinks)
        expected = [values[case.sinks.index(sink)] for sink in sinks]
        if not np.allclose(found, expected, rtol=0, atol=TOLERANCE * total):
            msg = f"{library.name} and attnflow differ for {case.name}: {found} and {expected}"
            raise AttnflowError(msg)
        cells.append(f"{taken / seconds:.0f}")
    return [*cells, f"{1e3 * limited:.1f}", *(f"{share:.0%}" for share in cut_places(case, values))]


def measured(case: Case, stations: FloatArray | None) -> tuple[FloatArray, float]:
    """The flows to all sinks, and the shortest processor time."""
    times = []
    for _ in range(20 if case.capacities.shape[1] < SMALL else 3):
        start = time.process_time()
        network = temporal.prepare(case.capacities, case.source, stations)
        found = network.solve(case.sinks, ONE_THREAD)
        times.append(time.process_time() - start)
    return found.values, min(times)


def cut_places(case: Case, values: FloatArray) -> tuple[float, float, float]:
    """Of how many flows the minimum cut is around the token, around the source, and elsewhere.

    Around the token are all edges to it that the source reaches; around the source all its edges
    that lead to the token.
    """
    depth, size, _ = case.capacities.shape
    edges = case.capacities * ~np.eye(size, dtype=bool)
    reached = np.arange(size) == case.source
    received = np.zeros(size)
    for layer in range(depth, 0, -1):
        rows = edges[layer - 1][reached]
        received += rows.sum(0, dtype=np.float64)
        reached = reached | (rows > 0).any(0)
    leads = np.eye(size, dtype=np.float32)[:, case.sinks]  # from each node to each sink
    sent = np.zeros(len(case.sinks))
    for layer in range(1, depth + 1):
        sent += edges[layer - 1, case.source].astype(np.float64) @ leads
        leads = ((leads + (edges[layer - 1] > 0).astype(np.float32) @ leads) > 0).astype(np.float32)
    around_token = np.isclose(values, received[case.sinks], rtol=1e-9, atol=0)
    around_source = np.isclose(values, sent, rtol=1e-9, atol=0) & ~around_token
    share = float(around_token.mean()), float(around_source.mean())
    return *share, 1 - sum(share)


if __name__ == "__main__":
    main()
