"""What a stranger, a foreign web site or a broken client can try: each is refused, and cheaply."""

import base64
import io
import threading
import time
import tracemalloc

import httpx
import pytest

from attnflow.edges import EDGE_RULES
from attnflow.views.explorer.images import pixels_of
from attnflow.views.explorer.server.app import make_app
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
    assert error(answer) == (422, "invalid")


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
    monkeypatch.setattr(type(pair), "generate", lambda *_: pytest.fail("the model ran"))
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
