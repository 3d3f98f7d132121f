"""Keys that count as one: a word that was cut into tokens."""

import networkx as nx
import numpy as np
import pytest

import attention as some
import oracle
from attnflow.edges.graph import EdgeOptions, build_graph
from attnflow.methods import METHODS
from attnflow.records import Activations, Selection
from attnflow.solvers.execution import Execution

pytestmark = pytest.mark.usefixtures("solver")
GROUPS = ((0,), (1, 2, 4), (3,), (5, 6))
EVERYTHING = tuple(range(7))


def score(method, attention, *, to_layer=0, heads="mean", keys=(0, 1, 2, 3)):
    maps = METHODS[method].uses_maps
    graph = build_graph(Activations(tuple(attention)), EdgeOptions(heads=heads), keep_maps=maps)
    layers = tuple(range(to_layer + 1, len(attention) + 1))
    selection = Selection(layers, EVERYTHING, keys, to_layer, GROUPS)
    return METHODS[method].score(graph, selection, Execution()).values


def flow_to(weights, layer, query, group, to_layer=0):
    """The maximum flow to a sink behind all keys of the group."""
    graph = oracle.network(weights[:layer])
    for key in group:
        graph.add_edge((to_layer, key), "word", capacity=10.0)
    return nx.maximum_flow_value(graph, (layer, query), "word")


@pytest.mark.parametrize("to_layer", [0, 1])
@pytest.mark.parametrize("kind", ["dense", "peaked", "sparse", "causal"])
def test_flow_to_a_group_is_the_flow_to_a_sink_behind_it(kind, to_layer):
    attention = some.make(kind, 4, 7, seed=3)
    weights = oracle.edges(attention)
    found = score("flow", attention, to_layer=to_layer)
    for (at, query, place), value in np.ndenumerate(found):
        expected = flow_to(weights, to_layer + at + 1, query, GROUPS[place], to_layer)
        assert value == pytest.approx(expected, abs=1e-9)


def test_single_heads_flow_to_groups_too():
    attention = some.make("dense", 3, 7, seed=5, heads=2)
    found = score("flow", attention, heads="each")
    weights = oracle.edges(attention)
    for head in range(2):
        weights[2] = oracle.edges(attention[2:, head])[0]
        for query, place in ((0, 1), (4, 3), (6, 2)):
            expected = flow_to(weights, 3, query, GROUPS[place])
            assert found[2, head, query, place] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("method", ["raw", "rollout"])
def test_other_methods_add_up(method):
    attention = some.make("dense", 3, 7, seed=4)
    graph = build_graph(Activations(tuple(attention)), EdgeOptions())
    selection = Selection((1, 2, 3), EVERYTHING, EVERYTHING)
    whole = METHODS[method].score(graph, selection, Execution()).values
    expected = np.stack([whole[..., list(group)].sum(-1) for group in GROUPS], -1)
    np.testing.assert_allclose(score(method, attention), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].reads_edges])
def test_some_groups_are_those_of_all(method):
    attention = some.make("dense", 3, 7, seed=4)
    whole = score(method, attention)
    np.testing.assert_array_equal(score(method, attention, keys=(3, 1)), whole[..., [3, 1]])
