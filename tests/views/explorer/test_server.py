"""The server answers, refuses clearly, keeps its limits and stops what nobody waits for."""

import base64
import io
import time

import httpx
import numpy as np
import pytest

import attnflow
from attnflow.views.explorer.server import routes
from attnflow.views.explorer.server.app import make_app
from attnflow.views.wording.numbers import correlation
from serving import error, running

TEXT = "the keys to the cabinet"


@pytest.fixture
def ask(address):
    def post(path, **body):
        body = {"edges": "attention", **body}
        return httpx.post(f"{address}/api/{path}", json=body, timeout=30)

    return post


def test_methods_are_compared_with_blanking_where_that_is_cheap(ask, classifier):
    (view,) = ask("explain", text=TEXT, edges="auto").json()["views"]
    # Scores with a sign are compared with changes that have one, other scores with their size.
    named = {
        "relevance flow": (attnflow.explain(TEXT, classifier), True),
        "rollout": (attnflow.explain(TEXT, classifier, method="rollout"), False),
    }
    assert view["agreement"].startswith("Blanking ")
    for name, (found, signed) in named.items():
        blanked = attnflow.blank_out(TEXT, classifier, signed=signed)
        expected = correlation(attnflow.agreement(found, blanked, special=False))
        assert f"{name} (ρ {expected})" in view["agreement"]


def test_explaining_answers_quickly(ask):
    spent = []
    for word in ("old", "red", "key", "cat", "mat"):
        start = time.process_time()  # of this process, in which the server runs, too
        answer = ask("explain", text=f"the {word} keys to the cabinet")
        spent.append(time.process_time() - start)
        assert answer.json()["views"][0]["tokens"][1:3] == ["the", word]
    assert min(spent) < 0.5


def test_scores_heads_and_blanks_are_the_librarys(ask, classifier):
    answer = ask("scores", text=TEXT, method="flow", layers=[3, 1], query=2).json()
    values = np.frombuffer(base64.b64decode(answer["values"]["data"]), "<f4")
    of = attnflow.explain(TEXT, classifier, query=2, layers="all", method="flow")
    np.testing.assert_allclose(values.reshape(2, -1), [of.row(3), of.row(1)], atol=1e-6)
    answer = ask("heads", text=TEXT, method="rollout", layers=[2], query=2).json()
    values = np.frombuffer(base64.b64decode(answer["values"]["data"]), "<f4")
    of = attnflow.explain(TEXT, classifier, method="rollout", layers="all", query=2, heads="each")
    np.testing.assert_allclose(values.reshape(4, -1), of.row(2), atol=1e-6)
    both = ask("blank", text=TEXT, sets=[[1, 2]]).json()["blanked"][0]["said"]
    expected = attnflow.explain("zebra zebra to the cabinet", classifier, method="flow").prediction
    assert {s["label"]: s["probability"] for s in both} == pytest.approx(
        dict(expected.alternatives), abs=1e-5
    )


def test_edges_towards_a_target_are_those_of_the_explained_position(ask, models):
    model, edges = "tiny/gpt2", "gradient"
    (part, *_) = ask("explain", text=TEXT, model=model, edges=edges).json()["views"][0]["scores"]
    assert part["queries"] == [4]  # of another position, another prediction is differentiated
    for query in (2, 4):
        options = {"method": "flow", "edges": edges, "query": query}
        of = attnflow.explain(TEXT, models[model], **options)
        asked = {"text": TEXT, "model": model, "edges": edges, "method": "flow", "query": query}
        answer = ask("scores", layers=[3], **asked).json()
        values = np.frombuffer(base64.b64decode(answer["values"]["data"]), "<f4")
        np.testing.assert_allclose(values, of.values, atol=1e-6)
        trace = ask("trace", layer=3, key=1, **asked).json()
        plain = attnflow.explain(TEXT, models[model], **options, correction=None)
        assert trace["value"] == pytest.approx(plain.values[1], rel=1e-5)


def test_every_kind_of_model_answers(ask):
    from PIL import Image

    content = io.BytesIO()
    Image.new("RGB", (50, 40), (200, 30, 30)).save(content, "PNG")
    image = base64.b64encode(content.getvalue()).decode()
    seen = ask("explain", model="tiny/vit", image=image).json()["views"][0]
    assert (seen["grid"]["rows"], seen["image"][:22]) == (4, "data:image/jpeg;base64")
    pair = ask("explain", model="tiny/t5", text=TEXT, answer="the key").json()["views"][0]
    assert pair["answer"] == "the key"
    assert "L4 cross" in pair["columns"]
    causal = ask("explain", model="tiny/gpt2", text=TEXT).json()["views"][0]
    assert causal["options"]["correction"] == "uniform"


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("explain", {"text": "x", "model": "../../etc/passwd"}, (404, "unknown-model")),
        ("explain", {"text": "x", "model": "bert-base-uncased"}, (404, "unknown-model")),
        ("explain", {}, (422, "invalid")),
        ("explain", {"text": 3}, (422, "invalid")),
        ("explain", {"text": "x", "device": "cuda"}, (422, "invalid")),
        ("explain", {"text": "x", "image": "x"}, (422, "invalid")),
        ("explain", {"text": "x", "answer": "y"}, (422, "invalid")),
        ("explain", {"model": "tiny/vit", "image": "bm90IGFuIGltYWdl"}, (422, "invalid")),
        ("explain", {"text": "the " * 20_000}, (413, "too-large")),
        ("explain", {"text": "the " * 550, "model": "tiny/long"}, (413, "too-large")),
        ("explain", {"text": "the " * 100}, (422, "invalid")),  # this model takes 64 tokens
        ("explain", {"text": "", "model": "tiny/gpt2"}, (422, "invalid")),
        (
            "trace",
            {"text": "x", "method": "flow", "layer": 9, "query": 0, "key": 0},
            (422, "invalid"),
        ),
        (
            "trace",
            {"text": "x", "method": "flow", "layer": 1, "query": 0, "key": 9},
            (422, "invalid"),
        ),
        ("scores", {"text": "x", "method": "flow", "layers": [1], "query": -1}, (422, "invalid")),
        ("scores", {"text": "x", "method": "magic", "layers": [1], "query": 0}, (422, "invalid")),
        # Methods without layers have no heads, and need a probability.
        (
            "heads",
            {"text": "x", "method": "blank-out", "layers": [3], "query": 0},
            (422, "invalid"),
        ),
        (
            "scores",
            {
                "text": "x",
                "answer": "y",
                "model": "tiny/t5",
                "method": "integrated",
                "layers": [5],
                "query": 4,
            },
            (422, "invalid"),
        ),
        ("blank", {"text": "x", "sets": [[0]]}, (422, "invalid")),
        ("blank", {"text": "x", "sets": [[at] for at in range(65)]}, (413, "too-large")),
        ("blank", {"text": "x", "sets": [[1]], "model": "tiny/long"}, (422, "invalid")),
    ],
)
def test_what_cannot_be_answered_is_refused_clearly(ask, path, body, expected):
    answer = ask(path, **body)
    assert error(answer) == expected
    assert len(answer.json()["error"]["message"]) > 10


def test_a_body_is_json_and_no_larger_than_allowed(address):
    url = f"{address}/api/explain"
    kind = {"content-type": "application/json"}
    assert error(httpx.post(url, content="{", headers=kind)) == (400, "invalid")
    assert error(httpx.post(url, content=b"x" * 10_000_000, headers=kind)) == (413, "too-large")

    def endless():
        for _ in range(20):
            yield b" " * 1_000_000

    assert error(httpx.post(url, content=endless(), headers=kind)) == (413, "too-large")
    assert httpx.get(f"{address}/api/nothing").json()["error"]["code"] == "not-found"
    assert httpx.get(f"{address}/static/../server.py").status_code == 404


def test_only_local_names_and_the_page_itself_may_ask(address):
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
        assert error(httpx.get(f"{address}/api/models", headers=headers)) == (403, "forbidden")
    assert httpx.get(f"{address}/api/models", headers={"origin": address}).status_code == 200


def test_every_answer_carries_security_headers(address):
    for path in ("/", "/static/app.js", "/health", "/api/models", "/nothing"):
        headers = httpx.get(address + path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    page = httpx.get(address + "/").text
    assert "<script>" not in page
    assert "style=" not in page


def test_a_failing_model_is_no_broken_answer(monkeypatch, classifier):
    def broken(*_):
        msg = "secret"
        raise RuntimeError(msg)

    monkeypatch.setattr(routes, "make_view", broken)
    with running(make_app({"tiny/verbs": classifier})) as url:
        answer = httpx.post(f"{url}/api/explain", json={"text": TEXT}, timeout=20)
        assert error(answer) == (500, "failed")
        assert "secret" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert httpx.get(f"{url}/health").json()["pending"] == 0


def test_health_and_description(address):
    assert httpx.get(f"{address}/health").json() == {
        "status": "ok",
        "version": attnflow.__version__,
        "pending": 0,
    }
    described = httpx.get(f"{address}/api/openapi.json").json()
    assert set(described["paths"]) >= {"/health", "/api/explain", "/api/trace", "/api/blank"}
    assert "503" in described["paths"]["/api/explain"]["post"]["responses"]
    assert "traces" in described["components"]["schemas"]["View"]["properties"]


def test_a_target_is_explained_and_named(ask, classifier):
    view = ask("explain", text=TEXT, edges="auto", target="singular", contrast="plural").json()
    (view,) = view["views"]
    assert view["options"]["target"] == "singular"
    assert view["options"]["contrast"] == "plural"
    assert view["rule"]["name"] == "relevance"
    asked = {"text": TEXT, "target": "singular", "contrast": "plural"}
    for edges, method in (("auto", "flow"), ("gradient", "direct-all"), ("auto", "gradient-input")):
        scores = ask("scores", **asked, edges=edges, method=method, layers=[3], query=0).json()
        found = np.frombuffer(base64.b64decode(scores["values"]["data"]), "<f4")
        options = {"target": "singular", "contrast": "plural"}
        named = {} if method == "flow" else {"method": method}
        expected = attnflow.explain(TEXT, classifier, **options, **named)
        np.testing.assert_allclose(found, expected.values, atol=1e-5)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"target": "dual"}, "'dual' is not a label of tiny/verbs; did you mean 'plural'? allowed"),
        ({"target": 7}, "target=7 does not exist; allowed: 0 to 1"),
        ({"target": 1, "contrast": 1}, "target and contrast are the same"),
    ],
)
def test_a_wrong_target_is_refused_in_words(ask, body, message):
    answer = ask("explain", text=TEXT, edges="auto", **body)
    assert answer.status_code == 422
    assert message in answer.json()["error"]["message"]


def test_edges_without_a_target_say_so(ask):
    (view,) = ask("explain", text=TEXT, edges="alti", target="singular").json()["views"]
    assert "edges 'alti' are the same for every target" in view["notes"][-1]


def test_the_default_is_what_answers_best(ask, classifier):
    document = ask("explain", text=TEXT, edges="auto").json()
    assert document["method"] == "relevance-flow"
    (view,) = document["views"]
    assert view["rule"]["name"] == "relevance"
    assert [each["name"] for each in view["methods"][:4]] == [
        "relevance-flow", "raw", "rollout", "flow",
    ]  # fmt: skip
    (scores,) = [part for part in view["scores"] if part["method"] == "relevance-flow"]
    assert (scores["layers"], scores["queries"]) == ([3], [view["query"]])
    found = np.frombuffer(base64.b64decode(scores["values"]["data"]), "<f4")
    np.testing.assert_allclose(found, attnflow.explain(TEXT, classifier).values, atol=1e-5)


def test_methods_beside_relevance_are_those_of_attention(ask, classifier):
    (view,) = ask("explain", text=TEXT, edges="auto").json()["views"]
    for part in view["scores"]:
        if part["method"] == "relevance-flow":
            continue
        expected = attnflow.explain(
            TEXT, classifier, method=part["method"], layers="all", query="all"
        )
        found = np.frombuffer(base64.b64decode(part["values"]["data"]), "<f4")
        np.testing.assert_allclose(found, expected.scores.ravel(), atol=1e-6)
        again = ask(
            "scores", text=TEXT, edges="attention", method=part["method"], layers=[1], query=0
        ).json()
        row = np.frombuffer(base64.b64decode(again["values"]["data"]), "<f4")
        np.testing.assert_allclose(row, expected.scores[0, 0], atol=1e-6)


@pytest.mark.parametrize("edges", ["relevance", "removal"])
def test_edges_of_one_target_are_offered_and_shown(ask, address, edges):
    offered = [each["name"] for each in httpx.get(f"{address}/api/models").json()["rules"]]
    assert edges in offered
    document = ask("explain", text=TEXT, edges=edges).json()
    assert document["method"] == f"{edges}-{attnflow.EDGE_RULES[edges].method}"
    (view,) = document["views"]
    assert view["rule"]["name"] == edges
    assert {"raw", "rollout", "flow"} <= {part["method"] for part in view["scores"]}


def test_a_cut_is_removed_from_the_model_where_that_is_asked_for(ask, classifier):
    asked = {"text": TEXT, "edges": "auto", "method": "flow", "layer": 3, "query": 0, "key": 2}
    plain = ask("trace", **asked).json()
    assert "verified" not in plain
    found = ask("trace", **asked, verify=True).json()
    traced = attnflow.routes(TEXT, classifier, to=2, verify=True)
    assert found["verified"].lower() == f"{traced.knockout.summary}.".lower()
    assert found["sentence"] == traced.summary
    assert found["value"] - found["opposed"] == pytest.approx(traced.score, abs=1e-5)


def test_an_answer_that_is_read_at_a_token_has_no_routes_from_it(ask):
    (view,) = ask("explain", text=TEXT, edges="auto").json()["views"]
    assert view["sources"] == [view["query"]]
    place = {"layer": 3, "query": 0, "key": view["query"]}
    answer = ask("trace", text=TEXT, edges="auto", method="flow", **place)
    assert answer.status_code == 422
    assert "takes no routes" in answer.text
