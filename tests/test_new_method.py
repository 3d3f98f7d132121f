"""A new method: registered once, it works by its name in every way that methods are chosen."""

import json
import re

import numpy as np
import pytest

import attnflow
from attnflow import METHODS, Method, Scores
from attnflow.cli.app import run
from attnflow.errors import InputError
from attnflow.methods.maps import select
from attnflow.models.loading import load_model
from attnflow.records import FlowTrace
from attnflow.records.arrays import to_numpy
from attnflow.views.colours import colour_of

TEXT = "the keys to the cabinet"
VERBS = ("--model", "verbs")
OWN = {"method": "dummy", "edges": "attention"}


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
def method():
    """A dummy method, there for one test."""
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
    yield "dummy"
    METHODS.unregister("dummy")


def test_a_call_explains_by_it(method):
    found = attnflow.explain(TEXT, "verbs", **OWN)
    raw = attnflow.explain(TEXT, "verbs", edges="attention", method="raw", residual=0.2)
    np.testing.assert_allclose(found.values, 2 * raw.values, rtol=0, atol=1e-12)
    assert found.options["residual"] == 0.2


def test_figures_know_it(method):
    from attnflow.views.figures import figure

    found = attnflow.explain(TEXT, "verbs", layers="all", query="all", **OWN)
    for kind in ("heatmap", "graph"):
        drawn = figure(kind, found)
        (title,) = {ax.get_title(loc="left") for ax in drawn.axes} - {""}
        assert title == "Dummy method"
        assert drawn.axes[0]._left_title.get_color() == colour_of(method)


def test_commands_know_it(method, capsys):
    asked = (*VERBS, "--method", method, "--edges", "attention")
    assert run(["explain", TEXT, *asked]) == 0
    found = attnflow.explain(TEXT, "verbs", **OWN)
    token, score = found.top(1)[0]
    assert re.search(rf"{re.escape(token)}\S* +█+ +{score:.3f}", capsys.readouterr().out)
    assert run(["routes", TEXT, *VERBS, "--to", "keys", "--method", method]) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("dummy ")
    assert run(["explain", "--help"]) == 0
    assert " or dummy." in " ".join(capsys.readouterr().out.split())


def test_a_run_knows_it(method, tmp_path):
    found = attnflow.explain(TEXT, "verbs", **OWN)
    own = {"methods": method, "edges": "attention"}
    (made,) = attnflow.run([TEXT], tmp_path / "run", "verbs", **own)
    assert made.method == method
    np.testing.assert_array_equal(made.values, found.values)


def test_a_server_knows_it(method):
    from starlette.testclient import TestClient

    from attnflow.views.explorer.server.app import make_app

    client = TestClient(make_app({"verbs": load_model("verbs")}), "http://localhost")
    request = {"text": TEXT, **OWN, "query": 0}
    trace = client.post("/api/trace", json={**request, "layer": 6, "key": 2}).json()
    found = attnflow.explain(TEXT, "verbs", **OWN)
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


def test_a_page_shows_it_with_its_routes(method):
    """A browser walks it in views/explorer/test_extending_page.py."""
    from attnflow.views.explorer.schema import pack

    view = attnflow.explore(TEXT, "verbs", **OWN).document["views"][0]
    described = {each["name"]: each for each in view["methods"]}["dummy"]
    assert described == {
        "name": "dummy",
        "method": "dummy",
        "edges": "attention",
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
    alone = attnflow.explain(TEXT, "verbs", layers="all", query="all", **OWN)
    (scores,) = [part for part in view["scores"] if part["method"] == "dummy"]
    assert scores["values"] == pack(alone.scores)
    (heads,) = [part for part in view["head_scores"] if part["method"] == "dummy"]
    assert heads["values"]["shape"] == [6, 8, 6]
    traces = [trace for trace in view["traces"] if trace["method"] == "dummy"]
    assert len(traces) == 6 * 6
    for trace in traces:
        assert trace["value"] == pytest.approx(alone.row(trace["layer"])[trace["key"]], rel=1e-6)


def test_a_method_without_a_trace_has_no_routes(method):
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


def test_its_name_must_be_free():
    with pytest.raises(InputError, match="method='flow' is registered already"):
        METHODS.register(Method("flow", "Mine", doubled))
