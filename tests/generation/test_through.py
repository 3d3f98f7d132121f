"""Through time, against the definition on the explicit graph."""

import networkx as nx
import numpy as np
import pytest

import attnflow
from attnflow.errors import InputError
from attnflow.methods.through import flow_through, hand_on

DOCUMENTS = {"first": "the old keys", "second": "a red cat is here", "question": "keys to"}


def explicit_graph(weights, answer, top):
    """Nodes (layer, position); from the input of each token of an answer back up to its writer."""
    graph = nx.DiGraph()
    for step, layer in enumerate(weights[:top], 1):
        for i, j in zip(*np.nonzero(layer), strict=True):
            graph.add_edge((step, int(i)), (step - 1, int(j)), capacity=float(layer[i, j]))
    for at in answer:
        graph.add_edge((0, at), (top, at - 1), capacity=1.0)
    assert nx.is_directed_acyclic_graph(graph)
    return graph


def share_of_walks(graph, source, size, answer):
    """The products along all paths from the source, by the tokens that they end at."""
    arrived = dict.fromkeys(graph, 0.0)
    arrived[source] = 1.0
    for node in nx.topological_sort(graph):
        for to, edge in graph[node].items():
            arrived[to] += arrived[node] * edge["capacity"]
    return np.array([0.0 if at in answer else arrived.get((0, at), 0.0) for at in range(size)])


def random_weights(depth, size, seed):
    generator = np.random.default_rng(seed)
    weights = np.tril(generator.dirichlet(np.full(size, 0.3), size=(depth, size)))
    weights[generator.random(weights.shape) < 0.2] = 0
    weights[:, range(size), range(size)] += 0.1
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("seed", range(6))
def test_rollout_and_flow_on_random_graphs(seed):
    depth, size, top = 4, 9, 3 + seed % 2
    answer = (5, 6, 7, 8)[: 2 + seed % 3]
    weights = random_weights(depth, size, seed)
    graph = explicit_graph(weights, answer, top)
    rolled = np.linalg.multi_dot(weights[:top][::-1])
    rows = hand_on(rolled[[at - 1 for at in answer]], answer)
    groups = ((0,), (1, 3), (2, 4), (0, 1, 2, 3, 4), answer)
    flows = flow_through(weights, top, answer, groups)
    assert flows.statistics["largest_gap"] < 1e-12
    for row, at in enumerate(answer):
        expected = share_of_walks(graph, (top, at - 1), size, answer)
        expected[list(range(answer[-1] + 1, size))] = rows[row, answer[-1] + 1 :]
        np.testing.assert_allclose(rows[row], expected, atol=1e-12)
        for column, group in enumerate(groups):
            ended = graph.copy()
            ended.add_node("end")
            ended.add_edges_from(((0, one), "end") for one in group if one not in answer)
            most = nx.maximum_flow_value(ended, (top, at - 1), "end")
            assert flows.values[row, column] == pytest.approx(most, abs=1e-9)


@pytest.mark.parametrize("model", ["llama", "t5"])
@pytest.mark.parametrize("method", ["rollout", "flow"])
def test_scores_of_a_model_end_in_its_prompt(method, model, request):
    adapter = request.getfixturevalue(model)
    options = {"edges": "attention", "method": method, "correction": None, "generate": 3}
    options["each"] = "tokens"
    plain = attnflow.explain_answer(DOCUMENTS, adapter, **options)
    found = attnflow.explain_answer(DOCUMENTS, adapter, **options, through="prompt")
    assert found.options["through"] == "prompt"
    assert not found.matrix()[:, list(found.answer)].any()
    np.testing.assert_allclose(found.matrix()[0], plain.matrix()[0], atol=1e-9)
    prompt = slice(found.answer[0])
    assert (found.matrix()[:, prompt] >= plain.matrix()[:, prompt] - 1e-9).all()
    if method == "rollout":
        np.testing.assert_allclose(found.matrix().sum(-1), 1)
        np.testing.assert_allclose(found.matrix("parts").sum(-1), 1)
        at, start = found.answer[2], found.answer[0]
        by_hand = plain.matrix()[2].copy()
        by_hand += plain.matrix()[2, start] * plain.matrix()[0]
        second = plain.matrix()[1] + plain.matrix()[1, start] * plain.matrix()[0]
        by_hand += plain.matrix()[2, start + 1] * second
        np.testing.assert_allclose(found.matrix()[2, :start], by_hand[:start], atol=1e-12)
        assert not found.matrix()[2, at:].any()
    else:
        assert found.matrix("parts").max() <= 1 + 1e-9
        assert found.statistics["largest_gap"] < 1e-9


def test_chance_is_handed_on_as_well(llama):
    options = {"edges": "attention", "method": "rollout", "generate": 3, "through": "prompt"}
    options["each"] = "tokens"
    ratio = attnflow.explain_answer(DOCUMENTS, llama, **options, correction="uniform")
    plain = attnflow.explain_answer(DOCUMENTS, llama, **options, correction=None)
    assert not np.allclose(ratio.matrix(), plain.matrix())
    even = plain.matrix()[:, :10] / ratio.matrix()[:, :10]
    np.testing.assert_allclose(even.sum(-1), 1)


def test_the_default_follows_paths(llama):
    found = attnflow.explain_answer(DOCUMENTS, llama, generate=2, through="prompt")
    assert (found.options["edges"], found.method) == ("alti", "rollout")
    own = attnflow.explain_answer(
        DOCUMENTS, llama, generate=2, through="prompt", edges="gradient", method="rollout"
    )
    np.testing.assert_allclose(own.matrix().sum(-1), 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"through": "time"}, "through='time' is unknown; allowed: 'tokens', 'prompt'"),
        ({"through": "prompt", "method": "direct"}, "it is for rollout, flow"),
        ({"through": "prompt", "method": "blank-out"}, "does not follow paths"),
        ({"through": "prompt", "method": "flow", "edges": "gradient"}, "needs one graph"),
        (
            {"through": "prompt", "method": "rollout", "source": "logit"},
            "does not apply to source='logit'",
        ),
    ],
)
def test_what_has_no_meaning_through_time_is_refused(options, message, llama):
    with pytest.raises(InputError, match=message):
        attnflow.explain_answer(DOCUMENTS, llama, generate=2, **options)
