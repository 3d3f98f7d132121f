"""Flow on relevance: for minus against, on the graph written out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnflow
import talkers
import temporal_oracle
import tiny
from attnflow.edges import corrections
from attnflow.errors import InputError
from attnflow.methods import find_edge_method, relevance_flow
from attnflow.models.capture import backward
from attnflow.models.capture import relevance as capture
from attnflow.pipeline.prepare import open_session, open_sessions, prepare
from attnflow.pipeline.request import Request
from attnflow.records import LayeredGraph, Relevances, Selection
from attnflow.records.arrays import to_numpy
from attnflow.records.layers import DeviceLayers, without_first
from attnflow.solvers.bounded import SHARE, BoundedNetwork
from attnflow.solvers.execution import Execution
from attnflow.views.wording.names import is_signed, unit_note

TEXT = "the keys to the cabinet are here"


def expected(maps, inputs, sources, group):
    others = sorted(set(group) - set(sources))
    own = sum(inputs[at] for at in set(group) & set(sources))
    if not others:
        return own
    parts = [
        temporal_oracle.max_flow(np.maximum(sign * maps, 0), sources, others) for sign in (1, -1)
    ]
    return own + parts[0] - parts[1]


def made(seed=0, depth=3, size=5, read=(0,)):
    """A graph of random amounts, whose target is read at some positions."""
    random = np.random.default_rng(seed)
    maps = random.standard_t(2, (depth, size, size)) * (random.random((depth, size, size)) < 0.7)
    streams = random.normal(size=(depth + 1, size))
    streams[-1, [at for at in range(size) if at not in read]] = 0
    relevance = Relevances(maps, random.normal(size=size), 1.0, 0.0, streams)
    return LayeredGraph(maps, maps=maps, relevance=relevance), relevance


def scores(graph, queries=(0,), **options):
    keys = options.pop("keys", range(graph.size))
    selection = Selection((graph.depth,), tuple(queries), tuple(keys), **options)
    return find_edge_method("flow").apply(graph, selection, Execution(1)).values


@pytest.mark.parametrize("read", [(0,), (4,), (1, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_for_minus_against(seed, read):
    graph, relevance = made(seed, read=read)
    found = scores(graph, read)
    assert found.shape == (1, len(read), 5)
    wanted = [expected(graph.weights, relevance.inputs, read, [at]) for at in range(5)]
    np.testing.assert_allclose(found[0], np.tile(wanted, (len(read), 1)), atol=1e-9)


def test_the_flow_to_a_word_is_that_to_all_its_tokens():
    graph, relevance = made(7)
    groups = ((0, 1), (2, 4), (3,))
    found = scores(graph, keys=range(3), groups=groups)[0, 0]
    wanted = [expected(graph.weights, relevance.inputs, (0,), group) for group in groups]
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    alone = scores(graph)[0, 0]
    assert abs(found[1] - (alone[2] + alone[4])) > 1e-6  # they share what leads to them


def test_layers_below_the_top_start_nowhere():
    graph, _ = made()
    with pytest.raises(InputError, match="relevance starts at the target"):
        find_edge_method("flow").apply(graph, Selection((2,), (0,), (0,)), Execution(1))
    with pytest.raises(InputError, match="the target is read at position 0"):
        scores(graph, (3,))


@pytest.mark.parametrize("name", ["verbs", "llama", "gpt2"])
def test_explained_by_a_model(name):
    model = attnflow.load_model("verbs" if name == "verbs" else (tiny.build(name), tiny.plain()))
    session = open_session(TEXT, model, Request(edges="relevance", correction=None))
    assert session.config.method == "flow"
    found, relevance = session.attribution(), session.activations.relevance
    read = [session.query]
    maps = relevance.maps.double().numpy()
    wanted = [expected(maps, relevance.inputs, read, [at]) for at in range(session.size)]
    np.testing.assert_allclose(found.values, wanted, atol=1e-6)
    for at in range(session.size):
        if at in read:
            continue
        trace = session.trace("flow", session.depth, session.query, at)
        sides = [
            temporal_oracle.max_flow(np.maximum(sign * maps, 0), read, [at]) * sign
            for sign in (1, -1)
        ]
        assert trace.value == pytest.approx(max(sides, key=abs), abs=1e-6)
        assert abs(trace.gap) < 1e-9
        assert sum(edge.capacity for edge in trace.cut) == pytest.approx(abs(trace.value))
        assert sum(route.amount for route in trace.routes) <= abs(trace.value) + 1e-9
        for edge in trace.cut:
            assert edge.capacity == pytest.approx(
                abs(maps[edge.layer - 1, edge.query, edge.key]), abs=1e-9
            )


def test_decoders_leave_out_their_first_token():
    model = attnflow.load_model((tiny.build("llama"), tiny.plain()))
    plain, sink = (
        attnflow.explain(TEXT, model, edges="relevance", correction=each).values
        for each in (None, "sink")
    )
    usual = attnflow.explain(TEXT, model, edges="relevance")
    assert usual.options["correction"] == "sink"
    assert (usual.values == sink).all()
    assert plain[0] != 0 == sink[0]
    np.testing.assert_allclose(sink[1:], plain[1:], atol=1e-9)
    rolled = attnflow.explain(TEXT, model, edges="relevance", method="rollout").values
    exact = attnflow.explain(TEXT, model, method="lrp").values
    np.testing.assert_allclose(rolled[1:], exact[1:], atol=1e-5)
    assert rolled[0] == 0


def test_an_answer_to_one_token_came_from_it():
    model = attnflow.load_model(talkers.llama())
    found = attnflow.explain_answer("cat", model, answer=" is here", each="tokens")
    alone = attnflow.explain("cat", model, target="is")
    assert found.options["correction"] == "sink"
    assert found.scores[0, 0] == pytest.approx(alone.values[0], abs=1e-6) != 0
    assert found.scores[1, 0] == 0


def test_a_list_is_as_each_alone():
    model = attnflow.load_model("sentiment")
    texts = ["The food was not good.", "A fine film, and short.", "No one could call this boring."]
    config = Request(edges="relevance")
    together = dict(open_sessions(prepare(config, model, texts)))
    for place, text in enumerate(texts):
        alone = open_session(text, model, config).attribution()
        np.testing.assert_allclose(together[place].attribution().values, alone.values, atol=1e-5)


def test_scores_have_a_sign_and_a_unit_in_words():
    found = attnflow.explain("The food was not good.", edges="relevance")
    assert is_signed(found)
    assert unit_note(found.method, found.options) == "scores are in logits of the target"


def test_on_another_device_flow_is_bounded_where_the_relevance_is(monkeypatch):
    model = attnflow.load_model(talkers.llama())
    prompt = {"first": "the keys to the cabinet", "second": "an old cat is on the mat"}
    options = {"answer": " is here", "deletions": False}
    exact = attnflow.explain_answer(prompt, model, **options)
    for module in (relevance_flow, corrections):
        monkeypatch.setattr(module, "on_cpu", lambda _: False)
    monkeypatch.setattr(relevance_flow, "LARGE", 0)
    monkeypatch.setattr(backward.EdgeReading, "_are_large", lambda *_: True)
    monkeypatch.setattr(capture, "TIGHT", {"cpu"})
    kept = []
    monkeypatch.setattr(
        capture._Halves,
        "apply",
        lambda *args, apply=capture._Halves.apply: kept.append(args[2:]) or apply(*args),
    )
    found = attnflow.explain_answer(prompt, model, **options)
    assert found.statistics["largest_gap"] <= SHARE
    assert found.warnings == exact.warnings
    assert [again for _, again in kept] == [torch.nn.functional.silu] * model.depth
    assert found.options == exact.options
    for name in ("scores", "part_scores"):
        one, other = getattr(found, name), getattr(exact, name)
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-4 * np.abs(other).max())


def test_flow_that_is_known_between_bounds_alone_says_so(monkeypatch):
    model = attnflow.load_model(talkers.llama())
    monkeypatch.setattr(relevance_flow, "on_cpu", lambda _: False)
    monkeypatch.setattr(relevance_flow, "LARGE", 0)
    solve = BoundedNetwork.solve

    def unsure(*args):
        found = solve(*args)
        return replace(found, statistics=found.statistics | {"largest_gap": 0.0123})

    monkeypatch.setattr(BoundedNetwork, "solve", unsure)
    said = "may be off by up to 1.2 % of the largest flow"
    for each in ("sentences", "tokens"):
        found = attnflow.explain_answer(
            {"a": "the keys", "b": "an old cat"}, model, answer=" is here", each=each
        )
        assert sum(said in each for each in found.warnings) == 1
    assert any(said in each for each in attnflow.explain("the keys are", model).warnings)


def test_what_is_left_out_when_read_is_left_out_for_all():
    rng = np.random.default_rng(0)
    maps = torch.tensor(rng.normal(size=(3, 5, 5)))
    lazily, whole = DeviceLayers(list(maps), without_first=True), without_first(maps)
    np.testing.assert_array_equal(np.asarray(lazily), whole.numpy())
    np.testing.assert_array_equal(to_numpy(lazily[1:]), whole[1:].numpy())
    assert torch.equal(lazily[2], whole[2])
    assert torch.equal(lazily.stacked(), whole)
    assert (lazily.shape, len(lazily), lazily.nbytes) == ((3, 5, 5), 3, maps.nbytes)
