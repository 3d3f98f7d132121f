"""Flow on relevance: every value against explicit graphs and all cuts, every part of a proof."""

import time
from collections.abc import Sequence
from contextlib import contextmanager

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import temporal_oracle as oracle
from attnflow.errors import CertificateError, InputError
from attnflow.records.sparse import SparseLayer, SparseLayers
from attnflow.solvers import temporal
from attnflow.solvers.cpu.temporal import flow, network, solver
from attnflow.solvers.execution import Execution

KINDS = ("dense", "sparse", "heavy", "tied", "nothing", "causal", "single")


def some_capacities(rng, kind, depth, size):
    shape = (depth, size, size)
    made = rng.random(shape)
    if kind == "sparse":
        made *= rng.random(shape) < 0.3
    elif kind == "heavy":  # twelve orders of magnitude
        made = np.exp(rng.normal(0, 5, shape))
    elif kind == "tied":
        made = rng.integers(0, 3, shape).astype(float)
    elif kind == "nothing":
        made *= rng.random(shape) < 0.05
    elif kind == "causal":
        made = np.tril(made) * (rng.random(shape) < 0.6)
    elif kind == "single":
        made = np.maximum(rng.normal(size=shape), 0).astype(np.float32)
    return made


@st.composite
def cases(draw, most=6, deepest=5, kinds=KINDS):
    """Capacities, stations, and sets of sources and sinks that share no position."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(kinds))
    size, depth = draw(st.integers(2, most)), draw(st.integers(1, deepest))
    capacities = some_capacities(rng, kind, depth, size)
    stations = some_capacities(rng, kind, depth, size)[1:, 0] * draw(st.sampled_from([0.5, 2.0]))
    order = rng.permutation(size)
    first = draw(st.integers(1, size - 1))
    last = draw(st.integers(first + 1, size))
    return capacities, sorted(order[:first]), sorted(order[first:last]), stations


def as_integers(array):
    """Exactly the same numbers times 2¹⁰⁰, as Python's integers, which do not round."""
    scaled = [int(each * 2.0**100) for each in np.asarray(array, float).ravel()]
    return np.array(scaled, object).reshape(np.shape(array))


@given(cases())
@settings(max_examples=150, deadline=None)
def test_flow_is_that_of_the_explicit_graph_in_exact_arithmetic(case):
    capacities, sources, sinks, stations = case
    for limits in (None, stations):
        exact = None if limits is None else as_integers(limits)
        expected = oracle.max_flow(as_integers(capacities), sources, sinks, exact) / 2**100
        found = temporal.solve(capacities, sources, [sinks], limits)
        assert found.values[0] == pytest.approx(expected, rel=1e-12)
        assert found.upper[0] == pytest.approx(expected, rel=1e-12)


@given(cases(kinds=("tied",)))
@settings(max_examples=60, deadline=None)
def test_flow_of_small_integers_is_scipys(case):
    capacities, sources, sinks, stations = case
    stations = np.round(stations)
    for limits in (None, stations):
        given_limits = None if limits is None else limits.astype(int)
        expected = oracle.scipy_max_flow(capacities.astype(int), sources, sinks, given_limits)
        assert temporal.solve(capacities, sources, [sinks], limits).values[0] == expected


@given(cases(most=5, deepest=3))
@settings(max_examples=100, deadline=None)
def test_flow_is_the_smallest_of_all_cuts(case):
    capacities, sources, sinks, _ = case
    smallest = min(total for _, total in oracle.cuts(capacities, sources, sinks))
    for side in ("sink", "source"):
        found = temporal.solve_one(capacities, sources, sinks, cut_near=side)
        assert found.value == pytest.approx(smallest, rel=1e-12)
        assert found.cut.amounts.sum() == pytest.approx(smallest, rel=1e-12)


@given(cases(most=3, deepest=3))
@settings(max_examples=40, deadline=None)
def test_flow_with_stations_is_the_smallest_of_all_cuts(case):
    capacities, sources, sinks, stations = case
    smallest = oracle.smallest_cut_with_stations(capacities, sources, sinks, stations)
    for side in ("sink", "source"):
        found = temporal.solve_one(capacities, sources, sinks, stations, cut_near=side)
        assert found.value == pytest.approx(smallest, rel=1e-12)
        total = found.cut.amounts.sum() + found.cut_stations.amounts.sum()
        assert total == pytest.approx(smallest, rel=1e-12)


@given(cases(most=5, deepest=3, kinds=("tied",)))
@settings(max_examples=100, deadline=None)
def test_of_all_minimum_cuts_it_is_the_one_nearest_to_either_end(case):
    capacities, sources, sinks, _ = case
    every = list(oracle.cuts(capacities, sources, sinks))
    smallest = min(total for _, total in every)
    best = [first for first, total in every if total == smallest]
    for side, extreme in (("sink", np.max(best, axis=0)), ("source", np.min(best, axis=0))):
        found = temporal.solve_one(capacities, sources, sinks, cut_near=side).carries_from
        expected = oracle.only_what_leads_to_sinks(capacities, sources, extreme)
        np.testing.assert_array_equal(found, expected)


@given(cases())
@settings(max_examples=100, deadline=None)
def test_a_flow_in_full_is_a_flow_and_its_cut_separates(case):
    capacities, sources, sinks, stations = case
    depth, size, _ = capacities.shape
    for limits in (None, stations):
        found = temporal.solve_one(capacities, sources, sinks, limits)
        value = found.value
        flow = found.edges.dense(depth, size)
        assert (found.edges.amounts > 0).all()
        off = ~np.eye(size, dtype=bool)
        assert (flow <= capacities * (1 + 1e-12))[:, off].all()
        passed = flow.sum(2)[:-1], flow.sum(1)[1:]  # out of and into the layers between
        np.testing.assert_allclose(*passed, atol=1e-12 * value)
        if limits is not None:
            assert (passed[0] <= limits * (1 + 1e-12)).all()
        assert flow[-1][sources].sum() == pytest.approx(value) == flow[0][:, sinks].sum()
        assert flow[-1].sum() == pytest.approx(value) == flow[0].sum()
        graph = oracle.explicit_graph(capacities, sources, sinks, limits)
        for layer, i, j, amount in zip(*found.cut, strict=True):
            assert amount == capacities[layer - 1, i, j] > 0
            graph.remove_edge((layer, i, "out"), (layer - 1, j, "in"))
        for layer, i, amount in zip(*found.cut_stations, strict=True):
            assert amount == limits[layer - 1, i] > 0
            graph.remove_edge((layer, i, "in"), (layer, i, "out"))
        graph.remove_edges_from([(a, b) for a, b, c in graph.edges.data("capacity") if c == 0])
        assert not nx.has_path(graph, "source", "sink")
        total = found.cut.amounts.sum() + found.cut_stations.amounts.sum()
        assert total == pytest.approx(value, rel=1e-12)
        assert found.gap <= 1e-12 * value


@given(cases())
@settings(max_examples=60, deadline=None)
def test_routes_add_up_to_the_flow_the_widest_first(case):
    capacities, sources, sinks, stations = case
    depth, size, _ = capacities.shape
    for limits in (None, stations):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(solver, "MOST_ROUTES", 10_000)
            found = temporal.solve_one(capacities, sources, sinks, limits)
            patch.setattr(solver, "MOST_ROUTES", 2)
            again = temporal.solve_one(capacities, sources, sinks, limits)
        assert again.routes == found.routes[:2]
        amounts = [amount for _, amount in found.routes]
        assert amounts == sorted(amounts, reverse=True)
        assert found.routed == pytest.approx(found.value, rel=1e-9)
        flow = np.zeros((depth, size, size))
        for path, amount in found.routes:
            assert len(path) == depth + 1
            assert path[0] in sources
            assert path[-1] in sinks
            for step in range(depth):
                flow[depth - 1 - step, path[step], path[step + 1]] += amount
        expected = found.edges.dense(depth, size)
        np.testing.assert_allclose(flow, expected, atol=1e-9 * found.value)


@given(cases())
@settings(max_examples=60, deadline=None)
def test_the_cut_of_free_columns_is_one_layer_for_each_position(case):
    capacities, sources, sinks, _ = case
    reached = oracle.reached(capacities, sources)
    for side in ("sink", "source"):
        found = temporal.solve_one(capacities, sources, sinks, cut_near=side)
        first = found.carries_from
        assert (first[sinks] == 0).all()
        assert (first[sources] == len(capacities) + 1).all()
        expected = {
            (layer + 1, i, j)
            for (layer, i, j), capacity in np.ndenumerate(capacities)
            if i != j and capacity > 0 and reached[layer + 1, i] and first[j] < layer + 1 < first[i]
        }
        assert set(zip(*map(np.ndarray.tolist, found.cut[:3]), strict=True)) == expected


@given(cases(), st.floats(1e-20, 1e20))
@settings(max_examples=60, deadline=None)
def test_flow_scales_and_grows_with_capacities(case, factor):
    capacities, sources, sinks, stations = case
    for limits in (None, stations):
        value = temporal.solve(capacities, sources, [sinks], limits).values[0]
        scaled = None if limits is None else limits.astype(float) * factor
        found = temporal.solve(capacities.astype(float) * factor, sources, [sinks], scaled)
        assert found.values[0] == pytest.approx(value * factor, rel=1e-12)
        larger = capacities + np.flip(capacities, 1)
        grown = temporal.solve(larger, sources, [sinks], limits).values[0]
        assert grown >= value * (1 - 1e-12)
        if limits is not None:
            free = temporal.solve(capacities, sources, [sinks]).values[0]
            assert value <= free * (1 + 1e-12)


@given(cases())
@settings(max_examples=60, deadline=None)
def test_flow_to_a_union_is_between_the_largest_part_and_the_sum(case):
    capacities, sources, sinks, stations = case
    for limits in (None, stations):
        values = temporal.solve(capacities, sources, [sinks, *sinks], limits).values
        assert max(values[1:]) <= values[0] * (1 + 1e-12)
        assert values[0] <= sum(values[1:]) * (1 + 1e-12)
        fewer = temporal.solve(capacities, sources[:1], [sinks], limits).values[0]
        assert fewer <= values[0] * (1 + 1e-12)


@given(cases())
@settings(max_examples=60, deadline=None)
def test_flow_is_the_same_upside_down_and_with_positions_renamed(case):
    capacities, sources, sinks, stations = case
    order = np.random.default_rng(0).permutation(capacities.shape[1])
    place = np.argsort(order)
    for limits in (None, stations):
        value = temporal.solve(capacities, sources, [sinks], limits).values[0]
        turned = None if limits is None else limits[::-1]
        upside_down = capacities[::-1].transpose(0, 2, 1)
        assert temporal.solve(upside_down, sinks, [sources], turned).values[0] == pytest.approx(
            value, rel=1e-12
        )
        renamed = capacities[:, order][:, :, order]
        moved = None if limits is None else limits[:, order]
        found = temporal.solve(renamed, place[sources], [place[sinks]], moved)
        assert found.values[0] == pytest.approx(value, rel=1e-12)


def large_case(seed=0, depth=6, size=120):
    """As relevance is: a few large edges, many small ones, and the sources read the most."""
    rng = np.random.default_rng(seed)
    relevance = rng.normal(size=(depth, size, size)) * np.exp(rng.normal(0, 2, (depth, 1, size)))
    relevance[:, :2] *= 30
    stations = np.maximum(np.exp(rng.normal(0, 2, (depth - 1, size))) * 20, 0)
    return np.maximum(relevance, 0).astype(np.float32), stations


@pytest.mark.parametrize("limited", [False, True])
def test_threads_arrays_and_single_sinks_agree(limited, monkeypatch):
    capacities, stations = large_case()
    limits = stations if limited else None
    sinks = [*range(2, 120), range(5, 40)]
    expected = temporal.solve(capacities, [0, 1], sinks, limits, execution=Execution(threads=1))
    assert expected.statistics["threads"] == 1
    assert expected.statistics["largest_gap"] <= 1e-12
    layers = [SparseLayer.of(each) for each in capacities]
    same = {
        "threads": (capacities, limits, Execution(threads=2)),
        "float64": (capacities.astype(float), limits, None),
        "torch": (
            torch.tensor(capacities),
            limits if limits is None else torch.tensor(limits),
            None,
        ),
        "sparse": (SparseLayers(tuple(layers)), limits, None),
        "scipy": ([csr_array(each) for each in capacities], limits, None),
        "mixed": ([layers[0], *capacities[1:]], limits, None),
    }
    for name, (given_capacities, given_limits, execution) in same.items():
        found = temporal.solve(given_capacities, [0, 1], sinks, given_limits, execution=execution)
        assert np.array_equal(found.values, expected.values), name
    for number in (0, 50, 118):
        one = temporal.solve_one(capacities, {1, 0}, sinks[number], limits)
        assert one.value == expected.values[number]
    monkeypatch.setattr(solver, "WORTH_THREADS", np.inf)
    assert np.array_equal(temporal.solve(capacities, [0, 1], sinks, limits).values, expected.values)


@pytest.mark.parametrize("limited", [False, True])
def test_flow_of_large_graphs_is_scipys(limited):
    capacities, stations = (np.floor(each * 100) for each in large_case(seed=1, size=60))
    limits = stations if limited else None
    sinks = [2, 17, 59, [3, 4, 5], range(20, 50)]
    found = temporal.solve(capacities, [0, 1], sinks, limits).values
    whole = None if limits is None else limits.astype(int)
    for value, sink in zip(found, sinks, strict=True):
        sink = [sink] if isinstance(sink, int) else sink
        assert value == oracle.scipy_max_flow(capacities.astype(int), [0, 1], sink, whole)


def test_entries_from_a_position_to_itself_are_ignored():
    capacities, _ = large_case(size=20)
    value = temporal.solve(capacities, 0, [7]).values
    capacities[:, np.arange(20), np.arange(20)] = -3
    assert np.array_equal(temporal.solve(capacities, 0, [7]).values, value)
    layers = [SparseLayer.of(each) for each in capacities]
    assert np.array_equal(temporal.solve(layers, 0, [7]).values, value)


def test_a_source_among_the_sinks_is_infinite_unless_stations_limit_it():
    capacities, stations = large_case(size=20)
    found = temporal.solve(capacities, [0, 3], [2, [3, 4], 0])
    assert np.isfinite(found.values[0])
    assert (found.values[1:] == np.inf).all()
    assert (found.upper[1:] == np.inf).all()
    with pytest.raises(InputError, match=r"sink=\[3, 4\] holds a source.*stations"):
        temporal.solve_one(capacities, [0, 3], [3, 4])
    limited = temporal.solve(capacities, [0, 3], [[3, 4]], stations)
    expected = (
        oracle.max_flow(as_integers(capacities), [0, 3], [3, 4], as_integers(stations)) / 2**100
    )
    assert limited.values[0] == pytest.approx(expected, rel=1e-12)
    one = temporal.solve_one(capacities, [0, 3], [3, 4], stations)
    assert one.value == limited.values[0]
    # With a single layer there is no station on the way.
    assert temporal.solve(capacities[:1], 0, [0], stations[:0]).values[0] == np.inf


def test_a_flow_that_fails_its_proof_is_not_returned(monkeypatch):
    capacities, _ = large_case(size=20)

    def wrong(network, state, ends, sinks, found, stop):
        found[:] = [1.0, 1.0 + 1e-8, 0.0, 0.0]

    monkeypatch.setattr(solver, "_solve_part", wrong)
    with pytest.raises(CertificateError, match="5 of 5 maximum flows failed their proof"):
        temporal.solve(capacities, 0, range(1, 6))
    for bad in ([1.0, 1.0, 1e-8, 0.0], [np.nan, 1.0, 0.0, 0.0], [0.0, np.nan, 0.0, 0.0]):
        with pytest.raises(CertificateError):
            solver.check(np.array([[2.0, 2.0, 0.0, 0.0], bad]))


def test_an_interrupt_ends_all_threads_and_leaves_the_network_as_it_was(monkeypatch):
    capacities, _ = large_case()
    prepared = temporal.prepare(capacities, 0)
    expected = prepared.solve(range(1, 120)).values
    ended = []

    def part(network, state, ends, sinks, found, stop):
        while not stop[0]:  # as a long search: it ends when it is told to
            time.sleep(0.001)
        ended.append(found)

    @contextmanager
    def bar(*_, **__):
        def show(done):
            raise KeyboardInterrupt

        yield show

    monkeypatch.setattr(solver, "_solve_part", part)
    monkeypatch.setattr(solver, "progress_bar", bar)
    with pytest.raises(KeyboardInterrupt):
        prepared.solve(range(1, 120), Execution(threads=2))
    assert len(ended) == 2
    monkeypatch.undo()
    assert np.array_equal(prepared.solve(range(1, 120)).values, expected)


def test_searches_get_longer_until_they_prove_the_flow():
    capacities, _ = large_case(seed=2, size=40)
    capacities[:, 0] /= 30  # the source is as weak as others, so that much is handed back
    prepared = temporal.prepare(capacities, 0)
    graph, state = prepared._network, flow.make_state(prepared._network)
    flow._open_sinks(graph, state, prepared._nodes(np.array([7, 8, 9])))
    flow._supply_directly(graph, state)
    flow._pull(graph, state)
    flow._let_wait(graph, state)
    distances = []
    while flow._measure(graph, state):
        distances.append(int(state.counts[flow.NEAREST]))
        flow._send(graph, state)
    assert len(distances) > 2
    assert distances == sorted(set(distances))


def test_kernels_stop_when_told_to():
    capacities, _ = large_case()
    prepared = temporal.prepare(capacities, 0)
    nodes = np.concatenate([prepared._nodes(np.array([each])) for each in (3, 4, 5)])
    sinks, found = solver.Sinks(np.arange(4) * 6, nodes), np.full((3, 4), np.nan)
    state, stop = solver.make_state(prepared._network), np.ones(1, np.uint8)
    solver._solve_part(prepared._network, state, prepared._ends, sinks, found, stop)
    assert np.isnan(found).all()


@given(cases(most=8), st.floats(0, 0.9))
@settings(max_examples=150, deadline=None)
def test_without_the_smallest_edges_the_exact_value_is_within_the_bounds(case, share):
    capacities, sources, sinks, stations = case
    off = capacities * ~np.eye(capacities.shape[1], dtype=bool)
    tolerance = share * float(off.sum())
    for limits in (None, stations):
        exact = temporal.solve(capacities, sources, [sinks], limits).values[0]
        prepared = temporal.prepare(capacities, sources, limits, tolerance=tolerance)
        found = prepared.solve([sinks])
        dropped = found.statistics["dropped"]
        assert dropped <= tolerance * (1 + 1e-12)
        assert found.values[0] <= exact * (1 + 1e-12)
        assert exact <= found.upper[0] * (1 + 1e-12)
        assert found.upper[0] - found.values[0] <= dropped + 1e-9 * found.upper[0]
        for side in ("sink", "source"):
            one = prepared.solve_one(sinks, cut_near=side)
            assert one.value == found.values[0]
            assert exact <= one.upper * (1 + 1e-12)
            assert one.gap <= dropped + 1e-9 * one.upper


def test_what_is_dropped_is_as_much_as_is_allowed_and_the_smallest():
    capacities, _ = large_case()
    off = capacities * ~np.eye(120, dtype=bool)
    tolerance = 0.01 * float(off[:, 0].sum())
    exact = temporal.prepare(capacities, 0)
    prepared = temporal.prepare(capacities, 0, tolerance=tolerance)
    found, every = prepared.solve(range(1, 120)), exact.solve(range(1, 120))
    assert 0.97 * tolerance < found.statistics["dropped"] <= tolerance
    assert len(prepared._network.tails) < 0.8 * len(exact._network.tails)
    assert every.statistics["dropped"] == 0
    assert np.median(found.upper - found.values) < 0.25 * tolerance  # a cut holds little of it
    assert (found.values <= every.values * (1 + 1e-12)).all()
    assert (every.values <= found.upper * (1 + 1e-12)).all()


def test_layers_are_read_once_from_the_top():
    capacities, _ = large_case(size=20)
    read = []

    class Layers(Sequence):
        def __len__(self):
            return len(capacities)

        def __getitem__(self, number):
            read.append(number)
            return capacities[number]

    found = temporal.solve(Layers(), 0, [3, 4])
    assert np.array_equal(found.values, temporal.solve(capacities, 0, [3, 4]).values)
    assert read == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capacities": np.ones((2, 3, 4))}, r"shape \(2, 3, 4\); they must be .* square"),
        ({"capacities": np.ones((3, 3))}, r"shape \(3, 3\); they must be \[layer, query, key\]"),
        ({"capacities": np.ones((0, 3, 3))}, "there must be at least one"),
        ({"capacities": np.ones((2, 0, 0))}, "and square"),
        ({"capacities": [np.ones((3, 4))]}, r"layer 1 .* shape \(3, 4\); it must be square"),
        ({"capacities": np.ones((2, 3, 3), int)}, "int64; it must be an array of float16"),
        (
            {"capacities": [np.ones((3, 3)), np.ones((4, 4))]},
            "layer 1 .* 3 positions, the one above 4",
        ),
        (
            {"capacities": -np.ones((2, 3, 3))},
            "layer 2 .* negative, infinite or NaN.*positive part",
        ),
        ({"capacities": np.full((2, 3, 3), np.nan)}, "negative, infinite or NaN"),
        ({"capacities": np.full((2, 3, 3), np.inf)}, "negative, infinite or NaN"),
        ({"capacities": [SparseLayer.of(-np.ones((3, 3)))] * 2}, "negative, infinite or NaN"),
        ({"sources": 3}, "sources=3 must be an integer from 0 to 2"),
        ({"sources": "0"}, "sources='0' must be a position or a set of positions"),
        ({"sources": []}, "sources is empty"),
        ({"sinks": [1, [2, -1]]}, r"sinks\[1\]=-1 must be an integer from 0 to 2"),
        ({"sinks": [[]]}, r"sinks\[0\] is empty"),
        ({"sinks": [1.5]}, r"sinks\[0\]=1.5 must be a position"),
        ({"stations": np.ones((2, 3))}, r"stations have shape \(2, 3\).*\(1, 3\)"),
        ({"stations": -np.ones((1, 3))}, "stations must be finite and at least 0"),
        ({"stations": np.full((1, 3), np.inf)}, "stations must be finite and at least 0"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    arguments = {"capacities": np.ones((2, 3, 3)), "sources": 0, "sinks": [1, 2]} | change
    with pytest.raises(InputError, match=message):
        temporal.solve(**arguments)


def test_other_wrong_arguments_are_refused():
    capacities = np.ones((2, 3, 3))
    with pytest.raises(InputError, match="cut_near='top' must be 'sink' or 'source'"):
        temporal.solve_one(capacities, 0, 1, cut_near="top")
    with pytest.raises(InputError, match="tolerance=-1 must be at least 0"):
        temporal.solve(capacities, 0, [1], tolerance=-1)


def test_more_edges_than_can_be_numbered_are_refused(monkeypatch):
    capacities, _ = large_case(size=20)
    monkeypatch.setattr(network, "MOST_EDGES", 100)
    with pytest.raises(InputError, match=r"at most 100 can be solved\. Give a tolerance"):
        temporal.prepare(capacities, 0)


def test_flows_are_told_in_full_in_any_order():
    capacities, _ = large_case(size=20)
    network = temporal.prepare(capacities, 0)
    solved = {sink: network.solve_value(sink) for sink in (3, 7)}
    for sink in (7, 3):
        alone, full = temporal.solve_one(capacities, 0, sink), solved[sink].in_full()
        assert solved[sink].value == full.value == alone.value
        assert (full.upper, full.routes) == (alone.upper, alone.routes)
        for of, expected in ((full.edges, alone.edges), (full.cut, alone.cut)):
            np.testing.assert_array_equal(of, expected)


def test_no_sinks_and_sinks_that_nothing_reaches():
    capacities, _ = large_case(size=20)
    assert len(temporal.solve(capacities, 0, []).values) == 0
    capacities[:, :, 7] = 0
    assert temporal.solve(capacities, 0, [7]).values[0] == 0
    one = temporal.solve_one(capacities, 0, 7)
    assert one.value == one.gap == len(one.edges.layers) == len(one.cut.layers) == 0
    assert one.routes == ()
