"""One flow in full: a flow, a cut of the same capacity, and routes that add up."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attention as some
import attnflow
import oracle
from attnflow.errors import InputError


def check(found, weights):
    """Conservation, capacity, cut = flow, and routes that rebuild the flow on every edge."""
    edges = found.edges
    assert edges.shape == weights.shape
    assert (edges >= 0).all()
    assert (edges <= weights + 1e-12).all()
    assert np.delete(edges[-1], found.query, axis=0).sum() == 0
    assert np.delete(edges[0], found.key, axis=1).sum() == 0
    for lower, upper in itertools.pairwise(edges):
        np.testing.assert_allclose(upper.sum(axis=0), lower.sum(axis=1), rtol=0, atol=1e-12)
    assert edges[0].sum() == pytest.approx(found.value, abs=1e-12)
    assert sum(edge.capacity for edge in found.cut) == pytest.approx(found.value, abs=1e-9)
    assert abs(found.gap) < 1e-9
    amounts = [route.amount for route in found.routes]
    assert amounts == sorted(amounts, reverse=True)
    assert sum(amounts) == pytest.approx(found.value, abs=1e-11)
    rebuilt = np.zeros_like(edges)
    for route in found.routes:
        assert (route.positions[0], route.positions[-1]) == (found.query, found.key)
        for step, (query, key) in enumerate(itertools.pairwise(route.positions)):
            rebuilt[len(edges) - 1 - step, query, key] += route.amount
    np.testing.assert_allclose(rebuilt, edges, rtol=0, atol=1e-11)


def separates(found, weights):
    """Whether no path is left once the cut's edges are taken away."""
    left = weights.copy()
    for edge in found.cut:
        place = edge.layer - 1 - found.to_layer, edge.query, edge.key
        assert edge.capacity == pytest.approx(left[place], rel=1e-14)
        left[place] = 0
    return oracle.max_flow(left, len(left), found.query, found.key) == 0


@settings(max_examples=80, deadline=None)
@given(some.attentions, st.data())
def test_the_flow_is_proven(attention, data):
    depth, size = attention.shape[0], attention.shape[-1]
    to_layer = data.draw(st.integers(0, depth - 1))
    layer = data.draw(st.integers(to_layer + 1, depth))
    query, key = data.draw(st.tuples(*[st.integers(0, size - 1)] * 2))
    found = attnflow.trace(attention, layer=layer, query=query, key=key, to_layer=to_layer)
    weights = oracle.edges(attention)[to_layer:layer]
    check(found, weights)
    assert separates(found, weights)
    values = attnflow.flow(attention, layers=layer, queries=query, keys=key, to_layer=to_layer)
    assert found.value == pytest.approx(values.item(), abs=1e-12)


def test_a_head_stands_on_the_merged_layers_below():
    attention = some.make("peaked", 4, 6, seed=7, heads=3)
    stack = oracle.edges(attention)
    stack[3] = oracle.edges(attention[:, 2])[3]
    found = attnflow.trace(attention, head=2, query=5, key=1)
    check(found, stack)
    assert found.value == pytest.approx(oracle.max_flow(stack, 4, 5, 1), abs=1e-9)


def test_a_long_text_has_routes_that_add_up():
    attention = some.make("peaked", 6, 60, seed=8)
    found = attnflow.trace(attention, query=3, key=50)
    check(found, oracle.edges(attention))
    assert len(found.routes) > 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": 9}, "^key=9"),
        ({"key": 0, "query": -7}, "^query=-7"),
        ({"key": 0, "layer": 0}, "^layer=0"),
        ({"key": 0, "layer": 2, "to_layer": 2}, "^layer=2"),
        ({"key": [0, 1]}, r"^key must be an integer from 0 to 4, got \[0, 1\]"),
        ({"key": True}, "^key must be an integer from 0 to 4, got True"),
        ({"key": 0, "head": 3}, "head=3"),
        ({"key": 0, "head": True}, "^head must be an integer from 0 to 1, got True"),
        ({"key": 0, "heads": "each"}, "heads='each' does not apply to a trace"),
        ({"key": 0, "heads": "mean", "head": 1}, "^head=1 and heads='mean' exclude each other"),
        ({"key": 0, "heads": [0, 1], "head": 0}, r"^head=0 and heads=\[0, 1\] exclude each other"),
    ],
)
def test_an_impossible_pair_is_refused(options, message):
    attention = some.make("dense", 3, 5, seed=1, heads=2)
    with pytest.raises(InputError, match=message):
        attnflow.trace(attention, **options)


def test_a_trace_is_shown_in_one_line():
    found = attnflow.trace(some.make("dense", 3, 5, seed=1), query=4, key=1)
    start = f"<FlowTrace: flow {found.value:.4g} from 1 to 4 at layer 3; "
    assert repr(found).startswith(start)
    assert len(repr(found)) < 100
