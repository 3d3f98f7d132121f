"""Every solver behind the interface, the CUDA kernels also where there is no GPU (emulator.cpp)."""

from functools import partial

import numpy as np
import pytest

import attention as some
import oracle
from attnflow.errors import AttnflowError, InputError, MissingExtra
from attnflow.solvers.cpu import network, solver
from attnflow.solvers.cpu.network import MOST_POSITIONS
from attnflow.solvers.cpu.pairs import make_bounds, solve_sinks
from attnflow.solvers.cpu.solver import CpuSolver, source_arrays
from attnflow.solvers.cuda import device
from attnflow.solvers.cuda import solver as cuda
from attnflow.solvers.cuda.solver import LARGEST, CudaSolver
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import Sources, find_solver
from emulated import Emulated, available

NO_GPU = device.why_not()
needs_compiler = pytest.mark.skipif(not available(), reason="needs g++")
SOLVERS = [
    pytest.param(CpuSolver, id="cpu"),
    pytest.param(lambda: CudaSolver(Emulated()), id="emulated", marks=needs_compiler),
    pytest.param(
        CudaSolver, id="cuda", marks=pytest.mark.skipif(NO_GPU is not None, reason=str(NO_GPU))
    ),
]
every_solver = pytest.mark.parametrize("make", SOLVERS)
ON_GPU = SOLVERS[1:]


def all_sources(weights, step=1):
    depth, size, _ = weights.shape
    layers, queries = np.repeat(np.arange(1, depth + 1), size), np.tile(np.arange(size), depth)
    return Sources(weights[layers[::step] - 1, queries[::step]], layers[::step])


@every_solver
@pytest.mark.parametrize("columns_from", [cuda.COLUMNS_FROM, 3])
@pytest.mark.parametrize("kind", some.KINDS)
def test_values_are_the_oracles_and_proven(make, kind, columns_from, monkeypatch):
    monkeypatch.setattr(cuda, "COLUMNS_FROM", columns_from)
    for depth, size, seed in ((1, 3, 0), (2, 4, 1), (3, 5, 2), (5, 6, 3)):
        weights = oracle.edges(some.make(kind, depth, size, seed))
        sources = all_sources(weights)
        found, statistics = make().prepare(weights).solve(sources, np.arange(size), Execution(1))
        for source, layer in enumerate(sources.layers):
            for sink in range(size):
                expected = oracle.max_flow(weights, layer, source % size, sink)
                assert found[source, sink] == pytest.approx(expected, abs=1e-9)
        assert statistics["largest_gap"] < 1e-12
        ways = [statistics[way] for way in ("closed_form", "bound_met", "cut_found")]
        assert sum(ways) == statistics["pairs"] == found.size


@pytest.mark.parametrize("make", ON_GPU)
@pytest.mark.parametrize("columns_from", [cuda.COLUMNS_FROM, 3])
@pytest.mark.parametrize("kind", some.KINDS)
def test_larger_graphs_are_as_on_the_cpu(make, kind, columns_from, monkeypatch):
    """Sizes around a word of bits, and more entries than a block of a list has."""
    monkeypatch.setattr(cuda, "COLUMNS_FROM", columns_from)
    for depth, size, seed in ((4, 31, 1), (5, 33, 2), (8, 12, 3), (4, 70, 4)):
        weights = oracle.edges(some.make(kind, depth, size, seed))
        sources, sinks = all_sources(weights, step=17), np.arange(size)[::11]
        found, statistics = make().prepare(weights).solve(sources, sinks, Execution(1))
        expected, of_cpu = CpuSolver().prepare(weights).solve(sources, sinks, Execution(1))
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-12)
        assert statistics["largest_gap"] < 2e-12
        assert statistics["cut_found"] == of_cpu["cut_found"]


@every_solver
def test_a_batch_is_its_items(make):
    items = [oracle.edges(some.make(kind, 5, 9, 7)) for kind in ("peaked", "causal", "dense")]
    sources, sinks = [all_sources(item, step=4) for item in items], np.array([8, 0, 3])
    together = Sources(np.stack([each.edges for each in sources]), sources[0].layers)
    prepared = make().prepare(np.stack(items, axis=1))
    found, statistics = prepared.solve(together, sinks, Execution(1))
    for item, weights in enumerate(items):
        alone, _ = make().prepare(weights).solve(sources[item], sinks, Execution(1))
        np.testing.assert_array_equal(found[item], alone)
    assert statistics["pairs"] == found.size


@every_solver
def test_sinks_may_be_asked_for_twice(make, monkeypatch):
    weights = oracle.edges(some.make("peaked", 5, 9, 7))
    sources, sinks = all_sources(weights, step=4), np.array([8, 0, 3, 0, 8, 8])
    prepared = make().prepare(weights)
    expected, _ = prepared.solve(sources, np.arange(9), Execution(1))
    taken = []

    def recorded(network, bounds, sinks, *given, before=solver.solve_sinks):
        taken.extend(sinks.tolist())
        before(network, bounds, sinks, *given)

    monkeypatch.setattr(solver, "solve_sinks", recorded)
    for _ in range(3):
        found, _ = prepared.solve(sources, sinks, Execution(2))
        np.testing.assert_array_equal(found, expected[:, sinks])
    # On the CPU, threads share bounds: each sink is one thread's.
    assert sorted(taken) in ([], [0, 0, 0, 3, 3, 3, 8, 8, 8])


@needs_compiler
def test_lists_that_are_full_grow(monkeypatch):
    weights = oracle.edges(some.make("peaked", 5, 40, 2))
    sources, sinks = all_sources(weights, step=23), np.arange(0, 40, 9)
    expected, _ = CpuSolver().prepare(weights).solve(sources, sinks, Execution(1))
    monkeypatch.setattr(cuda, "usual_blocks", lambda depth, size: 1)
    gpu = Emulated()
    found, statistics = CudaSolver(gpu).prepare(weights).solve(sources, sinks, Execution(1))
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-12)
    assert gpu.launches["solve_pairs"] > 2
    assert statistics["pairs"] == found.size


@needs_compiler
def test_too_little_memory_means_fewer_pairs_at_a_time():
    weights = oracle.edges(some.make("dense", 5, 12, 2))
    sources, sinks = all_sources(weights, step=5), np.arange(12)
    expected, _ = CpuSolver().prepare(weights).solve(sources, sinks, Execution(1))
    gpu = Emulated(memory=60_000, warps=64)
    found, statistics = CudaSolver(gpu).prepare(weights).solve(sources, sinks, Execution(1))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert 1 <= statistics["threads"] < 64
    with pytest.raises(AttnflowError, match=r"too little free memory .* device='cpu'"):
        CudaSolver(Emulated(memory=2000)).prepare(weights).solve(sources, sinks, Execution(1))


@needs_compiler
def test_an_interrupt_stops_the_kernel_and_is_waited_for(monkeypatch):
    weights = oracle.edges(some.make("dense", 4, 8, 2))
    gpu = Emulated()
    flags, waits = [], []

    def interrupted(show):
        waits.append(flags[0][0])
        if len(waits) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(gpu, "wait", interrupted)
    monkeypatch.setattr(gpu, "stop_flag", lambda: flags.append(np.zeros(1, np.int32)) or flags[0])
    prepared = CudaSolver(gpu).prepare(weights)
    with pytest.raises(KeyboardInterrupt):
        prepared.solve(all_sources(weights), np.arange(8), Execution(1))
    assert waits == [0, 1]


@needs_compiler
def test_a_kernel_that_is_told_to_stop_takes_no_more_pairs(monkeypatch):
    weights = oracle.edges(some.make("dense", 4, 8, 2))
    gpu, made = Emulated(), []

    def interrupted(show):
        raise KeyboardInterrupt

    def upload(given, before=gpu.upload):
        made.append(before(given))
        return made[-1]

    monkeypatch.setattr(gpu, "stop_flag", lambda: np.ones(1, np.int32))
    monkeypatch.setattr(gpu, "wait", interrupted)
    monkeypatch.setattr(gpu, "upload", upload)
    with pytest.raises(KeyboardInterrupt):
        CudaSolver(gpu).prepare(weights).solve(all_sources(weights), np.arange(8), Execution(1))
    (proofs,) = (each for each in made if each.dtype == np.uint8 and each.ndim == 3)
    assert (proofs == cuda.UNFINISHED).all()


def test_texts_too_long_for_the_gpu_are_refused():
    with pytest.raises(InputError, match=f"up to {LARGEST} positions, not {LARGEST + 1}"):
        CudaSolver(Emulated()).prepare(np.empty((0, LARGEST + 1, LARGEST + 1)))


@pytest.mark.skipif(NO_GPU is None, reason="there is a GPU")
def test_without_a_gpu_cuda_is_refused_and_auto_is_the_cpu():
    with pytest.raises(MissingExtra, match=r"device='cuda' .*; device='cpu' works everywhere"):
        Execution(device="cuda")
    assert find_solver("auto", work=1e20).name == "cpu"


@pytest.mark.skipif(NO_GPU is not None, reason=str(NO_GPU))
def test_auto_takes_the_gpu_for_long_work_and_for_what_is_there():
    import torch

    assert find_solver("auto").name == "cpu"
    assert find_solver("auto", work=1e20).name == "cuda"
    assert find_solver("auto", torch.zeros(1, device="cuda")).name == "cuda"


@pytest.mark.parametrize("kind", some.KINDS)
def test_a_log_that_is_full_changes_no_value(kind, monkeypatch):
    """What no longer fits is searched for, and whole layers are reset after it."""
    weights = oracle.edges(some.make(kind, 5, 70, 4))
    sources, sinks = all_sources(weights, step=13), np.arange(70)[::9]
    expected, of_all = CpuSolver().prepare(weights).solve(sources, sinks, Execution(1))
    monkeypatch.setattr(solver, "make_network", partial(solver.make_network, logged=1))
    prepared = CpuSolver().prepare(weights)
    for _ in range(2):
        found, statistics = prepared.solve(sources, sinks, Execution(1))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        assert statistics["largest_gap"] < 1e-12
        assert statistics["cut_found"] == of_all["cut_found"]


@pytest.mark.parametrize("slots", [network.SLOTS, 4], ids=["wide", "grows"])
@pytest.mark.parametrize("kind", some.KINDS)
def test_residuals_in_a_table_are_those_of_all_edges(kind, slots, monkeypatch):
    weights = oracle.edges(some.make(kind, 5, 70, 4))
    sources, sinks = all_sources(weights, step=13), np.arange(70)[::9]
    expected, _ = CpuSolver().prepare(weights).solve(sources, sinks, Execution(1))
    monkeypatch.setattr(solver, "SLOTS", slots)
    monkeypatch.setattr(solver, "DENSE_BYTES", 0)
    prepared = CpuSolver().prepare(weights)
    for threads in (2, 1):
        found, statistics = prepared.solve(sources, sinks, Execution(threads))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        assert statistics["largest_gap"] < 1e-12
        ways = [statistics[way] for way in ("closed_form", "bound_met", "cut_found")]
        assert sum(ways) == statistics["pairs"] == found.size


def test_a_table_that_is_full_grows():
    weights = oracle.edges(some.make("peaked", 5, 60, 1))
    sources, sinks = all_sources(weights, step=7), np.arange(60)[::5]
    small = network.make_network(weights, slots=1024)
    values, gaps = np.zeros((2, len(sinks), len(sources.edges)))
    known, proofs, stop = np.zeros(values.shape, bool), np.zeros(3, int), np.zeros(1, np.uint8)
    bounds, results = make_bounds(5, 60, sinks=0), (values, gaps, known, proofs, stop)
    solve_sinks(small, bounds, sinks, source_arrays(sources), False, results)
    assert small.residuals.counts[1]
    assert not small.residuals.counts[0]
    assert 0 < known.sum() == proofs.sum() < known.size
    assert len(network.larger(small).residuals.left) == 2048


def test_texts_too_long_for_dense_layers_are_refused():
    with pytest.raises(InputError, match=f"up to {MOST_POSITIONS} positions, not 65537"):
        CpuSolver().prepare(np.empty((0, MOST_POSITIONS + 1, MOST_POSITIONS + 1)))


def test_kernels_are_compiled_once():
    """Whatever the shape: a batch's edges lie apart, and a diagonal of one position is a view."""
    few = oracle.edges(some.make("dense", 4, 3, 0))
    CpuSolver().prepare(few).solve(all_sources(few), np.arange(3), Execution(1))
    before = len(solve_sinks.signatures)
    one = np.ones((4, 1, 1))
    _, found = CpuSolver().prepare(one).solve(all_sources(one), np.arange(1), Execution(1))
    assert found["pairs"] == 4
    for size in (1, 3):
        items = np.stack([oracle.edges(some.make("dense", 4, size, seed)) for seed in (1, 2)], 1)
        sources = Sources(items[:, :, 0].swapaxes(0, 1), np.arange(1, 5))
        assert not sources.edges[0].flags.c_contiguous
        values, _ = CpuSolver().prepare(items).solve(sources, np.arange(size), Execution(1))
        expected = oracle.max_flow(items[:, 1], 4, 0, 0)
        assert values[1, 3, 0] == pytest.approx(expected, abs=1e-12)
    assert len(solve_sinks.signatures) == before
