"""The document holds what the library says, for every kind of model."""

import base64
import json

import numpy as np
import pytest
from pydantic import TypeAdapter

import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.evaluation.blanking_check import check_by_blanking
from attnflow.methods import METHODS
from attnflow.methods.rollout import carried
from attnflow.views.explorer.attribution import attribution_view
from attnflow.views.explorer.document import (
    SERVED,
    SHARE,
    STANDALONE,
    make_document,
    make_view,
    to_json,
    trace_path,
)
from attnflow.views.explorer.parts import model_name
from attnflow.views.explorer.schema import Document
from opened import opened

TEXT = "the old keys to the cabinets are here"


def unpacked(array):
    values = np.frombuffer(base64.b64decode(array["data"]), dtype="<" + array["dtype"])
    return values.reshape(array["shape"])


def inputs(name):
    from PIL import Image

    picture = np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    return Image.fromarray(picture) if name == "tiny/vit" else tiny.TEXT


@pytest.mark.parametrize("name", ["tiny/verbs", "tiny/gpt2", "tiny/t5", "tiny/vit"])
@pytest.mark.parametrize("extent", [SERVED, STANDALONE])
def test_scores_are_those_of_explain(models, name, extent):
    session = opened(inputs(name), models[name])
    view = make_view(session, extent)
    assert {part["method"] for part in view["scores"]} == {"raw", "rollout", "flow"}
    for part in view["scores"]:
        expected = attnflow.explain(
            inputs(name), models[name], method=part["method"], layers="all", query="all"
        )
        assert part["layers"] == list(expected.layers)
        every = session.size <= extent.all_queries
        assert part["queries"] == (list(expected.queries) if every else [session.query])
        scores = expected.scores[:, part["queries"]]
        np.testing.assert_allclose(unpacked(part["values"]), scores, atol=1e-6)
        assert view["tokens"] == list(expected.tokens)
        assert view["query"] == expected.query


@pytest.mark.parametrize("name", ["tiny/verbs", "tiny/gpt2", "tiny/t5"])
def test_heads_are_those_of_explain(models, name):
    view = make_view(opened(tiny.TEXT, models[name]), STANDALONE)
    assert {part["method"] for part in view["head_scores"]} == {"raw", "rollout", "flow"}
    for part in view["head_scores"]:
        expected = attnflow.explain(
            tiny.TEXT,
            models[name],
            method=part["method"],
            layers="all",
            query=view["query"],
            heads="each",
        )
        row = expected.scores[:, :, expected.queries.index(view["query"])]
        np.testing.assert_allclose(unpacked(part["values"]), row, atol=1e-6)


@pytest.mark.parametrize("name", ["tiny/verbs", "tiny/t5"])
def test_traces_end_in_the_scores(models, name):
    session = opened(tiny.TEXT, models[name])
    view = make_view(session, STANDALONE)
    pairs = {(trace["method"], trace["layer"], trace["key"]) for trace in view["traces"]}
    every = session.depth * session.size
    # Of a longer input, those of the last layer with the highest scores.
    assert len(pairs) == 2 * (every if every <= STANDALONE.pairs else STANDALONE.pairs // SHARE)
    for trace in view["traces"]:
        query, key = trace["query"], trace["key"]
        score = session.scores(trace["method"], [trace["layer"]], [query]).values[0, 0, key]
        assert trace["value"] == pytest.approx(score, abs=1e-6)
        into = sum(amount for step, _, at, amount in trace["edges"] if step == 1 and at == key)
        out = sum(
            amount
            for step, at, _, amount in trace["edges"]
            if step == session.step(trace["layer"]) and at == query
        )
        # edges thinner than a thousandth of the value are left out
        assert into == pytest.approx(score, abs=1e-6 + 1e-3 * session.size * score)
        assert out == pytest.approx(score, abs=1e-6 + 1e-3 * session.size * score)
        if trace["method"] == "flow":
            assert sum(edge[3] for edge in trace["cut"]) == pytest.approx(score, abs=1e-5)
            assert all(route["positions"][0] == query for route in trace["routes"])
            assert all(route["positions"][-1] == key for route in trace["routes"])


def test_rollout_is_carried_whole_through_every_step():
    weights = np.random.default_rng(0).dirichlet(np.ones(5), size=(4, 5))
    passed = carried(weights, query=3, key=1)
    score = (weights[3] @ weights[2] @ weights[1] @ weights[0])[3, 1]
    np.testing.assert_allclose(passed.sum((1, 2)), score)
    for step in range(1, 4):  # what arrives at a node leaves it
        np.testing.assert_allclose(passed[step].sum(0), passed[step - 1].sum(1))


def test_blanking_gives_the_prediction_for_the_changed_text(classifier):
    view = make_view(opened("the keys to the cabinet", classifier), STANDALONE)
    positions = [entry["positions"] for entry in view["blanked"]]
    assert positions == [[1], [2], [3], [4], [5]]
    changed = attnflow.explain(
        "the zebra to the cabinet", classifier, method="flow"
    )  # a word it does not know
    assert changed.tokens[2] == view["replacement"] == "[UNK]"
    said = {entry["label"]: entry["probability"] for entry in view["blanked"][1]["said"]}
    assert said == pytest.approx(dict(changed.prediction.alternatives), abs=1e-5)
    before = {entry["label"]: entry["probability"] for entry in view["said"]}
    assert before != pytest.approx(said, abs=1e-4)


def test_blanking_agrees_with_blank_out(classifier):
    view = make_view(opened(tiny.TEXT, classifier), STANDALONE)
    expected = attnflow.blank_out(tiny.TEXT, classifier, replacement="unk")
    label, before = view["said"][0]["label"], view["said"][0]["probability"]
    for entry in view["blanked"]:
        now = next(s["probability"] for s in entry["said"] if s["label"] == label)
        (at,) = entry["positions"]
        assert abs(now - before) == pytest.approx(expected.values[at], abs=1e-5)


@pytest.mark.parametrize("asked", [{}, {"target": "a"}, {"target": "a", "contrast": "red"}])
def test_what_changes_without_a_token_is_what_is_explained(models, asked):
    session = opened(tiny.TEXT, models["tiny/gpt2"], **{"edges": "gradient", **asked})
    check = check_by_blanking(session, 128)
    shown = {tuple(each["positions"]): each for each in make_view(session, STANDALONE)["blanked"]}
    assert len(shown) == session.size
    for at, removal in enumerate(check.removals):
        assert shown[at,]["change"] == pytest.approx(removal.change, abs=1e-6)
    if "contrast" in asked:
        assert {each["label"] for each in shown[0,]["said"]}.isdisjoint(asked.values())


def test_long_inputs_leave_out_what_is_slow_or_large(models):
    text = " ".join(["the keys to the cabinet are here"] * 20)
    view = make_view(opened(text, models["tiny/long"]), SERVED)
    assert {part["method"] for part in view["scores"]} == {"raw", "rollout"}
    assert all(part["queries"] == [view["query"]] for part in view["scores"])
    assert len(to_json(view)) < 1_500_000
    kept = unpacked(view["edges"]["weight"])
    assert len(kept) <= 40_000
    assert (np.diff(kept) <= 0).all()


def test_the_strongest_edges_are_attention(models):
    session = opened(tiny.TEXT, models["tiny/verbs"])
    edges = make_view(session, SERVED)["edges"]
    found = attnflow.explain(
        tiny.TEXT, models["tiny/verbs"], method="raw", layers="all", query="all"
    )
    attention = found.scores
    step, query, key = (unpacked(edges[name]).astype(int) for name in ("step", "query", "key"))
    np.testing.assert_allclose(
        unpacked(edges["weight"]), attention[step - 1, query, key], atol=1e-6
    )
    assert len(step) == np.count_nonzero(attention)


def test_documents_fit_their_published_schema(models):
    check = TypeAdapter(Document)
    for name in ("tiny/verbs", "tiny/gpt2", "tiny/t5", "tiny/vit"):
        session = make_document([make_view(opened(inputs(name), models[name]), SERVED)], "flow")
        check.validate_python(json.loads(to_json(session)), strict=True)
    alone = attribution_view(
        attnflow.explain(tiny.TEXT, models["tiny/verbs"], heads="each", method="flow")
    )
    check.validate_python(json.loads(to_json(make_document([alone], "flow"))), strict=True)


def test_an_attribution_alone_keeps_its_scores(classifier):
    of = attnflow.explain(TEXT, classifier, method="rollout", layer=2)
    view = attribution_view(of)
    (scores,) = view["scores"]
    np.testing.assert_allclose(unpacked(scores["values"]), of.scores, atol=1e-6)
    assert (view["layer"], view["query"], view["traces"]) == (2, 0, [])
    assert view["words"]["labels"][2] == "old"


def test_a_large_attribution_keeps_the_explained_position():
    size = 300
    scores = np.random.default_rng(0).dirichlet(np.ones(size), size=(6, size))
    tokens = tuple(map(str, range(size)))
    of = attnflow.Attribution(tokens, scores, tuple(range(1, 7)), tuple(range(size)), 6, 7, "raw")
    (part,) = attribution_view(of)["scores"]
    assert part["queries"] == [7]
    np.testing.assert_allclose(unpacked(part["values"])[:, 0], scores[:, 7], atol=1e-6)


def test_json_is_no_markup():
    hostile = ["</script>", "<!--", "&amp;", "\u2028", "\x00", "\ud800", '"\\']
    text = to_json(hostile)
    assert not set("<>&\u2028") & set(text)
    text.encode()  # no lone surrogates
    assert json.loads(text) == hostile


def test_the_page_names_no_folder(classifier):
    assert model_name("/home/someone/models/bert") == "models/bert"
    assert model_name("org/bert") == "org/bert"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda session: session.scores("flow", [9], [0]), "layer=9"),
        (lambda session: session.scores("flow", [1], [99]), "query=99"),
        (lambda session: trace_path(session, "flow", 1, 0, 99), "key=99"),
        (lambda session: trace_path(session, "magic", 1, 0, 0), "method='magic'"),
    ],
)
def test_what_does_not_exist_is_named(classifier, ask, message):
    with pytest.raises(InputError, match=message):
        ask(opened(TEXT, classifier))


def test_options_reach_the_scores(classifier):
    session = opened(TEXT, classifier, residual=0.2, discard=0.1)
    expected = attnflow.explain(TEXT, classifier, residual=0.2, discard=0.1, method="flow")
    np.testing.assert_allclose(
        session.scores("flow", [3], [0]).values[0, 0], expected.values, atol=1e-6
    )


def test_explore_refuses_before_loading():
    with pytest.raises(InputError, match="method='magic'"):
        attnflow.explore("x", "no/such-model", method="magic")
    with pytest.raises(InputError, match="residual"):
        attnflow.explore("x", "no/such-model", residual=3)


def test_methods_are_described(models, classifier):
    view = make_view(opened(TEXT, classifier), SERVED)
    names = [m["name"] for m in view["methods"]]
    assert names[0] == "flow"  # what was asked for comes first
    assert sorted(names) == sorted(METHODS)
    assert all(m["summary"].endswith(".") for m in view["methods"])
    first = sorted((m for m in view["methods"] if m["first"]), key=lambda m: m["slot"])
    assert [(m["name"], m["title"], m["label"], m["slot"]) for m in first] == [
        ("raw", "Raw attention", "Raw", 0),
        ("rollout", "Attention rollout", "Rollout", 1),
        ("flow", "Attention flow", "Flow", 2),
    ]
    assert [m["reaches_input"] for m in first] == [False, True, True]
    assert all(m["traced"] == m["layered"] for m in view["methods"])
    signed = [m["name"] for m in view["methods"] if m["signed"]]
    assert signed == ["gradient-input", "integrated", "lrp"]
    assert view["rule"] == {"name": "attention", "title": "Attention"}
    (alone,) = attribution_view(attnflow.blank_out(TEXT, classifier))["methods"]
    assert (alone["name"], alone["slot"], alone["traced"]) == ("blank-out", 3, False)


@pytest.mark.parametrize(
    ("name", "causal"), [("tiny/verbs", False), ("tiny/gpt2", True), ("tiny/t5", False)]
)
def test_causality_is_said_and_not_guessed(models, name, causal):
    view = make_view(opened(tiny.TEXT, models[name], correction=None), SERVED)
    assert view["causal"] is causal
    assert not any(each["ratio"] for each in view["methods"])
    usual = make_view(opened(tiny.TEXT, models[name], edges="attention"), SERVED)
    ratios = {each["name"]: each["ratio"] for each in usual["methods"]}
    assert ratios["flow"] is ratios["rollout"] is causal
    assert not ratios["direct"]  # corrected by leaving out the first token
    alone = attribution_view(
        attnflow.explain(tiny.TEXT, models[name], correction=None, method="flow")
    )
    assert (alone["causal"], alone["methods"][0]["ratio"]) == (causal, False)
    usual = attribution_view(attnflow.explain(tiny.TEXT, models[name], method="flow"))
    assert usual["methods"][0]["ratio"] is causal


def test_what_can_be_blanked_and_what_sets_the_scale_is_said(models):
    view = make_view(opened("the keys to the cabinet", models["tiny/verbs"]), SERVED)
    assert view["tokens"][0] == "[CLS]"
    assert view["blankable"] == view["ordinary"] == [1, 2, 3, 4, 5]
    without = make_view(opened("the keys to the cabinet", models["tiny/long"]), SERVED)
    assert without["replacement"] is None
    assert without["blankable"] == []
    image = make_view(opened(inputs("tiny/vit"), models["tiny/vit"]), SERVED)
    assert image["ordinary"] == list(range(1, len(image["tokens"])))


@pytest.mark.parametrize("name", ["tiny/verbs", "tiny/pieces"])
@pytest.mark.parametrize("text", ["the old cats playing", "the keys"])
def test_words_have_scores_wherever_words_are_known(models, name, text):
    view = make_view(opened(text, models[name]), STANDALONE)
    words = attnflow.explain(text, models[name], words=True, method="flow")
    assert view["words"]["labels"] == list(words.tokens)
    assert sorted(at for group in view["words"]["groups"] for at in group) == list(
        range(len(view["tokens"]))
    )
    for part in [*view["scores"], *view["head_scores"]]:
        assert part["words"]["shape"][-1] == len(words.tokens)
    flow = next(part for part in view["scores"] if part["method"] == "flow")
    at = flow["queries"].index(view["query"])
    np.testing.assert_allclose(unpacked(flow["words"])[-1, at], words.values, atol=1e-6)


@pytest.mark.parametrize(("name", "heads"), [("tiny/verbs", "each"), ("tiny/pieces", "mean")])
def test_an_attribution_alone_has_words(models, name, heads):
    of = attnflow.explain(
        "the old cats playing", models[name], query="all", heads=heads, method="flow"
    )
    view = attribution_view(of)
    groups = view["words"]["groups"]
    gather = np.mean if view["methods"][0]["ratio"] else np.sum
    expected = np.stack([gather(of.scores[..., group], -1) for group in groups], -1)
    fused = expected.mean(1) if heads == "each" else expected
    np.testing.assert_allclose(unpacked(view["scores"][0]["words"]), fused, rtol=1e-5)
    for at, part in enumerate(view["head_scores"]):
        np.testing.assert_allclose(unpacked(part["words"]), expected[:, :, at], rtol=1e-5)
    assert len(view["head_scores"]) == (len(of.queries) if heads == "each" else 0)


def test_what_a_reader_must_know_of_the_text_is_said(classifier):
    view = attnflow.explore("the zebra " * 40, classifier, truncate=True).document["views"][0]
    notes = " ".join(view["notes"])
    assert "only the first 64 of its 82 tokens were read" in notes
    assert "does not know 31 of 62 tokens and reads [UNK]: “zebra”" in notes


def test_what_a_method_without_layers_found_is_of_the_output(classifier):
    session = opened(TEXT, classifier, methods=("flow", "blank-out"), layer=1)
    view = make_view(session, STANDALONE)
    assert {each["method"]: each["layer"] for each in view["findings"]} == {
        "raw": 1,
        "rollout": 1,
        "flow": 1,
        "blank-out": 3,
    }


def test_an_attribution_keeps_the_positions_that_its_target_is_of(models):
    gradient = {"method": "rollout", "edges": "gradient"}
    of = attnflow.explain(tiny.TEXT, models["tiny/gpt2"], query=2, **gradient)
    assert of.queries == (2,)
    whole = attnflow.explain(tiny.TEXT, models["tiny/verbs"], query=2, **gradient)
    assert len(whole.queries) == len(whole.tokens)  # a label is the same at every position


def test_what_the_headline_names_is_traced_first():
    """Not what speaks against the answer, however high its score."""
    text = "The plot falls apart and the jokes are tired. It is honest and warm."
    scores = attnflow.explain(text).values[1:-1]
    assert abs(scores.min()) > scores.max()
    for words in (False, True):
        view = attnflow.explore(text, words=words).document["views"][0]
        found = view["findings"][0]
        named = {part["text"] for part in found["parts"] if part["role"] in ("token", "for")}
        assert view["labels"][view["key"]] in named
