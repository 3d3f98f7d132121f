"""A prepared graph gives what a fresh one gives, whatever was solved on it before."""

import numpy as np
import pytest

import attention as some
from attnflow.solvers.cpu import pairs
from attnflow.solvers.cpu.solver import CpuSolver
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import Sources


@pytest.mark.parametrize("kind", ["dense", "causal", "sparse"])
@pytest.mark.parametrize("most", [0, pairs.MOST_BYTES])
def test_pieces_in_any_order_are_those_of_fresh_graphs(kind, most, monkeypatch):
    monkeypatch.setattr(pairs, "MOST_BYTES", most)
    weights = some.make(kind, 6, 15, seed=4)
    prepared = CpuSolver().prepare(weights)
    chance = np.random.default_rng(0)
    for _ in range(40):
        layers = chance.integers(1, 7, size=3)
        queries = chance.integers(0, 15, size=3)
        sinks = chance.permutation(15)[: chance.integers(1, 15)]
        sources = Sources(weights[layers - 1, queries], layers)
        threads = Execution(int(chance.integers(1, 3)))
        found, _ = prepared.solve(sources, sinks, threads)
        expected, _ = CpuSolver().prepare(weights).solve(sources, sinks, Execution(1))
        np.testing.assert_array_equal(found, expected)
    assert (prepared._buffers.bounds.known.size > 0) == (most > 0)


def test_a_graph_that_is_solved_once_keeps_no_bounds():
    weights = some.make("dense", 4, 10, seed=1)
    prepared = CpuSolver().prepare(weights)
    prepared.solve(Sources(weights[-1], np.full(10, 4)), np.arange(10), Execution(1))
    assert prepared._buffers.bounds.known.size == 0
