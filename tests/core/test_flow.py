"""Flow against the oracle, and the facts that hold for every maximum flow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attention as some
import attnflow
import oracle

pytestmark = pytest.mark.usefixtures("solver")
CLOSE = 1e-9


def all_pairs(weights, to_layer=0):
    depth, size, _ = weights.shape
    return np.array(
        [
            [
                [oracle.max_flow(weights, layer, i, j, to_layer) for j in range(size)]
                for i in range(size)
            ]
            for layer in range(to_layer + 1, depth + 1)
        ]
    )


@settings(max_examples=60, deadline=None)
@given(some.attentions, st.sampled_from([0.5, 0.0, 0.2]))
def test_every_value_is_the_oracles(attention, residual):
    found, statistics = attnflow.flow(attention, residual=residual, statistics=True)
    expected = all_pairs(oracle.edges(attention, residual))
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE)
    assert statistics["largest_gap"] < CLOSE
    assert statistics["pairs"] == found.size
    ways = ("closed_form", "bound_met", "cut_found")
    assert sum(statistics[way] for way in ways) == found.size


@settings(max_examples=20, deadline=None)
@given(some.attentions)
def test_the_linear_program_agrees(attention):
    depth, size = attention.shape[0], attention.shape[-1]
    found = attnflow.flow(attention)[-1]
    weights = oracle.edges(attention)
    for query, key in {(0, size - 1), (size - 1, 0), (size // 2, size // 2)}:
        assert found[query, key] == pytest.approx(
            oracle.linear_program(weights, depth, query, key), abs=1e-8
        )  # HiGHS keeps constraints to 1e-10 each


@pytest.mark.parametrize("kind", some.KINDS)
def test_a_larger_graph_of_every_kind(kind):
    attention = some.make(kind, 6, 24, seed=5)
    weights = oracle.edges(attention)
    found, statistics = attnflow.flow(attention, statistics=True)
    assert statistics["largest_gap"] < 1e-12
    for layer, query, key in [
        (3, 0, 5),
        (3, 23, 1),
        (4, 7, 19),
        (5, 12, 0),
        (6, 23, 2),
        (6, 1, 23),
    ]:
        assert found[layer - 1, query, key] == pytest.approx(
            oracle.max_flow(weights, layer, query, key), abs=CLOSE
        )


def test_all_ways_of_proof_are_taken():
    """The fast exits and the full search are both reached, so the tests above test both."""
    _, statistics = attnflow.flow(some.make("peaked", 5, 16, seed=3), statistics=True)
    assert min(statistics[way] for way in ("closed_form", "bound_met", "cut_found")) > 0


@settings(max_examples=60, deadline=None)
@given(some.attentions)
def test_the_facts_about_flow_hold(attention):
    weights = oracle.edges(attention)
    found = attnflow.flow(attention)
    np.testing.assert_allclose(found[0], weights[0], rtol=1e-14)
    if len(weights) > 1:
        two = np.minimum(weights[1][:, :, None], weights[0][None]).sum(axis=1)
        np.testing.assert_allclose(found[1], two, rtol=0, atol=1e-12)
    assert (found >= attnflow.rollout(attention) - 1e-12).all()
    assert (found <= np.minimum(1, weights[0].sum(axis=0)) + 1e-12).all()
    for layer in range(1, len(weights)):
        below = found[layer - 1]
        recursive = np.minimum(weights[layer][:, :, None], below[None]).sum(axis=1)
        assert (found[layer] <= recursive + 1e-12).all()
        assert (found[layer] >= weights[layer] @ below - 1e-12).all()


@settings(max_examples=30, deadline=None)
@given(some.attentions, st.randoms(use_true_random=False))
def test_renaming_positions_renames_the_answer(attention, random):
    order = list(range(attention.shape[-1]))
    random.shuffle(order)
    renamed = attention[:, order][:, :, order]
    expected = attnflow.flow(attention)[:, order][:, :, order]
    np.testing.assert_allclose(attnflow.flow(renamed), expected, rtol=0, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(some.attentions, st.data())
def test_a_part_is_cut_from_the_whole(attention, data):
    depth, size = attention.shape[0], attention.shape[-1]
    whole = attnflow.flow(attention)
    picks = [
        data.draw(st.lists(st.integers(0, top - 1), min_size=1)) for top in (depth, size, size)
    ]
    layers, queries, keys = picks
    part = attnflow.flow(attention, layers=[at + 1 for at in layers], queries=queries, keys=keys)
    np.testing.assert_array_equal(part, whole[layers][:, queries][:, :, keys])
    np.testing.assert_array_equal(attnflow.flow(attention, layers=-1, queries=-1), whole[-1:, -1:])


@settings(max_examples=20, deadline=None)
@given(some.attentions, st.data())
def test_to_layer_is_flow_between_two_layers(attention, data):
    to_layer = data.draw(st.integers(0, len(attention) - 1))
    expected = all_pairs(oracle.edges(attention), to_layer)
    found = attnflow.flow(attention, to_layer=to_layer)
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE)
    np.testing.assert_array_equal(found, attnflow.flow(attention[to_layer:]))


def test_single_heads_stand_on_the_merged_layers_below():
    attention = some.make("dense", 4, 5, seed=1, heads=3)
    merged = oracle.edges(attention)
    found = attnflow.flow(attention, heads="each")
    assert found.shape == (4, 3, 5, 5)
    for layer in range(4):
        for head in range(3):
            stack = merged.copy()
            stack[layer] = oracle.edges(attention[:, head])[layer]
            for query, key in [(0, 4), (3, 1)]:
                assert found[layer, head, query, key] == pytest.approx(
                    oracle.max_flow(stack, layer + 1, query, key), abs=CLOSE
                )


def test_normalize_divides_each_source_by_its_sum():
    attention = some.make("dense", 3, 6, seed=2)
    plain = attnflow.flow(attention)
    expected = plain / plain.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(attnflow.flow(attention, normalize=True), expected, rtol=1e-15)


def test_threads_change_nothing(solver):
    if solver != "cpu":
        pytest.skip("threads are the CPU's")
    attention = some.make("peaked", 5, 20, seed=4)
    one, statistics = attnflow.flow(attention, threads=1, statistics=True)
    assert statistics["threads"] == 1
    np.testing.assert_array_equal(one, attnflow.flow(attention, threads=3))
