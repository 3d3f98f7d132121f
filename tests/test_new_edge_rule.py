"""A new edge rule: registered once, it works by its name in every way that edges are chosen."""

import json
import re

import numpy as np
import pytest

import attention as some
import attnflow
import oracle
import tiny
from attnflow import EDGE_RULES, METHODS, EdgeRule
from attnflow.cli.app import run
from attnflow.errors import InputError
from attnflow.models.loading import load_model
from attnflow.records.arrays import to_numpy

TEXT = "the keys to the cabinet"
VERBS = ("--model", "verbs")
OWN = {"edges": "dummy-edges", "method": "rollout"}


def squared(activations):
    return [attention**2 for attention in activations.attention]


@pytest.fixture
def rule():
    """A dummy rule, there for one test."""
    EDGE_RULES.register(EdgeRule("dummy-edges", "Dummy edges", squared))
    yield "dummy-edges"
    EDGE_RULES.unregister("dummy-edges")


def expected_weights(attention, residual=0.5):
    """What it makes of attention [layer, head, query, key], written out."""
    raw = (np.asarray(attention, np.float64) ** 2).mean(1)
    return (1 - residual) * raw / raw.sum(-1, keepdims=True) + residual * np.eye(raw.shape[-1])


def shipped_attention():
    from attnflow.models.capture.mode import Capture

    adapter = load_model("verbs")
    tokens = adapter.tokenize(TEXT)
    with Capture() as capture:
        adapter.predict([tokens], [0])
    return np.stack([site.probabilities[0].numpy() for site in capture.sites])


def test_a_call_explains_by_it(rule):
    found = attnflow.explain(TEXT, "verbs", **OWN)
    expected = oracle.rollout(expected_weights(shipped_attention()), 6)[0]
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-7)
    assert found.options["edges"] == rule


@pytest.mark.parametrize("heads", [[1], "each"])
def test_it_has_heads(rule, heads):
    options = {"method": "raw", "residual": 0.0, "heads": heads}
    found = attnflow.explain(TEXT, "verbs", edges=rule, **options)
    maps = shipped_attention().astype(np.float64)[-1, :, 0] ** 2
    fused = maps if heads == "each" else maps[1]
    expected = fused / fused.sum(-1, keepdims=True)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-6)


def test_functions_of_arrays_know_it(rule):
    attention = some.make("dense", 3, 5, seed=2, heads=2)
    weights = expected_weights(attention)
    rolled = attnflow.rollout(attention, edges=rule)
    np.testing.assert_allclose(rolled[-1], oracle.rollout(weights, 3), rtol=0, atol=1e-12)
    flow = attnflow.flow(attention, edges=rule, layers=-1, queries=1, keys=3)
    assert float(flow[0, 0, 0]) == pytest.approx(oracle.max_flow(weights, 3, 1, 3), abs=1e-9)
    traced = attnflow.trace(attention, key=3, query=1, edges=rule)
    assert traced.value == pytest.approx(float(flow[0, 0, 0]))


def test_commands_know_it(rule, capsys):
    found = attnflow.explain(TEXT, "verbs", **OWN)
    asked = (*VERBS, "--edges", rule, "--method", "rollout")
    assert run(["explain", TEXT, *asked]) == 0
    token, score = found.top(1)[0]
    assert re.search(rf"{re.escape(token)}\S* +█+ +{score:.3f}", capsys.readouterr().out)
    assert run(["routes", TEXT, *asked, "--to", "keys"]) == 0
    assert "edges: dummy edges" in capsys.readouterr().out
    assert run(["explain", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert " or dummy-edges." in shown.replace("- ", "-")  # where a line may end


def test_a_run_knows_it(rule, tmp_path):
    found = attnflow.explain(TEXT, "verbs", **OWN)
    (made,) = attnflow.run([TEXT], tmp_path / "run", "verbs", methods="rollout", edges=rule)
    assert made.options["edges"] == rule
    np.testing.assert_array_equal(made.values, found.values)


def test_a_server_knows_it(rule):
    from starlette.testclient import TestClient

    from attnflow.views.explorer.server.app import make_app

    client = TestClient(make_app({"verbs": load_model("verbs")}), "http://localhost")
    rules = client.get("/api/models").json()["rules"]
    assert rules[-1] == {"name": rule, "title": "Dummy edges"}
    request = {"text": TEXT, **OWN, "query": 0}
    trace = client.post("/api/trace", json={**request, "layer": 6, "key": 2}).json()
    found = attnflow.explain(TEXT, "verbs", **OWN)
    assert trace["value"] == pytest.approx(found.values[2], rel=1e-6)
    schemas = json.dumps(client.get("/api/openapi.json").json())
    assert json.dumps({"enum": ["auto", *EDGE_RULES]})[1:-1] in schemas


def test_a_page_shows_it(rule):
    """A browser walks it in views/explorer/test_extending_page.py."""
    from attnflow.views.explorer.schema import pack

    view = attnflow.explore(TEXT, "verbs", **OWN).document["views"][0]
    assert view["rule"] == {"name": rule, "title": "Dummy edges"}
    alone = attnflow.explain(TEXT, "verbs", layers="all", query="all", **OWN)
    (scores,) = [part for part in view["scores"] if part["method"] == "rollout"]
    assert scores["values"] == pack(alone.scores)


def test_its_name_is_checked():
    with pytest.raises(InputError, match="edges='My Rule' can't be registered: a name has lower"):
        EDGE_RULES.register(EdgeRule("My Rule", "Mine", squared))
    with pytest.raises(InputError, match="edges='nothing' is unknown; allowed: attention"):
        attnflow.explain(TEXT, "verbs", edges="nothing")
    with pytest.raises(InputError, match="edges: Method can't be registered"):
        EDGE_RULES.register(METHODS["flow"])


def test_a_rule_that_measures_the_residual_gets_none():
    EDGE_RULES.register(EdgeRule("whole", "Whole", squared, residual="measured"))
    try:
        found = attnflow.explain(TEXT, "verbs", edges="whole", method="rollout")
        assert found.options["residual"] == 0.0
        with pytest.raises(
            InputError, match=r"residual=0\.5 does not apply to edges='whole': the rule measures"
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
