"""What a stranger, a foreign web site or a broken client can try: each is refused, and cheaply."""

import base64
import io
import json
import random
import threading
import time
import tracemalloc
from collections import Counter
from dataclasses import replace

import httpx
import pytest
from transformers import PreTrainedModel

from attnflow.edges import EDGE_RULES
from attnflow.errors import AttnflowError, InputError, ModelError
from attnflow.methods import METHODS
from attnflow.views.explorer.images import pixels_of
from attnflow.views.explorer.server import bodies, requests, routes
from attnflow.views.explorer.server.app import make_app
from attnflow.views.explorer.server.guard import Guard
from attnflow.views.explorer.server.limits import ApiError, Cancelled, Job, Limits
from attnflow.views.explorer.server.memory import Memory, Shape
from serving import error, running

TEXT = "the keys to the cabinet"


@pytest.fixture
def unused(monkeypatch, classifier):
    """A server whose model must not run."""

    def run(*_, **__):
        pytest.fail("the model ran")

    monkeypatch.setattr(type(classifier), "run", run)
    with running(make_app({"tiny/verbs": classifier})) as url:
        yield url


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("heads", {"method": "rollout", "layers": [1] * 1000, "query": 0}),
        ("heads", {"method": "flow", "layers": [2, 1, 2], "query": 0}),
        ("scores", {"method": "flow", "layers": [1, 9], "query": 0}),
        ("scores", {"method": "flow", "layers": [1], "query": 99}),
        ("heads", {"method": "raw", "layers": [1], "query": 7}),
        ("trace", {"method": "flow", "layer": 9, "query": 0, "key": 0}),
        ("trace", {"method": "flow", "layer": 1, "query": 0, "key": 7}),
        ("blank", {"sets": [[1, 1]]}),
        ("blank", {"sets": [[1, 2], [2, 1]]}),
        ("blank", {"sets": [[1], [99]]}),
    ],
)
def test_repeated_and_impossible_places_are_refused_before_the_model_runs(unused, path, body):
    answer = httpx.post(f"{unused}/api/{path}", json={"text": TEXT, **body}, timeout=20)
    assert error(answer) == (422, "invalid")


@pytest.mark.parametrize("field", ["text", "model", "answer", "image", "edges", "\ud800"])
def test_half_characters_are_refused(unused, field):
    name = field.encode("ascii", "backslashreplace").decode()
    body = f'{{"text": "x", "{name}": "\\ud800"}}'
    headers = {"content-type": "application/json"}
    answer = httpx.post(f"{unused}/api/explain", content=body, headers=headers, timeout=20)
    assert error(answer) == (400, "invalid")


INPUT = {"text": "x"}
SCORES = {**INPUT, "method": "flow", "query": 0}
MANY = 90_000  # the most that a body can have


@pytest.mark.parametrize(
    ("model", "body", "expected"),
    [
        (requests.BlankRequest, {**INPUT, "sets": [1] * MANY}, 422),
        (requests.BlankRequest, {**INPUT, "sets": [[]] * (MANY // 2)}, 422),
        (requests.BlankRequest, {**INPUT, "sets": [[at] for at in range(MANY // 2)]}, 413),
        (requests.BlankRequest, {**INPUT, "sets": [[-1] * 1024] * 64}, 422),
        (requests.BlankRequest, {**INPUT, "sets": [[1] * MANY]}, 413),
        (requests.ScoresRequest, {**SCORES, "layers": [""] * MANY}, 422),
        (requests.HeadsRequest, {**SCORES, "layers": [1] * MANY}, 413),
        (requests.AnswerRequest, {**INPUT, "parts": {str(at): 0 for at in range(MANY)}}, 413),
        (requests.AnswerRequest, {**INPUT, "parts": {str(at): [0, 1] for at in range(300)}}, 413),
        (requests.AnswerRequest, {**INPUT, "parts": {"a" * 1001: [0, 1]}}, 413),
        (requests.InputRequest, {str(at): 0 for at in range(MANY)}, 422),
        (requests.InputRequest, {**INPUT, "a" * 900_000: 0}, 422),
        (requests.InputRequest, {**INPUT, "model": "a" * 900_000}, 413),
        (requests.InputRequest, {**INPUT, "target": "a" * 900_000}, 413),
        (requests.InputRequest, b'{"text": ' + b"[" * MANY, 400),
        (requests.InputRequest, b'{"target": ' + b"9" * 900_000 + b"}", 400),
        (requests.InputRequest, b'{"target": NaN}', 400),
        (requests.InputRequest, b"", 400),
        (requests.InputRequest, [1] * MANY, 422),
        (requests.InputRequest, [1] * 2 * MANY, 413),
    ],
)
def test_large_bodies_are_refused_at_the_first_error(monkeypatch, model, body, expected):
    counts = []
    usual = bodies._named
    monkeypatch.setattr(bodies, "_named", lambda e: counts.append(e.error_count()) or usual(e))
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(ApiError) as refused:
        bodies.read_body(content, model, Limits())
    assert refused.value.status == expected
    assert len(str(refused.value)) < 1200
    assert sum(counts) <= 1


def test_what_is_valid_fits_into_a_body():
    limits = Limits()
    text = "\U0001f511," * (limits.characters // 2)
    texts = {"text": text, "pair": text, "answer": text}
    # As many positions as an input can have, and more than there may be commas in the texts.
    sets = [list(range(first, first + limits.tokens)) for first in range(requests.MOST_SETS)]
    content = json.dumps({**texts, "sets": sets}).encode()
    assert len(content) < bodies.most_bytes(limits, images=False) < 1_100_000
    assert bodies.read_body(content, requests.BlankRequest, limits).pair == text
    parts = {f"{'n' * 990}{at}": [at, at + 1] for at in range(requests.MOST_PARTS)}
    content = json.dumps({"text": text, "answer": text, "parts": parts}).encode()
    assert len(content) < bodies.most_bytes(limits, images=False)
    assert len(bodies.read_body(content, requests.AnswerRequest, limits).parts) == len(parts)
    assert bodies.most_bytes(limits, images=True) > limits.image


def test_others_are_served_while_a_body_is_read(monkeypatch, classifier):
    begun, go_on = threading.Event(), threading.Event()
    usual = routes.read_body

    def slowly(*given):
        begun.set()
        assert go_on.wait(20)
        return usual(*given)

    monkeypatch.setattr(routes, "read_body", slowly)
    answers = []

    def ask():
        answers.append(httpx.post(f"{url}/api/blank", json={**INPUT, "sets": [1]}, timeout=30))

    with running(make_app({"tiny/verbs": classifier})) as url:
        asking = threading.Thread(target=ask)
        asking.start()
        assert begun.wait(20)
        assert httpx.get(f"{url}/health", timeout=10).json()["pending"] == 1
        assert not answers
        go_on.set()
        asking.join(20)
    assert error(answers[0]) == (422, "invalid")


@pytest.mark.parametrize("served", ["tiny/verbs", "tiny/vit"])
def test_only_images_make_large_bodies(models, served):
    headers = {"content-type": "application/json"}
    body = b'{"image": "' + b"A" * 2_000_000 + b'"}'
    with running(make_app({served: models[served]})) as url:
        answer = httpx.post(f"{url}/api/explain", content=body, headers=headers, timeout=20)
        many = b'{"sets": [' + b"1," * 2_000_000 + b"1]}"
        refused = httpx.post(f"{url}/api/blank", content=many, headers=headers, timeout=20)
    assert error(answer) == ((413, "too-large") if served == "tiny/verbs" else (422, "invalid"))
    assert error(refused) == (413, "too-large")


def test_bodies_take_bounded_memory(classifier):
    """A client that sends much and waits is told so; what others send is still read."""
    limits = Limits(workers=1, bodies=300_000, bodies_each=200_000)
    started, go_on = threading.Event(), threading.Event()

    def hold(*_):
        started.set()
        assert go_on.wait(30)
        return {}

    app = make_app({"tiny/verbs": classifier}, limits)
    body = {"text": "a" * 15_000, "pair": "b" * 15_000, "image": "c" * 130_000}
    with running(app) as url, pytest.MonkeyPatch.context() as patched:
        patched.setattr(routes, "read_body", hold)

        def ask(path="explain", local="127.0.0.1", **more):
            transport = httpx.HTTPTransport(local_address=local)
            with httpx.Client(transport=transport, timeout=40) as client:
                return client.post(f"{url}/api/{path}", json={**body, **more})

        first = threading.Thread(target=ask)
        first.start()
        assert started.wait(20)
        refused = ask()
        assert error(refused) == (429, "busy")
        assert refused.headers["retry-after"] == "1"
        go_on.set()
        first.join(20)
        guard = app.middleware_stack
        while not isinstance(guard, Guard):
            guard = guard.app
        assert guard.held.total() == 0


KINDS = ("tiny/verbs", "tiny/gpt2", "tiny/t5", "tiny/long")
ALL_EDGES = ("auto", "relevance", "attention", "alti", "gradient", "value-zeroing")


def test_what_is_refused_is_refused_before_the_model_runs(models):
    """Any method with any edges, at any place: a refusal costs no run of the model."""
    served = {name: models[name] for name in KINDS}
    cache = make_app(served, Limits(cached_inputs=0)).state.sessions
    runs = []
    hooks = [
        module.register_forward_pre_hook(lambda *_: runs.append(1))
        for model in served.values()
        for module in model.network.modules()
        if isinstance(module, PreTrainedModel)
    ]
    counts = Counter()

    def ask(route, request):
        runs.clear()
        try:
            route(request)(cache, Job(time.monotonic() + 60))
            kind = "answered"
        except AttnflowError:
            kind = "refused"
        counts[route.__name__, kind] += 1
        assert kind == "answered" or not runs, request

    rng = random.Random(0)
    for name in KINDS:
        body = {"model": name, "text": TEXT, **({"answer": "the cat"} if name == "tiny/t5" else {})}
        ask(routes.explain, requests.InputRequest(**body))  # what is found out once per model
        depth = served[name].depth
        for method in METHODS:
            edges = rng.choice(ALL_EDGES)
            chosen = {**body, "method": method, "edges": edges, "query": rng.choice([0, 1, 4])}
            layers = rng.choice([[depth], [1, depth], [1]])
            ask(routes.scores, requests.ScoresRequest(**chosen, layers=layers))
            ask(routes.heads, requests.HeadsRequest(**chosen, layers=[1]))
            ask(routes.trace, requests.TraceRequest(**chosen, layer=depth, key=1))
            given = {**body, "method": method, "edges": edges, "answer": "the cat"}
            ask(routes.answer, requests.AnswerRequest(**given))
        for positions in ([0], [1], [2, 3]):
            ask(routes.blank, requests.BlankRequest(**body, sets=[positions]))
    for hook in hooks:
        hook.remove()
    for route in ("scores", "heads", "trace", "answer", "blank"):
        assert counts[route, "refused"] > 2
        assert counts[route, "answered"] > 2


def test_heads_of_edges_that_a_model_refuses_are_still_had(monkeypatch, classifier):
    """Where there is no relevance, attention is used instead, and that has single heads."""
    relevance = EDGE_RULES["relevance"]

    def refuse(_):
        msg = "this model has no such block"
        raise ModelError(msg)

    monkeypatch.setitem(EDGE_RULES._members, "relevance", replace(relevance, maps=refuse))
    cache = make_app({"tiny/verbs": classifier}).state.sessions
    request = requests.HeadsRequest(text=TEXT, method="rollout", layers=[1], query=0)
    job = Job(time.monotonic() + 60)
    with pytest.raises(InputError, match="takes all heads together"):
        routes.heads(request)(cache, job)
    view = routes.explain(requests.InputRequest(text=TEXT))(cache, job)["views"][0]
    assert (view["rule"]["name"], view["heads"]) == ("attention", 4)
    cache._cached.clear()
    assert routes.heads(request)(cache, job)["values"]["shape"] == [1, 4, 7]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("explain", {"target": True}),
        ("explain", {"contrast": False}),
        ("explain", {"target": 1.0}),
        ("explain", {"target": [1]}),
        ("explain", {"bos": 1}),
        ("scores", {"method": "flow", "layers": [True], "query": 0}),
        ("scores", {"method": "flow", "layers": [1], "query": True}),
        ("scores", {"method": "flow", "layers": [1.0], "query": 0}),
        ("trace", {"method": "flow", "layer": True, "query": 0, "key": 0}),
        ("trace", {"method": "flow", "layer": 1, "query": 0, "key": True}),
        ("blank", {"sets": [[True]]}),
        ("answer", {"generate": True}),
        ("answer", {"parts": {"a": [False, True]}}),
        ("answer", {"bos": "yes"}),
    ],
)
def test_true_is_no_number_and_one_is_no_truth(unused, path, body):
    answer = httpx.post(f"{unused}/api/{path}", json={"text": TEXT, **body}, timeout=20)
    assert error(answer) == (422, "invalid")
    assert next(iter(body)) in answer.json()["error"]["message"] or len(body) > 1


def test_memory_is_refused_before_anything_is_allocated(monkeypatch, models):
    long = models["tiny/long"]
    monkeypatch.setattr(type(long), "run", lambda *_, **__: pytest.fail("the model ran"))
    app = make_app({"tiny/long": long}, Limits(memory=2**24, request_memory=2**23))
    with running(app) as url:
        body = {"text": "the keys " * 240, "method": "flow", "layers": [6], "query": 0}
        body["edges"] = "attention"
        answer = httpx.post(f"{url}/api/heads", json=body, timeout=20)
        assert error(answer) == (413, "too-large")
        assert "GiB of memory" in answer.json()["error"]["message"]
        assert app.state.sessions.memory.taken == 0


def test_no_answer_is_written_to_a_text_that_is_too_long(monkeypatch, models):
    pair = models["tiny/t5"]
    monkeypatch.setattr(pair.network, "forward", lambda *_, **__: pytest.fail("the model ran"))
    for limits, said in (
        (Limits(tokens=50), "51 tokens; at most 50"),
        (Limits(memory=2**13, request_memory=2**12), "GiB of memory"),
    ):
        with running(make_app({"tiny/t5": pair}, limits)) as url:
            answer = httpx.post(f"{url}/api/explain", json={"text": "keys " * 48}, timeout=20)
            assert error(answer) == (413, "too-large")
            assert said in answer.json()["error"]["message"]


def test_a_text_opens_no_file(monkeypatch, tmp_path, models):
    """A model of two towers reads images, too: in a request, the name of one is a text."""
    from PIL import Image

    from attnflow.models.image.towers import TowersModel

    reads, sees = models["tiny/verbs"], models["tiny/vit"]
    path = tmp_path / "secret.png"
    Image.new("RGB", (32, 32)).save(path)
    monkeypatch.setattr(type(sees), "tokenize", lambda *_, **__: pytest.fail("a file was read"))
    with running(make_app({"clip": TowersModel(reads, sees, "clip")})) as url:
        answer = httpx.post(f"{url}/api/explain", json={"text": str(path)}, timeout=20)
        assert answer.json()["views"][0]["text"] == str(path)


def test_estimates_are_not_exceeded(models):
    """The peak of what NumPy allocates; what torch takes is a smaller part of the estimate."""
    from attnflow.views.explorer.document import heads_of
    from opened import opened

    long = models["tiny/long"]
    shape = Shape(long, EDGE_RULES["attention"], 202, threads=1)
    made = opened("the keys " * 100, long)
    assert made.size == 202
    for method in ("raw", "rollout", "flow"):  # compiles
        heads_of(made, method, [1], 0)
    made = opened("the keys " * 100, long)
    tracemalloc.start()
    try:
        for method in ("raw", "rollout", "flow"):
            heads_of(made, method, [1, 6], 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    most = shape.single + shape.merged + shape.solving
    assert most / 20 < peak < most


def test_requests_wait_for_memory_and_give_it_back():
    memory = Memory(Limits(memory=100, request_memory=60))
    order, turns = [], []
    entered, waits = threading.Event(), threading.Event()

    class Waiting(Job):
        """Work that looks whether it may go on while there is no memory for it."""

        def check(self):
            turns.append(order.copy())
            if len(turns) == 3:
                waits.set()
            super().check()

    def work(name, job, inside):
        with memory.reserve(60, job):
            order.append(name)
            entered.set()
            inside.wait(60)
        order.append(f"{name} left")

    gates = [threading.Event(), threading.Event()]
    first = threading.Thread(target=work, args=("first", Job(), gates[0]))
    first.start()
    assert entered.wait(30)
    second = threading.Thread(target=work, args=("second", Waiting(), gates[1]))
    second.start()
    assert waits.wait(30)
    assert turns[:3] == [["first"]] * 3
    with (
        pytest.raises(Cancelled),
        memory.reserve(60, Job(time.monotonic() - 1)),
    ):
        pass
    [gate.set() for gate in gates]
    first.join()
    second.join()
    assert order.index("first left") < len(order)
    assert (order[0], sorted(order)) == (
        "first",
        ["first", "first left", "second", "second left"],
    )
    assert memory.taken == 0
    with pytest.raises(ApiError, match="GiB"), memory.reserve(61, Job()):
        pass


def test_images_are_measured_before_they_are_decoded(monkeypatch, models):
    from PIL import Image

    content = io.BytesIO()
    Image.new("1", (5000, 5000)).save(content, "PNG")
    encoded = base64.b64encode(content.getvalue()).decode()
    assert len(encoded) < 10_000
    assert pixels_of(encoded, 25_000_000) == 25_000_000
    monkeypatch.setattr(Image.Image, "convert", lambda *_: pytest.fail("decoded"))
    with running(make_app({"tiny/vit": models["tiny/vit"]})) as url:
        answer = httpx.post(f"{url}/api/explain", json={"image": encoded}, timeout=20)
        assert error(answer) == (422, "invalid")
        assert "5000 × 5000 pixels; at most 16,000,000" in answer.json()["error"]["message"]


def test_broken_images_are_refused(models):
    from PIL import Image

    content = io.BytesIO()
    Image.new("RGB", (64, 64)).save(content, "PNG")
    cut = base64.b64encode(content.getvalue()[:60]).decode()
    with running(make_app({"tiny/vit": models["tiny/vit"]})) as url:
        answer = httpx.post(f"{url}/api/explain", json={"image": cut}, timeout=20)
        assert error(answer) == (422, "invalid")
