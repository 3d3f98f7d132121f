"""Learned heads in the graph: weighted sums per layer, of every rule and method; wrong ones."""

import json

import numpy as np
import pytest

import attnflow
from attnflow import METHODS, LearnedHeads
from attnflow.errors import InputError
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request

TEXT = "the old keys to the cabinet are here"
WEIGHTS = [[0.2, 0.0, 1.1, 0.4], [0.0, 0.0, 0.3, 0.0], [0.5, 0.9, 0.0, 0.1]]
SIZE = 5


def learned_for(model, weights=WEIGHTS):
    return LearnedHeads(weights, attnflow.load_model(model).name)


def attention_of(seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(SIZE), size=(3, 4, SIZE))


def naive_edges(attention, residual=0.5):
    """Heads weighed, the strongest layer's a mean, the residual added, rows to 1."""
    strongest = max(sum(layer) for layer in WEIGHTS)
    fused = np.einsum("lh,lhqk->lqk", np.array(WEIGHTS) / strongest, attention)
    edges = (1 - residual) * fused + residual * np.eye(SIZE)
    return edges / edges.sum(-1, keepdims=True)


def test_arrays_are_weighed_layer_by_layer():
    attention = attention_of()
    learned = LearnedHeads(WEIGHTS, "arrays")
    edges = naive_edges(attention)
    rolled = edges[2] @ edges[1] @ edges[0]
    np.testing.assert_allclose(attnflow.rollout(attention, heads=learned)[-1], rolled, atol=1e-12)
    # Edges as capacities: the flow of the graph that is given with its heads fused.
    flow = attnflow.flow(edges, residual=0.0)
    np.testing.assert_allclose(attnflow.flow(attention, heads=learned), flow, atol=1e-9)


def test_equal_weights_are_the_mean():
    attention = attention_of(1)
    equal = LearnedHeads([[0.7] * 4] * 3, "arrays")
    for method in (attnflow.raw, attnflow.rollout, attnflow.flow):
        np.testing.assert_allclose(method(attention, heads=equal), method(attention), atol=1e-12)


@pytest.mark.parametrize("edges", ["attention", "effective", "gradient", "gradient-only"])
@pytest.mark.parametrize("fixture", ["classifier", "decoder"])
def test_every_rule_with_heads_takes_them(edges, fixture, request):
    model = request.getfixturevalue(fixture)
    learned = learned_for(model)
    config = Request(edges=edges, heads=learned, correction=None)
    session = open_session(TEXT, attnflow.load_model(model), config)
    maps = [np.asarray(each) for each in config.rule.apply(session.activations).layers]
    strongest = max(sum(layer) for layer in WEIGHTS)
    weighed = [
        np.einsum("h,hqk->qk", np.array(w) / strongest, m)
        for w, m in zip(WEIGHTS, maps, strict=True)
    ]
    np.testing.assert_allclose(session.graph("direct").maps, weighed, atol=1e-12)
    direct = session.attribution("direct").values
    np.testing.assert_allclose(direct, sum(weighed)[session.query], atol=1e-12)
    for method in METHODS:
        assert np.isfinite(session.attribution(method).values).all()


@pytest.mark.parametrize("correction", ["uniform", "sink"])
def test_corrections_keep_how_much_a_layer_carries(decoder, correction):
    learned = learned_for(decoder)
    options = {"method": "rollout", "correction": correction}
    found = attnflow.explain(TEXT, decoder, heads=learned, **options).values
    alone = attnflow.explain([TEXT, "the cat"], decoder, heads=learned, **options)[0].values
    np.testing.assert_allclose(alone, found, atol=1e-5)
    equal = learned_for(decoder, [[1.0] * 4] * 3)
    expected = attnflow.explain(TEXT, decoder, **options).values
    np.testing.assert_allclose(
        attnflow.explain(TEXT, decoder, heads=equal, **options).values, expected, atol=1e-6
    )
    assert np.abs(found - expected).max() > 1e-3


def test_what_differs_is_named(classifier, decoder, tmp_path):
    learned = learned_for(classifier)
    other = LearnedHeads(WEIGHTS, "gpt-17")
    with pytest.raises(InputError, match=r"learned on the model 'gpt-17', and this is"):
        attnflow.explain(TEXT, classifier, heads=other)
    fewer = learned_for(classifier, WEIGHTS[:2])
    with pytest.raises(InputError, match=r"learned on 2 layers, and .* has 3"):
        attnflow.explain(TEXT, classifier, heads=fewer)
    narrow = learned_for(classifier, [[1.0, 2.0]] * 3)
    with pytest.raises(InputError, match=r"layers of 3 × 2 heads, and here they have 3 × 4"):
        attnflow.explain(TEXT, classifier, heads=narrow)
    with pytest.raises(InputError, match="edges='alti' takes all heads together"):
        attnflow.explain(TEXT, classifier, heads=learned, edges="alti")
    with pytest.raises(InputError, match=r"missing\.json can't be read"):
        attnflow.explain(TEXT, classifier, heads=tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], r"must be \[layer\]\[head\]"),
        ([[1.0], []], r"must be \[layer\]\[head\]"),
        ([[1.0, -0.1]], "none negative"),
        ([[float("nan")]], "finite numbers"),
        ([[True]], "finite numbers"),
        ("12", r"must be \[layer\]\[head\]"),
        ([[0.0, 0.0]], "all zero"),
    ],
)
def test_weights_that_are_none_are_refused(weights, message):
    with pytest.raises(InputError, match=message):
        LearnedHeads(weights, "x")


def test_wrong_files_are_refused(tmp_path):
    file = LearnedHeads(WEIGHTS, "x").save(tmp_path / "heads.json")
    good = json.loads(file.read_text())
    del good["sha256"]  # as if written by hand
    bad = {
        "no JSON": "not a file of learned heads: it is not JSON",
        json.dumps([1]): "is not a file of learned heads",
        json.dumps({**good, "format": "other"}): "is not a file of learned heads",
        json.dumps({**good, "more": 1}): "is not a file of learned heads",
        json.dumps({**good, "weights": [[-1]]}): "is damaged: weights=",
        json.dumps({**good, "figures": 3}): "is damaged: figures=3 must be a dict",
    }
    for content, message in bad.items():
        file.write_text(content)
        with pytest.raises(InputError, match=message):
            LearnedHeads.load(file)
