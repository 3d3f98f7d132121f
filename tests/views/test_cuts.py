"""What is said of a cut follows from its edges, and these from the graph written out."""

import networkx as nx
import numpy as np
import pytest

import attnflow
import temporal_oracle
import tiny
from attnflow.errors import InputError
from attnflow.methods.relevance_flow import trace
from attnflow.records import Edge, FlowTrace, LayeredGraph, Pair, Relevances
from attnflow.views.wording.traces import MOST, carrying, cut_sentence, main_edges, read_cut

DEPTH, SIZE = 4, 5
NAMES = [f"“{letter}”" for letter in "abcde"]


def made(seed, sources=(0,)):
    """The trace of a random graph to each token, with the capacities of what speaks its way."""
    random = np.random.default_rng(seed)
    maps = random.standard_t(2, (DEPTH, SIZE, SIZE)) * (random.random((DEPTH, SIZE, SIZE)) < 0.4)
    streams = np.zeros((DEPTH + 1, SIZE))
    streams[-1, list(sources)] = 1.0
    relevance = Relevances(maps, np.zeros(SIZE), 1.0, 0.0, streams)
    graph = LayeredGraph(maps, maps=maps, relevance=relevance)
    for key in set(range(SIZE)) - set(sources):
        found = trace(graph, relevance, Pair(DEPTH, sources[0], key))
        yield found, np.maximum(np.sign(found.value) * maps, 0.0)


def reaches(graph, start, end):
    return nx.has_path(graph, start, end)


@pytest.mark.parametrize("sources", [(0,), (1, 3)])
@pytest.mark.parametrize("seed", range(30))
def test_the_cut_is_one_threshold_a_token_and_the_minimum_of_the_explicit_graph(seed, sources):
    for found, capacities in made(seed, sources):
        if not found.value:
            continue
        since, reached = found.carries_from, temporal_oracle.reached(capacities, sources)
        edges = {
            (layer, i, j)
            for layer in range(1, DEPTH + 1)
            for i in range(SIZE)
            for j in range(SIZE)
            if since[j] < layer < since[i] and capacities[layer - 1, i, j] > 0 and i != j
            if reached[layer, i]
        }
        assert {(edge.layer, edge.query, edge.key) for edge in found.cut} == edges
        best = temporal_oracle.max_flow(capacities, sources, [found.key])
        assert sum(edge.capacity for edge in found.cut) == pytest.approx(best, rel=1e-9)
        assert abs(found.value) == pytest.approx(best, rel=1e-9)
        without = capacities.copy()
        for layer, i, j in edges:
            without[layer - 1, i, j] = 0.0
        left = temporal_oracle.explicit_graph(without, sources, [found.key])
        assert not reaches(left, "source", "sink")


@pytest.mark.parametrize("sources", [(0,), (1, 3)])
@pytest.mark.parametrize("seed", range(30))
def test_what_is_said_of_a_cut_is_true_of_the_explicit_graph(seed, sources):
    for found, capacities in made(seed, sources):
        if not found.value:
            continue
        told = read_cut(found)
        assert told.share >= MOST
        assert set(told.edges) <= set(found.cut)
        whole = temporal_oracle.explicit_graph(capacities, sources, [found.key])
        for token, layer in told.taken_over.items():
            # The word's information had arrived there, and nobody was told to read it before.
            assert reaches(whole, (layer, token, "out"), (0, found.key, "out"))
            assert min(edge.layer for edge in told.edges if edge.key == token) == layer + 1
        answer = [edge for edge in told.edges if edge.query in sources]
        read = {edge.layer for edge in answer if edge.key != found.key}
        assert told.by_answer == tuple(sorted(read))
        own = {edge.layer for edge in answer if edge.key == found.key}
        assert told.itself == tuple(sorted(own))
        total = sum(edge.capacity for edge in found.cut)
        own = sum(edge.capacity for edge in answer if edge.key == found.key)
        assert told.own_share == pytest.approx(own / total)
        others = {edge.query for edge in told.edges} - set(sources)
        assert set(told.handed_on) == others
        for reader in others:
            # What it read, it could hand on to where the answer is read.
            layer = min(told.handed_on[reader])
            assert any(
                reaches(whole, (DEPTH, source, "in"), (layer, reader, "out")) for source in sources
            )


def said(*edges, value=1.0, sources=(0,)):
    cut = tuple(Edge(*each) for each in edges)
    found = FlowTrace(
        6, 0, 4, 0, value, np.zeros((6, 5, 5)), cut, sources=sources, carries_from=(7,) * 5
    )
    return cut_sentence(found, NAMES)


@pytest.mark.parametrize(
    ("edges", "sentence"),
    [
        ([(5, 0, 4, 1), (6, 0, 4, 1)], "The answer read “e” itself, in layers 5 and 6."),
        (
            [(5, 0, 2, 1), (6, 0, 2, 1)],
            "By layer 4 “c” had taken over what “e” says; the answer read it from there in layers "
            "5 and 6.",
        ),
        (
            [(4, 0, 1, 1), (6, 0, 2, 2), (6, 0, 4, 1)],
            "By layer 3 “b” and by layer 5 “c” had taken over what “e” says; the answer read it "
            "from there in layers 4 and 6, and 25 % of the flow from “e” itself in layer 6.",
        ),
        (
            [(1, 2, 4, 2), (2, 3, 4, 1)],
            "“c” and “d” read what “e” says in layers 1 and 2 and handed it on.",
        ),
        (
            [(6, 0, 2, 9.5), (6, 0, 1, 0.3), (5, 0, 1, 0.2)],
            "By layer 5 “c” had taken over what “e” says; the answer read it from there in layer "
            "6 (95 % of the flow; 2 thinner edges carry the rest).",
        ),
    ],
)
def test_a_cut_in_words(edges, sentence):
    assert said(*edges) == sentence


def test_what_speaks_against_the_answer_is_told_so():
    found = said((5, 0, 2, 1), value=-1.0)
    assert found.startswith("By layer 4 “c” had taken over what “e” says against it; ")
    own = said((5, 0, 4, 1), value=-1.0)
    assert own == "The answer read what “e” says against it from “e” itself, in layer 5."


def test_a_first_token_that_is_left_out_is_not_said_to_pass_nothing():
    model = attnflow.load_model((tiny.build("llama"), tiny.plain()))
    found = attnflow.routes(tiny.TEXT, model, to=0)
    assert found.options["correction"] == "sink"
    assert found.summary.startswith("“the:0”, the first token, is left out (correction sink)")
    with pytest.raises(InputError, match="has no cut, as nothing passes"):
        attnflow.knockout(tiny.TEXT, model, edges=found)
    assert attnflow.routes(tiny.TEXT, model, to=0, correction=None).value


def test_the_edges_that_are_drawn_carry_nine_tenths():
    for seed in range(10):
        for found, _ in made(seed):
            if not found.value:
                continue
            kept = np.where(carrying(found), found.edges, 0.0)
            top = kept[-1, list(found.sources)].sum()
            assert top >= MOST * abs(found.value) - 1e-9
            assert (carrying(found) <= (found.edges > 0)).all()


def test_main_edges_are_the_fewest_that_carry_as_much():
    edges = [Edge(1, 0, at, amount) for at, amount in enumerate((1.0, 5.0, 3.0, 1.0))]
    assert [edge.capacity for edge in main_edges(edges)] == [5.0, 3.0, 1.0]
    assert main_edges([]) == []


def test_routes_say_the_cut_and_what_the_model_says_without_it():
    text = "The story is slow, but the music is wonderful."
    found = attnflow.routes(text, to="wonderful")
    assert found.summary == cut_sentence(found, [f"“{name}”" for name in _labels(found.tokens)])
    assert "had taken over what “wonderful” says; the answer read it" in found.summary
    again = attnflow.knockout(text, edges=found)
    assert found.knockout.after == again.after
    assert found.knockout.change < 10 * found.knockout.random_change < 0.01
    assert found.knockout.removed == len(found.cut)
    assert attnflow.routes(text, to="wonderful", verify=False).knockout is None


def test_the_score_is_what_speaks_for_less_what_speaks_against():
    text = "The food was not good."
    scores = attnflow.explain(text)
    for key in range(1, 6):
        found = attnflow.routes(text, to=key, verify=False)
        assert found.score == pytest.approx(scores.values[key], abs=1e-9)
        assert found.opposed <= abs(found.value)


def _labels(tokens):
    from attnflow.views.wording.labels import distinct_labels

    return distinct_labels(tokens, 40)
