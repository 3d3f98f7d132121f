"""Rules, methods, metrics and figures of one's own: registered once, they work by name."""

import json
import re

import numpy as np
import pytest

import attention as some
import attnflow
import oracle
import tiny
from attnflow import EDGE_RULES, METHODS, METRICS, EdgeRule, Method, Metric, Scores
from attnflow.cli.app import run
from attnflow.errors import InputError
from attnflow.methods.maps import select
from attnflow.models.loading import load_model
from attnflow.records import FlowTrace
from attnflow.records.arrays import to_numpy
from attnflow.views.colours import colour_of
from attnflow.views.kinds import KINDS, Kind

TEXT = "the keys to the cabinet"
VERBS = ("--model", "verbs")


def squared(activations):
    return [attention**2 for attention in activations.attention]


def doubled(graph, selection, execution):
    weights = 2 * to_numpy(graph.weights if graph.heads is None else graph.heads)
    return Scores(select(weights, [layer - 1 for layer in selection.layers], selection))


def doubled_trace(graph, pair):
    value = 2 * float(graph.edges_of(pair)[pair.key])
    edges = np.zeros((pair.layer - pair.to_layer, graph.size, graph.size))
    edges[-1, pair.query, pair.key] = value
    return FlowTrace(
        *(pair.layer, pair.query, pair.key, pair.to_layer), value, edges, method="dummy"
    )


@pytest.fixture
def family():
    """A dummy rule and a dummy method, there for one test."""
    EDGE_RULES.register(EdgeRule("dummy-edges", "Dummy edges", squared))
    METHODS.register(
        Method(
            "dummy",
            "Dummy method",
            doubled,
            doubled_trace,
            residual=0.2,
            single_heads=True,
            slot=5,
        )
    )
    yield
    METHODS.unregister("dummy")
    EDGE_RULES.unregister("dummy-edges")


def expected_weights(attention, residual=0.2):
    """What both make of attention [layer, head, query, key], written out."""
    raw = (np.asarray(attention, np.float64) ** 2).mean(1)
    return (1 - residual) * raw / raw.sum(-1, keepdims=True) + residual * np.eye(raw.shape[-1])


@pytest.fixture
def shipped_attention():
    from attnflow.models.capture.mode import Capture

    adapter = load_model("verbs")
    tokens = adapter.tokenize(TEXT)
    with Capture() as capture:
        adapter.predict([tokens], [0])
    return np.stack([site.probabilities[0].numpy() for site in capture.sites])


def test_explain_knows_both(family, shipped_attention):
    found = attnflow.explain(TEXT, "verbs", edges="dummy-edges", method="dummy")
    expected = 2 * expected_weights(shipped_attention)[-1, 0]
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-7)
    assert found.options["edges"] == "dummy-edges"
    assert found.options["residual"] == 0.2
    mixed = attnflow.explain(TEXT, "verbs", edges="dummy-edges", method="rollout")
    rolled = oracle.rollout(expected_weights(shipped_attention, 0.5), 6)
    np.testing.assert_allclose(mixed.values, rolled[0], rtol=0, atol=1e-7)


@pytest.mark.parametrize("heads", [[1], "each"])
def test_a_rule_has_heads(family, shipped_attention, heads):
    found = attnflow.explain(
        TEXT, "verbs", edges="dummy-edges", method="dummy", residual=0.0, heads=heads
    )
    maps = shipped_attention.astype(np.float64)[-1, :, 0] ** 2
    fused = maps if heads == "each" else maps[1]
    expected = 2 * fused / fused.sum(-1, keepdims=True)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-6)


def test_arrays_know_the_rule(family):
    attention = some.make("dense", 3, 5, seed=2, heads=2)
    weights = expected_weights(attention, 0.5)
    rolled = attnflow.rollout(attention, edges="dummy-edges")
    np.testing.assert_allclose(rolled[-1], oracle.rollout(weights, 3), rtol=0, atol=1e-12)
    flow = attnflow.flow(attention, edges="dummy-edges", layers=-1, queries=1, keys=3)
    assert float(flow[0, 0, 0]) == pytest.approx(oracle.max_flow(weights, 3, 1, 3), abs=1e-9)
    traced = attnflow.trace(attention, key=3, query=1, edges="dummy-edges", method="dummy")
    assert traced.value == pytest.approx(2 * expected_weights(attention)[-1, 1, 3])


def test_figures_know_both(family):
    from attnflow.views.figures import figure

    found = attnflow.explain(
        TEXT, "verbs", edges="dummy-edges", method="dummy", layers="all", query="all"
    )
    for kind in ("heatmap", "graph"):
        drawn = figure(kind, found)
        (title,) = {ax.get_title(loc="left") for ax in drawn.axes} - {""}
        assert title == "Dummy method"
        assert drawn.axes[0]._left_title.get_color() == colour_of("dummy")


def test_the_terminal_knows_both(family, capsys):
    assert run(["explain", TEXT, *VERBS, "--method", "dummy", "--edges", "dummy-edges"]) == 0
    shown = capsys.readouterr().out
    assert "dummy" in shown
    found = attnflow.explain(TEXT, "verbs", edges="dummy-edges", method="dummy")
    token, score = found.top(1)[0]
    assert re.search(rf"{re.escape(token)}\S* +█+ {score:.3f}", shown)
    assert run(["routes", TEXT, *VERBS, "--to", "keys", "--method", "dummy"]) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("dummy ")
    assert run(["explain", "--help"]) == 0
    assert " or dummy" in capsys.readouterr().out


def test_the_document_and_its_traces_know_both(family):
    from attnflow.views.explorer.schema import pack

    view = attnflow.explore(TEXT, "verbs", edges="dummy-edges", method="dummy").document["views"][0]
    described = {each["name"]: each for each in view["methods"]}["dummy"]
    assert described == {
        "name": "dummy",
        "method": "dummy",
        "edges": "dummy-edges",
        "unit": "",
        "title": "Dummy method",
        "summary": "",
        "first": True,
        "label": "Dummy",
        "slot": 5,
        "reaches_input": True,
        "traced": True,
        "layered": True,
        "signed": False,
        "ratio": False,
        "tie_breaker": "",
    }
    assert view["rule"] == {"name": "dummy-edges", "title": "Dummy edges"}
    alone = attnflow.explain(
        TEXT, "verbs", edges="dummy-edges", method="dummy", layers="all", query="all"
    )
    (scores,) = [part for part in view["scores"] if part["method"] == "dummy"]
    assert scores["values"] == pack(alone.scores)
    (heads,) = [part for part in view["head_scores"] if part["method"] == "dummy"]
    assert heads["values"]["shape"] == [6, 8, 6]
    traces = [trace for trace in view["traces"] if trace["method"] == "dummy"]
    assert len(traces) == 6 * 6
    for trace in traces:
        assert trace["value"] == pytest.approx(alone.row(trace["layer"])[trace["key"]], rel=1e-6)


@pytest.fixture
def client(family):
    from starlette.testclient import TestClient

    from attnflow.views.explorer.server.app import make_app

    return TestClient(make_app({"verbs": load_model("verbs")}), "http://localhost")


def test_the_server_knows_both(client):
    rules = client.get("/api/models").json()["rules"]
    assert rules[-1] == {"name": "dummy-edges", "title": "Dummy edges"}
    request = {"text": TEXT, "edges": "dummy-edges", "method": "dummy", "query": 0}
    trace = client.post("/api/trace", json={**request, "layer": 6, "key": 2}).json()
    found = attnflow.explain(TEXT, "verbs", edges="dummy-edges", method="dummy")
    assert trace["value"] == pytest.approx(found.values[2], rel=1e-6)
    assert client.post("/api/scores", json={**request, "layers": [6]}).status_code == 200
    assert client.post("/api/heads", json={**request, "layers": [6]}).status_code == 200
    wrong = client.post("/api/scores", json={**request, "method": "nothing", "layers": [6]})
    assert wrong.status_code == 422
    names = ", ".join(METHODS)
    assert names.startswith("raw, rollout, flow")
    assert names.endswith(", dummy")
    assert names in wrong.json()["error"]["message"]
    schemas = json.dumps(client.get("/api/openapi.json").json())
    assert json.dumps({"enum": list(METHODS)})[1:-1] in schemas
    assert json.dumps({"enum": ["auto", *EDGE_RULES]})[1:-1] in schemas


def test_a_method_without_a_trace_has_no_routes(family):
    METHODS.register(Method("untraced", "Untraced", doubled))
    try:
        with pytest.raises(InputError, match="method='untraced' can't tell how a score came"):
            attnflow.routes(TEXT, "verbs", to="keys", method="untraced")
        view = attnflow.explore(TEXT, "verbs", method="untraced").document["views"][0]
        assert not [trace for trace in view["traces"] if trace["method"] == "untraced"]
        traced = {each["name"]: each["traced"] for each in view["methods"]}
        assert traced.pop("untraced") is False
        assert set(traced) == {"raw", "rollout", "flow", "dummy"}
        assert all(traced.values())
    finally:
        METHODS.unregister("untraced")


def test_names_are_checked_when_they_are_registered(family):
    with pytest.raises(InputError, match="method='flow' is registered already"):
        METHODS.register(Method("flow", "Mine", doubled))
    with pytest.raises(InputError, match="edges='My Rule' can't be registered: a name has lower"):
        EDGE_RULES.register(EdgeRule("My Rule", "Mine", squared))
    with pytest.raises(InputError, match="edges='nothing' is unknown; allowed: attention"):
        attnflow.explain(TEXT, "verbs", edges="nothing")


def test_a_rule_that_measures_the_residual_gets_none():
    EDGE_RULES.register(EdgeRule("whole", "Whole", squared, residual="measured"))
    try:
        found = attnflow.explain(TEXT, "verbs", edges="whole", method="rollout")
        assert found.options["residual"] == 0.0
        with pytest.raises(
            InputError, match=r"residual=0\.5 can't be chosen: edges='whole' measures"
        ):
            attnflow.explain(TEXT, "verbs", edges="whole", residual=0.5)
    finally:
        EDGE_RULES.unregister("whole")


def test_a_rule_that_needs_blocks_and_gradients_gets_them_and_refuses_arrays():
    from attnflow import Needs

    seen = []

    def maps(activations):
        seen.append(activations)
        products = zip(activations.attention, activations.gradients, strict=True)
        return [(attention * gradient).clamp_min(0) + 1e-9 for attention, gradient in products]

    EDGE_RULES.register(EdgeRule("asking", "Asking", maps, Needs(blocks=True, gradients=True)))
    try:
        model = (tiny.build("gpt2"), tiny.plain())
        attnflow.explain(TEXT, model, edges="asking", method="rollout", correction=None)
        block = seen[0].blocks[0]
        assert block.values.shape == (4, 5, 8)
        assert block.projection.shape == (32, 32)
        assert block.residual.shape == block.output.shape == (5, 32)
        assert seen[0].gradients[0].shape == seen[0].attention[0].shape
        with pytest.raises(InputError, match="edges='asking' needs a model"):
            attnflow.flow(some.make("dense", 2, 4, seed=0), edges="asking")
    finally:
        EDGE_RULES.unregister("asking")


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        (lambda a: a.attention[:-1], "5 maps for 6 steps of attention"),
        (
            lambda a: [each[..., :-2, :-2] for each in a.attention],
            r"maps\[0\] has shape \(8, 4, 4\)",
        ),
        (lambda a: [each - 1 for each in a.attention], r"maps\[0\] must hold finite numbers"),
        (lambda a: [each * float("nan") for each in a.attention], "must hold finite numbers"),
        (lambda a: [each / 0 for each in a.attention], "must hold finite numbers"),
        (lambda a: None, "NoneType is not a sequence of arrays"),
        (lambda a: [1.0] * 6, r"maps\[0\] has shape \(\)"),
        (lambda a: [to_numpy(each) + 0.1j for each in a.attention], "real numbers, not ndarray of"),
        (lambda a: [each.to("meta") for each in a.attention], "dense array of real numbers"),
        (lambda a: [each.to_sparse() for each in a.attention], "dense array of real numbers"),
        (
            lambda a: [np.ma.masked_less(to_numpy(each), 0.1) for each in a.attention],
            "not MaskedArray of float64",
        ),
    ],
)
@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_what_a_rule_makes_is_checked(maps, message, method):
    EDGE_RULES.register(EdgeRule("wrong", "Wrong", maps))
    try:
        with pytest.raises(
            InputError, match=f"edges='wrong' made no maps that can be used: .*{message}"
        ):
            attnflow.explain(TEXT, "verbs", edges="wrong", method=method)
    finally:
        EDGE_RULES.unregister("wrong")


def test_a_rule_never_sees_a_batch():
    attention = np.stack([some.make("dense", 3, 5, seed=seed, heads=2) for seed in (1, 2)], axis=1)
    maps = lambda a: [each / each.max(axis=(1, 2), keepdims=True) for each in a.attention]  # noqa: E731
    EDGE_RULES.register(EdgeRule("whole-map", "Whole map", maps))
    try:
        together = attnflow.flow(attention, edges="whole-map", lengths=[5, 5])
        for item in range(2):
            alone = attnflow.flow(attention[:, item], edges="whole-map")
            np.testing.assert_array_equal(together[:, item], alone)
    finally:
        EDGE_RULES.unregister("whole-map")


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda *_: None, "returned NoneType; it must return Scores"),
        (lambda *_: Scores(None), "returned scores that can't be used: .* not NoneType"),
        (lambda *_: Scores(np.zeros(3) + 1j), "returned scores .*, not ndarray of complex128"),
        (lambda *_: Scores(np.zeros(3)), r"returned scores of shape \(3,\); this selection needs"),
        (lambda graph, *_: graph.nothing, "failed in its own code: AttributeError"),
    ],
)
def test_what_a_method_returns_is_checked(score, message):
    METHODS.register(Method("wrong", "Wrong", score))
    try:
        with pytest.raises(InputError, match=f"method='wrong' {message}"):
            attnflow.explain(TEXT, "verbs", method="wrong")
    finally:
        METHODS.unregister("wrong")


def test_only_members_are_registered():
    with pytest.raises(InputError, match="edges: Method can't be registered"):
        EDGE_RULES.register(METHODS["flow"])


def test_a_method_of_ones_own_has_a_colour_of_its_own():
    from attnflow.views.wording.names import method_info

    first = {method_info(name).slot for name in ("raw", "rollout", "flow")}
    for number in range(7):
        METHODS.register(Method(f"own-{number}", "Own", doubled))
    try:
        slots = [method_info(f"own-{number}").slot for number in range(7)]
        assert not first & set(slots)
        assert set(slots) <= set(range(8))
    finally:
        for number in range(7):
            METHODS.unregister(f"own-{number}")


def test_runs_know_both(family, tmp_path):
    found = attnflow.explain(TEXT, "verbs", edges="dummy-edges", method="dummy")
    own = {"methods": "dummy", "edges": "dummy-edges"}
    (made,) = attnflow.run([TEXT], tmp_path / "run", "verbs", **own)
    assert (made.method, made.options["edges"]) == ("dummy", "dummy-edges")
    np.testing.assert_array_equal(made.values, found.values)


@pytest.fixture
def metric():
    """A dummy metric, there for one test."""
    METRICS.register(Metric("dummy", "Dummy metric", lambda case: float(case.size), higher=True))
    yield "dummy"
    METRICS.unregister("dummy")


def test_evaluations_know_a_metric(metric, tmp_path, capsys):
    found = attnflow.evaluate([TEXT], "verbs", methods="rollout", metrics=metric)
    (column,) = found.columns
    assert column.metric == metric
    np.testing.assert_array_equal(found.values, 5.0)  # words: what can be removed
    rows, saved = tmp_path / "texts.txt", tmp_path / "result.json"
    rows.write_text(f"{TEXT}\n")
    arguments = ["evaluate", str(rows), *VERBS, "--method", "rollout", "--metric", metric]
    assert run([*arguments, "--result", str(saved)]) == 0
    assert "Dummy metric" in capsys.readouterr().out
    again = attnflow.Evaluation.load(saved)
    np.testing.assert_array_equal(again.values, found.values)


@pytest.fixture
def kind():
    """A dummy kind of figure, there for one test."""

    def draw(ax, attribution, theme, *, values=False):
        ax.plot(attribution.values, "o")
        ax.set_title(f"{attribution.method}, values={values}")

    KINDS.register(Kind("dummy", draw, lambda attribution, **_: (3.0, 2.0)))
    yield "dummy"
    KINDS.unregister("dummy")


def test_figures_know_a_kind(kind, tmp_path, capsys):
    found = attnflow.explain(TEXT, "verbs", method="rollout")
    drawn = found.figure(kind, values=True)
    assert drawn.get_title() == "rollout, values=True"
    np.testing.assert_array_equal(drawn.lines[0].get_ydata(), found.values)
    file = tmp_path / "figure.svg"
    arguments = ["figure", kind, TEXT, *VERBS, "--method", "rollout", "--values"]
    assert run([*arguments, "-o", str(file)]) == 0
    assert file.stat().st_size
    assert run(["figure", "nothing", TEXT, *VERBS, "-o", str(file), "--force"]) == 2
    assert kind in capsys.readouterr().err
