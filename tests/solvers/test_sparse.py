"""Sparse layers: what they hold, and maximum flows through them, against the dense definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from attnflow.edges.corrections import correct_maps, first_seen
from attnflow.edges.graph import EdgeOptions, build_graph
from attnflow.records import Activations
from attnflow.records.sparse import SparseLayer, SparseLayers
from attnflow.solvers.cpu.solver import CpuSolver
from attnflow.solvers.cpu.sparse import bound_reach, make_network, max_flow
from attnflow.solvers.cpu.sparse import solve as solve_all
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import Sources


def solve(network, depth, source, sinks):
    size = len(sinks)
    bound_reach(network.poured, depth - 1, sinks, int(np.flatnonzero(sinks)[0]))
    order = np.random.default_rng(source).permutation(size).astype(np.int32)
    return max_flow(network, source, sinks, order)


def some_maps(seed, depth, size, filled, *, causal=False):
    """Rows that sum to 1, or hold nothing; many entries are 0, some of the diagonal, too."""
    random = np.random.default_rng(seed)
    maps = random.random((depth, size, size)) ** 3 * (random.random((depth, size, size)) < filled)
    maps = np.tril(maps) if causal else maps
    sums = maps.sum(-1, keepdims=True)
    return np.divide(maps, sums, out=np.zeros_like(maps), where=sums > 0)


cases = given(
    seed=st.integers(0, 2**32 - 1),
    depth=st.integers(1, 5),
    size=st.integers(1, 7),
    filled=st.sampled_from([0.1, 0.3, 0.6, 1.0]),
)


@cases
@settings(max_examples=60, deadline=None)
def test_flow_is_the_maximum_and_its_cut_proves_it(seed, depth, size, filled):
    maps = some_maps(seed, depth, size, filled)
    network = make_network(SparseLayers(tuple(map(SparseLayer.of, maps))))
    for layer in {1, depth}:
        for key in range(size):
            sinks = np.arange(size) == key
            for query in range(size):
                value, cut = solve(network, depth, layer * size + query, sinks)
                expected = oracle.max_flow(maps, layer, query, key)
                assert value == pytest.approx(expected, abs=1e-12)
                assert cut == pytest.approx(value, abs=1e-12)
    assert not network.poured.flow.any()
    assert (network.poured.first == -1).all()


def test_flow_of_many_edges_is_that_of_the_dense_solver():
    maps = some_maps(7, 6, 60, 0.25)
    edges = build_graph(Activations(tuple(maps)), EdgeOptions()).weights
    network = make_network(SparseLayers(tuple(map(SparseLayer.of, edges))))
    sources = Sources(edges[-1], np.full(60, 6))
    expected, _ = CpuSolver().prepare(edges).solve(sources, np.arange(60), Execution(threads=1))
    found = [
        [solve(network, 6, 6 * 60 + query, np.arange(60) == key)[0] for key in range(60)]
        for query in range(60)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_flow_to_several_positions_is_that_to_one_that_joins_them():
    maps = some_maps(3, 4, 9, 0.4)
    network = make_network(SparseLayers(tuple(map(SparseLayer.of, maps))))
    group = [1, 4, 5]
    joined = maps.copy()
    joined[0, :, 1] = maps[0][:, group].sum(-1)
    sinks = np.isin(np.arange(9), group)
    for query in range(9):
        expected = oracle.max_flow(joined, 4, query, 1)
        assert solve(network, 4, 4 * 9 + query, sinks)[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_share_the_sinks(threads):
    maps = some_maps(5, 5, 12, 0.4)
    layers = SparseLayers(tuple(map(SparseLayer.of, maps)))
    sources, groups = [(5, 3), (2, 11), (1, 0)], [(0,), (4, 7), (11,), (2, 3, 5)]
    values, statistics = solve_all(layers, sources, groups, Execution(threads=threads))
    assert statistics["threads"] == min(threads, len(groups))
    assert statistics["largest_gap"] < 1e-12
    for row, (layer, query) in enumerate(sources):
        for column, group in enumerate(groups):
            joined = maps.copy()
            joined[0, :, group[0]] = maps[0][:, list(group)].sum(-1)
            expected = oracle.max_flow(joined, layer, query, group[0])
            assert values[row, column] == pytest.approx(expected, abs=1e-12)


@cases
@settings(max_examples=40, deadline=None)
def test_a_layer_holds_what_it_was_made_of(seed, depth, size, filled):
    for dense in some_maps(seed, depth, size, filled):
        layer = SparseLayer.of(dense)
        np.testing.assert_array_equal(np.asarray(layer), dense)
        np.testing.assert_allclose(layer.sums, dense.sum(-1), atol=1e-15)
        np.testing.assert_array_equal(layer.rows(range(size)), dense)
        assert layer.sees_ahead == np.triu(dense, 1).any()
        assert len(layer.values) == np.count_nonzero(dense)
        amounts = np.arange(size) / 3.0
        more = np.asarray(layer.plus_diagonal(amounts))
        np.testing.assert_allclose(more, dense + np.diag(amounts), atol=1e-15)


@pytest.mark.parametrize("correction", [None, "sink"])
@pytest.mark.parametrize("residual", [0.0, 0.5])
@cases
@settings(max_examples=15, deadline=None)
def test_edges_are_those_of_dense_maps(correction, residual, seed, depth, size, filled):
    maps = some_maps(seed, depth, size, filled, causal=True)
    options = EdgeOptions(residual=residual, correction=correction)
    dense = build_graph(Activations(tuple(maps)), options, keep_maps=True)
    layers = tuple(map(SparseLayer.of, maps))
    sparse = build_graph(Activations(layers), options, keep_maps=True)
    np.testing.assert_allclose(np.asarray(sparse.weights), dense.weights, atol=1e-14)
    np.testing.assert_allclose(np.asarray(sparse.maps), dense.maps, atol=1e-14)
    corrected = np.stack(correct_maps(maps, correction))
    np.testing.assert_allclose(np.asarray(sparse.maps), corrected, atol=1e-14)


def test_what_is_seen_begins_where_a_later_position_still_reads():
    size, window = 9, 3
    band = np.tril(np.triu(np.ones((size, size)), -window + 1))
    chunks = np.kron(np.eye(3), np.tril(np.ones((3, 3))))
    full = np.tril(np.ones((size, size)))
    hole = full.copy()
    hole[4, :2] = 0  # by rounding
    for maps, expected in (
        (band, [0, 0, 0, 1, 2, 3, 4, 5, 6]),
        (chunks, [0, 0, 0, 3, 3, 3, 6, 6, 6]),
        (full, [0] * 9),
        (hole, [0] * 9),
    ):
        assert first_seen(maps).tolist() == expected
        assert (
            first_seen(np.stack([maps, band])).tolist()
            == np.minimum(expected, first_seen(band)).tolist()
        )
        assert first_seen(SparseLayer.of(maps)).tolist() == expected
