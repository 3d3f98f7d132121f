"""Barrier flow, widest paths, additive and direct relevance against slow definitions."""

from itertools import pairwise, product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attention as some
import attnflow
import barrier_oracle
import families
import oracle
import tiny
from attnflow.edges.corrections import correct_maps
from attnflow.edges.graph import EdgeOptions, build_graph
from attnflow.errors import AttnflowError
from attnflow.methods import METHODS, barrier
from attnflow.methods.barrier import find_analytic_centre
from attnflow.models.loading import load_model
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.records import Activations, LayeredGraph, Pair, Selection
from attnflow.solvers.cpu.elimination import solve_network
from attnflow.solvers.execution import Execution

TEXT = "the keys to the cabinet are here"
COMPOSING = ("rollout", "barrier")
NEW = ("barrier", "widest", "additive", "direct", "direct-all")
READ_EDGES = [name for name in METHODS if METHODS[name].reads_edges]
SIZES = [(2, 3), (3, 4)]


def scores(weights, method, queries=None, keys=None, layers=None, groups=None):
    weights = np.asarray(weights, np.float64)
    depth, size = len(weights), weights.shape[-1]
    chosen = Selection(
        tuple(layers or range(1, depth + 1)),
        tuple(range(size) if queries is None else queries),
        tuple(range(size) if keys is None else keys),
        groups=groups,
    )
    graph = LayeredGraph(weights, maps=weights)
    return METHODS[method].score(graph, chosen, Execution())


def barrier_edges(weights, query):
    """The library's joint flow on the edges below the top layer: all its traces together."""
    graph = LayeredGraph(weights)
    pairs = [Pair(len(weights), query, key) for key in range(weights.shape[-1])]
    return sum(METHODS["barrier"].trace(graph, pair).edges for pair in pairs)[:-1]


def check_barrier(weights, query, tolerance=1e-9):
    expected = barrier_oracle.barrier(weights, query)
    found = scores(weights, "barrier", [query], layers=[len(weights)])
    np.testing.assert_allclose(found.values[0, 0], expected[0].sum(0), rtol=0, atol=tolerance)
    assert found.statistics["largest_decrement"] < 1e-9
    flow = barrier_edges(weights, query)
    np.testing.assert_allclose(flow, expected, rtol=0, atol=tolerance)
    check_feasible(flow, weights, query)


def check_feasible(flow, weights, query):
    assert flow.min() >= 0
    assert (flow - weights[:-1]).max() <= 1e-10
    arrived = weights[-1, query]
    for layer in flow[::-1]:
        np.testing.assert_allclose(layer.sum(1), arrived, rtol=0, atol=1e-10)
        arrived = layer.sum(0)
    assert arrived.sum() == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("residual", [0.5, 0.0])
@pytest.mark.parametrize(("depth", "size"), SIZES)
@pytest.mark.parametrize("kind", ["dense", "peaked", "sparse", "near_zero", "causal", "sink"])
def test_the_barrier_flow_is_the_centre(kind, depth, size, residual):
    weights = oracle.edges(some.make(kind, depth, size, seed=depth + size), residual)
    check_barrier(weights, size - 1)


def one_edge(weights):
    weights[-1, 0] = np.eye(4)[1]


def a_funnel(weights):
    weights[-2] = np.eye(4)[2]


def almost_one_edge(weights):
    weights[-1, 0] = [1 - 3e-12, 1e-12, 1e-12, 1e-12]


def nobody_reads_one(weights):
    weights[:, :, 1] = 0
    weights /= weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("change", [one_edge, a_funnel, almost_one_edge, nobody_reads_one])
def test_the_barrier_flow_where_edges_are_full_or_empty(change):
    weights = np.random.default_rng(1).dirichlet(np.full(4, 0.4), size=(4, 4))
    change(weights)
    check_barrier(weights, 0)


@pytest.mark.parametrize("kind", ["dense", "peaked", "near_zero", "causal", "sink", "uniform"])
def test_the_barrier_flow_converges_on_large_graphs(kind):
    weights = oracle.edges(some.make(kind, 12, 60, seed=1))
    found = scores(weights, "barrier", [59], layers=[12])
    assert found.statistics["largest_decrement"] < 1e-9
    assert found.values.sum() == pytest.approx(1, abs=1e-10)


@st.composite
def extreme_graphs(draw):
    """Weights that lie many orders of magnitude apart, some zero, causal or not."""
    depth, size = draw(st.integers(2, 6)), draw(st.integers(2, 8))
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lowest = draw(st.sampled_from([-6, -12, -16, -40, -140]))
    shape = depth, size, size
    weights = 10 ** chance.uniform(lowest, 0, shape)
    if draw(st.booleans()):  # two sizes and nothing between
        weights = np.where(chance.random(shape) < 0.3, 1.0, 10.0**lowest)
    weights[chance.random(shape) < draw(st.sampled_from([0.0, 0.4]))] = 0
    if draw(st.booleans()):
        weights = np.tril(weights)
    weights += (weights.sum(-1, keepdims=True) == 0) * np.eye(size)
    return weights / weights.sum(-1, keepdims=True), draw(st.integers(0, size - 1))


@settings(max_examples=150, deadline=None)
@given(extreme_graphs())
def test_the_barrier_flow_is_found_on_extreme_graphs(drawn):
    weights, query = drawn
    found = find_analytic_centre(weights[:-1], weights[-1, query])
    assert found.decrement < 1e-9
    check_feasible(found.flow, weights, query)


def test_the_barrier_flow_is_found_where_edges_carry_less_than_rounding():
    chance = np.random.default_rng(5054)
    weights = np.where(chance.random((6, 2, 2)) < 0.3, 1.0, 1e-16)
    weights /= weights.sum(-1, keepdims=True)
    check_barrier(weights, 0, tolerance=1e-15)


def test_the_barrier_flow_keeps_what_rollout_loses():
    """The last token keeps a small share of itself, layer after layer: rollout has it vanish."""
    kept = 2e-3
    weights = np.stack([np.array([[1, 0], [1 - kept, kept]])] * 9)
    check_barrier(weights, 1)
    assert barrier_edges(weights, 1)[0, 1].sum() > kept / 10


def test_the_barrier_flow_of_deep_decoders_without_their_sink():
    """Thirty layers that carry nothing along beside attention, with weights as a model has them."""
    chance = np.random.default_rng(5)
    for size in (2, 3, 3, 4, 6):
        maps = np.tril(chance.gamma(0.4, size=(30, size, size)) + 2e-3)
        weights = np.stack(correct_maps(maps / maps.sum(-1, keepdims=True), "sink"))
        found = find_analytic_centre(weights[:-1], weights[-1, size - 1])
        assert found.decrement < 1e-9
        check_feasible(found.flow, weights, size - 1)


def test_the_barrier_flow_where_most_edges_are_fixed_by_balance():
    """A cycle through edges of which one carries 1e-11 of all; the other edges have no choice."""
    straight = np.eye(3)
    bent = np.array([[1.0, 0, 0], [1, 0, 0], [0, 0, 1]])
    below = np.array([[1.0, 0, 0], [1, 0, 0], [0, 0.9997, 0.0003]])
    middle = np.array([[1.0, 0, 0], [0.5, 0.5, 0], [1 - 1.5e-11, 1.5e-11, 0]])
    top = np.array([[1.0, 0, 0], [0, 1, 0], [0.46, 0.54 - 7.8e-8, 7.8e-8]])
    check_barrier(np.stack([below, middle, bent, straight, top]), 2)


@pytest.mark.parametrize("seed", range(6))
def test_the_barrier_flow_of_extreme_graphs_is_that_of_sixty_digits(seed):
    chance = np.random.default_rng(seed)
    weights = 10 ** chance.uniform(-12, 0, (3, 3, 3))
    if seed % 2:
        weights = np.where(chance.random((3, 3, 3)) < 0.4, 1.0, 1e-12)
    check_barrier(weights / weights.sum(-1, keepdims=True), 0, tolerance=1e-9)


def test_a_centre_that_is_not_reached_is_refused(monkeypatch):
    monkeypatch.setattr(barrier, "MOST_STEPS", 2)
    weights = oracle.edges(some.make("peaked", 4, 6, seed=1))
    with pytest.raises(AttnflowError, match="came no nearer to its optimum than a decrement of"):
        find_analytic_centre(weights[:-1], weights[-1, 0])


def test_networks_are_solved_to_the_last_bits():
    chance = np.random.default_rng(0)
    across = 10 ** chance.uniform(-30, 0, (6, 6))
    np.fill_diagonal(across, 0)
    right = 10 ** chance.uniform(-30, 0, (6, 4))
    right[:, 0] = right[:, 1]
    found = solve_network(across, right)
    with mp.workdps(80):
        exact = np.vectorize(mp.mpf)(across)
        columns = np.vectorize(mp.mpf)(right)
        total = exact.sum(1) + columns[:, 1:].sum(1)
        system = mp.matrix((np.diag(total) - exact).tolist())
        for column in range(4):
            expected = mp.lu_solve(system, mp.matrix(columns[:, column].tolist()))
            np.testing.assert_allclose(found[:, column], np.array(expected, float), rtol=1e-13)


def test_the_barrier_flow_of_single_heads_and_words():
    attention = some.make("dense", 3, 4, seed=2, heads=2)
    graph = build_graph(Activations(tuple(attention)), EdgeOptions(heads="each"))
    groups = ((0,), (1, 3), (2,))
    chosen = Selection((3,), (1,), (0, 1, 2), groups=groups)
    found = METHODS["barrier"].score(graph, chosen, Execution()).values
    for head in range(2):
        weights = np.concatenate([graph.weights[:2], graph.heads[2:, head]])
        expected = barrier_oracle.barrier(weights, 1)[0].sum(0)
        merged = [expected[list(group)].sum() for group in groups]
        np.testing.assert_allclose(found[0, head, 0], merged, rtol=0, atol=1e-9)


def width_of(weights, layer, query, keys):
    """The widest of all paths, one after another."""
    bottom = weights[0][:, list(keys)].sum(-1)  # edges to a word are those to all its tokens
    widest = 0.0
    for inner in product(range(weights.shape[-1]), repeat=layer - 1):
        path = (query, *inner)
        above = [weights[layer - 1 - n, i, j] for n, (i, j) in enumerate(pairwise(path))]
        widest = max(widest, min([*above, bottom[path[-1]]]))
    return widest


@pytest.mark.parametrize("kind", ["dense", "sparse", "causal", "tied"])
def test_the_widest_path_is_the_widest_of_all(kind):
    weights = oracle.edges(some.make(kind, 4, 4, seed=3), 0.2)
    found = scores(weights, "widest").values
    for (at, query, key), value in np.ndenumerate(found):
        assert value == pytest.approx(width_of(weights, at + 1, query, [key]), abs=1e-15)
        traced = METHODS["widest"].trace(LayeredGraph(weights), Pair(at + 1, query, key))
        assert traced.value == value
        for route in traced.routes:
            edges = pairwise(route.positions)
            narrow = min(weights[at - step, i, j] for step, (i, j) in enumerate(edges))
            assert (route.positions[0], route.positions[-1], narrow) == (query, key, value)
    groups = ((0, 2), (1,), (3,))
    found = scores(weights, "widest", keys=range(3), groups=groups).values
    for (at, query, place), value in np.ndenumerate(found):
        assert value == pytest.approx(width_of(weights, at + 1, query, groups[place]), abs=1e-15)


def test_additive_and_direct_relevance_written_out():
    maps = np.random.default_rng(0).random((4, 5, 5)) * 3
    relevance, summed = np.eye(5), np.zeros((5, 5))
    for at, layer in enumerate(maps):
        relevance = relevance + layer @ relevance
        summed = summed + layer
        for method, expected in (
            ("additive", relevance - np.eye(5)),
            ("direct", summed),
            ("direct-all", np.broadcast_to(summed.sum(0), (5, 5))),
        ):
            found = scores(maps, method, layers=[at + 1]).values[0]
            np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.9])
def test_rollout_is_that_of_vit_explain(ratio):
    """Its script, with the keepdim that it forgot."""
    attention = some.make("dense", 3, 6, seed=7, heads=4)
    result = np.eye(6)
    for layer in attention:
        fused = layer.mean(axis=0)
        flat = fused.reshape(-1).copy()
        smallest = np.argsort(flat)[: int(flat.size * ratio)]
        flat[smallest[smallest != 0]] = 0
        mixed = (flat.reshape(6, 6) + np.eye(6)) / 2
        result = mixed / mixed.sum(axis=-1, keepdims=True) @ result
    found = attnflow.rollout(attention, discard=ratio)
    np.testing.assert_allclose(found[-1], result, rtol=0, atol=1e-14)


def check_trace(traced, value):
    """Steps that sum to the value, and no node that keeps or makes anything."""
    assert traced.value == pytest.approx(value, abs=1e-10)
    if traced.method in COMPOSING:
        for edges in traced.edges:
            assert edges.sum() == pytest.approx(value, abs=1e-10)
    if traced.method in (*COMPOSING, "flow", "widest"):
        for below, above in pairwise(traced.edges):
            np.testing.assert_allclose(above.sum(0), below.sum(1), rtol=0, atol=1e-10)
    if traced.method in ("direct", "direct-all"):
        assert traced.edges.sum() == pytest.approx(value, abs=1e-10)


@pytest.mark.parametrize("method", READ_EDGES)
def test_traces_of_arrays_have_the_scores(method):
    attention = some.make("sparse", 3, 4, seed=9, heads=2)
    residual = METHODS[method].residual
    maps = METHODS[method].uses_maps
    graph = build_graph(Activations(tuple(attention)), EdgeOptions(residual), keep_maps=maps)
    chosen = Selection((3,), (0, 1, 2, 3), (0, 1, 2, 3))
    found = METHODS[method].score(graph, chosen, Execution()).values[0]
    for query, key in ((0, 0), (0, 3), (2, 1), (3, 3)):
        traced = attnflow.trace(attention, key=key, query=query, method=method)
        check_trace(traced, found[query, key])


@pytest.mark.parametrize("method", ["raw", "rollout", "flow", "barrier", "widest"])
def test_traces_of_single_heads_have_their_scores(method):
    attention = some.make("dense", 3, 4, seed=9, heads=2)
    options = EdgeOptions(METHODS[method].residual, "each")
    graph = build_graph(Activations(tuple(attention)), options)
    chosen = Selection((3,), (1,), (0, 1, 2, 3))
    found = METHODS[method].score(graph, chosen, Execution()).values
    for head in range(2):
        traced = attnflow.trace(attention, key=2, query=1, method=method, head=head)
        check_trace(traced, found[0, head, 0, 2])


@pytest.mark.parametrize("rule", ["attention", "effective", "norms", "alti", "gradient"])
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_traces_of_sessions_have_the_scores(name, rule):
    head = None if name == "llama" else families.tf.BertForSequenceClassification
    tokenizer = tiny.plain() if name == "llama" else tiny.word_piece()
    adapter = load_model((families.build(name, head=head), tokenizer))
    session = open_session(TEXT, adapter, Request(edges=rule, correction=None))
    for method in READ_EDGES:
        found = session.scores(method, [session.depth], [session.query]).values
        for key in (0, 3, session.query):
            traced = session.trace(method, session.depth, session.query, key)
            check_trace(traced, found[0, 0, key])
            assert traced.tokens == session.tokens.names


@pytest.mark.parametrize("method", NEW)
def test_words_have_the_scores_of_their_tokens(method):
    """All but the widest path add up; its edges do, which is never less than the widest token."""
    model = tiny.build("bert"), tiny.word_piece()
    text = "the cats playing"
    tokens = attnflow.explain(text, model, edges="attention", method=method)
    words = attnflow.explain(text, model, edges="attention", method=method, words=True)
    assert words.tokens == ("[CLS]", "the", "cats", "playing", "[SEP]")
    groups = ((0,), (1,), (2, 3), (4, 5), (6,))
    if method == "widest":
        least = [tokens.values[list(group)].max() for group in groups]
        assert (words.values >= np.array(least) - 1e-15).all()
        return
    expected = [tokens.values[list(group)].sum() for group in groups]
    np.testing.assert_allclose(words.values, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["rollout", "additive"])
def test_few_positions_of_a_long_text_have_the_scores_of_all(method, monkeypatch):
    """Rows one by one are those of whole maps, of layers, of groups and of a batch."""
    draw = np.random.default_rng(3)
    maps = np.tril(draw.gamma(0.3, size=(4, 2, 9, 9)))
    weights = maps / maps.sum(-1, keepdims=True)
    graph = LayeredGraph(weights, maps=maps)
    groups = ((0, 2), (1,), (3, 4, 5), (8,))
    for selection in (
        Selection((4,), (7,), tuple(range(9))),
        Selection((2, 4), (3, 8), (0, 5, 8), to_layer=1),
        Selection((3,), (6,), (0, 2, 3), groups=groups),
    ):
        member, execution = METHODS[method], Execution()
        whole = member.apply(graph, selection, execution).values
        with monkeypatch.context() as patch:
            patch.setattr("attnflow.methods.maps.LONG", 1)
            for name in ("empty_like", "eye"):  # of whole maps
                patch.setattr(np, name, None)
            rows = member.apply(graph, selection, execution).values
        np.testing.assert_allclose(rows, whole, rtol=1e-12, atol=1e-15)
        assert np.abs(whole).max() > 0.01
