"""A flow that fails its proof is an error in every solver, and never a number."""

from functools import partial

import numpy as np
import pytest
import torch

import attention as some
import attnflow
import oracle
from attnflow.errors import AttnflowError, CertificateError, InputError
from attnflow.methods import through
from attnflow.records.sparse import SparseLayer, SparseLayers
from attnflow.solvers import spreading
from attnflow.solvers.cpu import general, pair, solver, sparse
from attnflow.solvers.cpu.solver import CpuSolver
from attnflow.solvers.cuda import solver as cuda
from attnflow.solvers.cuda.solver import CudaSolver
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import Sources, check_gaps
from emulated import Emulated, available

SIZE, DEPTH = 9, 5
WEIGHTS = oracle.edges(some.make("peaked", DEPTH, SIZE, 4))
SOURCES = Sources(WEIGHTS[-1], np.full(SIZE, DEPTH))
SINKS = np.arange(SIZE)
TOO_LARGE = 1e-8
failed = partial(pytest.raises, CertificateError, match="a maximum flow failed its proof")


@pytest.mark.parametrize(
    ("supply", "allowed"), [(1.0, 1e-9), (1e6, 1e-3), (1e-5, 2e-12), (1e-8, 1e-14), (0.0, 0.0)]
)
def test_a_gap_is_judged_by_what_the_source_can_send(supply, allowed):
    others = np.zeros((2, 3))
    for sign in (1, -1):
        gaps = others.copy()
        gaps[1, 2] = sign * 0.99 * allowed
        supplies = np.array([2.0, 2.0, supply])
        assert check_gaps(gaps, supplies) == 0.99 * allowed
        gaps[1, 2] = sign * (1.01 * allowed + 1e-300)
        with failed():
            check_gaps(gaps, supplies)


@pytest.mark.parametrize("gap", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_proves_nothing(gap):
    with failed(match=f"it is {abs(gap)} from"):
        check_gaps(np.array([0.0, gap, 1e-16]), 1.0)


def test_nothing_has_no_gap():
    assert check_gaps(np.zeros(0), 1.0) == 0.0


def test_the_error_says_how_far_and_how_far_is_allowed():
    with pytest.raises(CertificateError) as caught:
        check_gaps(np.array([1e-7, -0.25]), np.array([1.0, 0.5]))
    caught.match(r"it is 0.25 from the bound or cut .* \(allowed: 5e-10, .* edges sum to 0.5\)")
    caught.match("please report this input")
    assert isinstance(caught.value, AttnflowError)
    assert not isinstance(caught.value, InputError)  # no argument is to blame


def changed_results(change, before):
    """`solve_sinks` with its results changed: values, gaps, known, proofs, stop."""

    def solve_sinks(*given):
        before(*given)
        change(*given[-1])

    return solve_sinks


def one_gap(values, gaps, *_):
    gaps[-1, 0] = TOO_LARGE


def less_than_none(values, gaps, *_):
    gaps[0, -1] = -TOO_LARGE


@pytest.mark.parametrize("change", [one_gap, less_than_none])
@pytest.mark.parametrize("threads", [1, 2])
def test_dense(change, threads, monkeypatch):
    prepared = CpuSolver().prepare(WEIGHTS)
    expected, _ = prepared.solve(SOURCES, SINKS, Execution(threads))
    monkeypatch.setattr(solver, "solve_sinks", changed_results(change, solver.solve_sinks))
    with failed():
        prepared.solve(SOURCES, SINKS, Execution(threads))
    with failed():
        attnflow.flow(some.make("peaked", DEPTH, SIZE, 4), threads=threads)
    monkeypatch.undo()
    found, _ = prepared.solve(SOURCES, SINKS, Execution(threads))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_a_pair_that_was_never_solved_is_an_error_and_not_zero(batched, monkeypatch):
    before = solver.solve_sinks

    def solve_all_but_one(network, bounds, sinks, *given):
        values, gaps, known, proofs, stop = given[-1]
        results = values[:-1], gaps[:-1], known[:-1], proofs, stop
        before(network, bounds, sinks[:-1], *given[:-1], results)

    monkeypatch.setattr(solver, "solve_sinks", solve_all_but_one)
    weights, edges = WEIGHTS, SOURCES.edges
    if batched:
        weights, edges = np.stack([WEIGHTS] * 2, 1), np.stack([edges] * 2)
    with failed(match="it is inf"):
        CpuSolver().prepare(weights).solve(Sources(edges, SOURCES.layers), SINKS, Execution(1))


def test_batches(monkeypatch):
    items = np.stack([WEIGHTS, WEIGHTS[::-1]], axis=1)
    sources = Sources(items[-1], SOURCES.layers)
    CpuSolver().prepare(items).solve(sources, SINKS, Execution(2))
    monkeypatch.setattr(solver, "solve_sinks", changed_results(one_gap, solver.solve_sinks))
    with failed():
        CpuSolver().prepare(items).solve(sources, SINKS, Execution(2))


def test_each_item_of_a_batch_has_its_own_scale(monkeypatch):
    """What is rounding for large capacities is none for small ones, whatever is beside them."""
    items = np.stack([WEIGHTS, 1e6 * WEIGHTS], axis=1)
    sources = Sources(items[-1], SOURCES.layers)
    prepared = CpuSolver().prepare(items)
    found, _ = prepared.solve(sources, SINKS, Execution(1))
    np.testing.assert_allclose(found[1], 1e6 * found[0], rtol=1e-9)
    before = solver.solve_sinks

    def changed(which):
        def solve_sinks(network, *given):
            before(network, *given)
            large = network.capacity.max() > 2
            given[-1][1][0, 0] = 1e-4 if large == (which == "large") else 0.0

        return solve_sinks

    monkeypatch.setattr(solver, "solve_sinks", changed("large"))
    prepared.solve(sources, SINKS, Execution(1))
    monkeypatch.setattr(solver, "solve_sinks", changed("small"))
    with failed():
        prepared.solve(sources, SINKS, Execution(1))


@pytest.mark.parametrize("off", [TOO_LARGE, -TOO_LARGE])
def test_sparse(off, monkeypatch):
    layers = SparseLayers(tuple(map(SparseLayer.of, WEIGHTS)))
    asked = (layers, [(DEPTH, 0), (2, 3)], [(1,), (4, 5)], Execution(2))
    sparse.solve(*asked)
    before = sparse.max_flow

    def max_flow(network, source, *given):
        value, bound = before(network, source, *given)
        return value, bound + off * (source == 2 * SIZE + 3)

    monkeypatch.setattr(sparse, "max_flow", max_flow)
    with failed():
        sparse.solve(*asked)


def test_spreading(monkeypatch):
    """Where a flow is larger than what should bound it, neither is right."""
    weights = oracle.edges(some.make("dense", 20, 30, 1))
    tensors = (torch.from_numpy(weights[:-1]), torch.from_numpy(weights[-1, 7].copy()))
    asked = {"causal": False, "effort": spreading.Effort(12)}
    _, gaps = spreading.spread(*tensors, np.arange(30), **asked)
    assert np.isfinite(gaps).any()
    before = spreading.new_pairs

    def new_pairs(*given):
        pairs = before(*given)
        return pairs._replace(bound=pairs.bound - TOO_LARGE)

    monkeypatch.setattr(spreading, "new_pairs", new_pairs)
    with failed():
        spreading.spread(*tensors, np.arange(30), **asked)


def test_spreading_within_the_dense_solver(monkeypatch):
    monkeypatch.setattr(solver, "LEAST_SIZE", 8)
    weights = oracle.edges(some.make("dense", 17, 9, 3))
    sources = Sources(weights[-1, 8:], np.array([17]))

    def spread(below, edges, sinks, **_):
        return np.full(len(sinks), 0.5), np.where(sinks == 4, TOO_LARGE, 0.0)

    monkeypatch.setattr(spreading, "spread", spread)
    with failed():
        CpuSolver().prepare(weights).solve(sources, np.arange(9), Execution(1))


@pytest.mark.skipif(not available(), reason="needs g++")
@pytest.mark.parametrize("what", ["gap", "unsolved"])
def test_cuda(what, monkeypatch):
    gpu, made = Emulated(), []
    asked = (SOURCES, SINKS, Execution(1))
    CudaSolver(gpu).prepare(WEIGHTS).solve(*asked)

    def empty(shape, kind, before=gpu.empty):
        made.append(before(shape, kind))
        return made[-1]

    def launch(name, *given, before=gpu.launch, **options):
        if name != "solve_pairs":
            before(name, *given, **options)
        elif what == "gap":
            before(name, *given, **options)
            _, gaps = (
                each for each in made if each.shape == (1, SIZE, SIZE) and each.dtype == float
            )
            gaps[0, 3, 2] += TOO_LARGE

    monkeypatch.setattr(gpu, "empty", empty)
    monkeypatch.setattr(gpu, "launch", launch)
    said = {"gap": "a maximum flow failed its proof", "unsolved": "did not finish a pair"}[what]
    with pytest.raises(CertificateError, match=said):
        CudaSolver(gpu).prepare(WEIGHTS).solve(*asked)


@pytest.mark.skipif(not available(), reason="needs g++")
def test_spreading_on_a_gpu(monkeypatch):
    monkeypatch.setattr(cuda, "LEAST_SIZE", 8)
    weights = oracle.edges(some.make("dense", 17, 9, 3))
    sources = Sources(weights[-1, 8:], np.array([17]))

    def spread(below, edges, sinks, **_):
        return np.full(len(sinks), 0.5), np.where(sinks == 4, -TOO_LARGE, 0.0)

    monkeypatch.setattr(cuda, "spread", spread)
    with failed():
        CudaSolver(Emulated()).prepare(weights).solve(sources, np.arange(9), Execution(1))


ATTENTION = some.make("peaked", DEPTH, SIZE, 4)


def stopped_early(before):
    """No search, and so no cut that belongs to the flow."""
    return lambda *given: False


def wrong_edge(before, by):
    def take_back(flow, *given):
        flow[2, 3, 4] += by
        return before(flow, *given)

    return take_back


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("measure", stopped_early),
        ("_take_back", partial(wrong_edge, by=TOO_LARGE)),  # out of balance at both its ends
        ("_take_back", partial(wrong_edge, by=2.0)),
    ],
)
def test_one_pair_in_full(name, change, monkeypatch):
    attnflow.trace(ATTENTION, query=2, key=6)
    monkeypatch.setattr(pair, name, change(getattr(pair, name)))
    with failed():
        attnflow.trace(ATTENTION, query=2, key=6)


def test_edges_that_carry_more_than_their_capacity_are_no_flow():
    """A circulation through nodes keeps them in balance, and the cut as it was."""
    found = CpuSolver().prepare(WEIGHTS).solve_pair(WEIGHTS[-1, 2], DEPTH, 2, 6)
    pair.check_flow(found.flow, found.capacity, 0.0)
    more = found.flow.copy()
    more[2, 0, [3, 4]] += [1.0, -1.0]
    more[1, [3, 4], 5] += [1.0, -1.0]
    with failed():
        pair.check_flow(more, found.capacity, 0.0)


def test_flow_through_an_answer(monkeypatch):
    weights = np.tril(WEIGHTS) / np.tril(WEIGHTS).sum(-1, keepdims=True)
    asked = (weights, DEPTH, (6, 7), ((0,), (1, 2)))
    through.flow_through(*asked)
    before = general.max_flow

    def max_flow(*given):
        value, cut = before(*given)
        return value, cut - TOO_LARGE

    monkeypatch.setattr(general, "max_flow", max_flow)
    with failed():
        through.flow_through(*asked)


@pytest.mark.parametrize("scale", [1e9, 1e3, 1e-3, 1e-6])
@pytest.mark.parametrize("kind", ["peaked", "near_zero", "causal"])
def test_flows_of_any_scale_are_proven(kind, scale):
    weights = oracle.edges(some.make(kind, 6, 40, 3))
    sources = Sources(weights[-1, ::7], np.full(6, 6))
    expected, _ = CpuSolver().prepare(weights).solve(sources, np.arange(40), Execution(1))
    scaled = Sources(scale * sources.edges, sources.layers)
    found, _ = CpuSolver().prepare(scale * weights).solve(scaled, np.arange(40), Execution(1))
    np.testing.assert_allclose(found / scale, expected, rtol=0, atol=1e-6)
    one = CpuSolver().prepare(scale * weights).solve_pair(scaled.edges[1], 6, 7, 5)
    assert one.value / scale == pytest.approx(expected[1, 5], abs=1e-6)


@pytest.mark.parametrize("kind", ["peaked", "near_zero"])
def test_flows_too_small_to_be_computed_are_refused(kind):
    """Capacities of 1e-12 are what a search takes for rounding: values would be off by a half."""
    weights = 1e-12 * oracle.edges(some.make(kind, 6, 40, 3))
    with failed(match="sum to 1e-12"):
        sources = Sources(weights[-1], np.full(40, 6))
        CpuSolver().prepare(weights).solve(sources, np.arange(40), Execution(1))
