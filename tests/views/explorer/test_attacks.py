"""What a stranger, a foreign web site or a broken client can try: each is refused, and cheaply."""

import base64
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc

import httpx
import pytest

from attnflow.edges import EDGE_RULES
from attnflow.views.explorer.images import pixels_of
from attnflow.views.explorer.server import routes
from attnflow.views.explorer.server.access import Access, default_hosts, host_name, is_loopback
from attnflow.views.explorer.server.app import make_app
from attnflow.views.explorer.server.limits import ApiError, Cancelled, Job, Limits
from attnflow.views.explorer.server.memory import Memory, Shape
from attnflow.views.explorer.server.sessions import distinct_names
from serving import running

TEXT = "the keys to the cabinet"
TOKEN = "a-token-of-24-letters-ok"


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


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


def test_what_is_no_http_is_refused_in_the_same_shape(address):
    host, port = address.removeprefix("http://").split(":")
    for sent in (b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(sent)
            head, _, body = b"".join(iter(lambda: connection.recv(4096), b"")).partition(
                b"\r\n\r\n"
            )
        assert head.startswith(b"HTTP/1.1 400 ")
        assert json.loads(body)["error"]["code"] == "invalid"


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
    order = []

    def work(name, inside):
        with memory.reserve(60, Job(time.monotonic() + 10)):
            order.append(name)
            inside.wait(5)
        order.append(f"{name} left")

    gates = [threading.Event(), threading.Event()]
    first = threading.Thread(target=work, args=("first", gates[0]))
    first.start()
    while memory.taken != 60:
        time.sleep(0.01)
    second = threading.Thread(target=work, args=("second", gates[1]))
    second.start()
    time.sleep(0.15)
    assert order == ["first"]
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


@pytest.mark.parametrize(
    "host",
    [
        "testserver",
        "evil.example",
        "127.0.0.1@evil.example",
        "user@127.0.0.1",
        "127.0.0.1:80@evil.example",
        "127.0.0.1.evil.example",
        "localhost:99999",
        "localhost:",
        "localhost/",
        "[::1",
        "",
    ],
)
def test_foreign_and_tricky_hosts_are_refused(address, host):
    port = int(address.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(f"GET /api/models HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert raw.recv(100).split()[1] in (b"403", b"400")


@pytest.mark.parametrize(
    "origin", ["null", "https://evil.example", "http://user@{host}", "evil://{host}", "{host}"]
)
def test_foreign_origins_are_refused(address, origin):
    host = address.removeprefix("http://")
    headers = {"origin": origin.format(host=host)}
    answer = httpx.post(f"{address}/api/explain", json={"text": TEXT}, headers=headers)
    assert error(answer) == (403, "forbidden")


def test_a_token_opens_a_server(classifier):
    app = make_app({"tiny/verbs": classifier}, access=Access(token=TOKEN))
    with running(app) as url, httpx.Client(base_url=url) as client:
        assert error(client.get("/api/models")) == (401, "unauthorized")
        assert error(client.get("/static/app.js")) == (401, "unauthorized")
        assert error(client.post("/api/explain", json={"text": TEXT})) == (401, "unauthorized")
        assert client.get("/", headers={"accept": "text/html"}).status_code == 401
        assert client.get("/health").status_code == 200
        for wrong in (f"Bearer {TOKEN}x", "Bearer", f"Basic {TOKEN}", "Bearer é"):
            headers = {"authorization": wrong.encode("utf-8")}
            assert client.get("/api/models", headers=headers).status_code == 401
        assert client.get("/", params={"token": "wrong"}).status_code == 401
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert client.get("/api/models", headers=headers).status_code == 200
        link = client.get("/", params={"token": TOKEN, "a": "b"})
        assert (link.status_code, link.headers["location"]) == (303, "/?a=b")
        assert "httponly" in link.headers["set-cookie"].lower()
        assert "samesite=lax" in link.headers["set-cookie"].lower()
        assert client.get("/api/models").status_code == 200  # by the cookie
        assert TOKEN not in client.get("/").text
        headers = {"origin": "https://evil.example"}
        assert error(client.get("/api/models", headers=headers)) == (403, "forbidden")


def test_names_of_hosts():
    assert default_hosts("127.0.0.1")[:3] == ("127.0.0.1", "localhost", "[::1]")
    assert default_hosts("192.0.2.7") == ("192.0.2.7",)
    assert default_hosts("2001:db8::1") == ("[2001:db8::1]",)
    assert socket.gethostname() in default_hosts("0.0.0.0")
    assert host_name("Example.ORG.:8000") == "example.org"
    assert [is_loopback(each) for each in ("127.0.0.2", "::1", "localhost", "0.0.0.0")] == [
        *[True] * 3,
        False,
    ]
    assert distinct_names(["a", "b", "a", "a"]) == ["a", "b", "a (2)", "a (3)"]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /health HT",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET ",  # a second request, on the way
    ],
)
def test_idle_and_slow_connections_are_closed(classifier, sent):
    limits = Limits(transfer_seconds=0.4)
    with running(make_app({"tiny/verbs": classifier}, limits), limits) as url:
        port = int(url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.settimeout(5)
            start = time.monotonic()
            try:
                slow.sendall(sent)
                while slow.recv(4096):
                    pass
            except ConnectionError:
                pass
            assert time.monotonic() - start < 3
        assert httpx.get(f"{url}/health").status_code == 200


def test_a_dripping_sender_is_closed(classifier):
    limits = Limits(transfer_seconds=0.5)
    with running(make_app({"tiny/verbs": classifier}, limits), limits) as url:
        port = int(url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port)) as slow:
            start = time.monotonic()
            try:
                while time.monotonic() - start < 4:
                    slow.sendall(b"G")
                    time.sleep(0.05)
            except OSError:
                pass
            assert time.monotonic() - start < 3


def test_a_slow_body_is_answered_and_closed(classifier):
    limits = Limits(transfer_seconds=0.4)
    with running(make_app({"tiny/verbs": classifier}, limits), limits) as url:
        port = int(url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.settimeout(5)
            slow.sendall(
                b"POST /api/explain HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
            )
            answer = slow.recv(4096)
            while part := slow.recv(4096):
                answer += part
        assert answer.split()[1] == b"408"
        assert b'"code":"slow"' in answer


def test_connections_are_limited(classifier):
    limits = Limits(connections=3)
    with running(make_app({"tiny/verbs": classifier}, limits), limits) as url:
        port = int(url.rsplit(":", 1)[1])
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        time.sleep(0.2)
        answer = httpx.get(f"{url}/health")
        assert error(answer) == (503, "busy")
        [each.close() for each in idle]
        time.sleep(0.2)
        assert httpx.get(f"{url}/health").status_code == 200


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


def test_a_stopping_server_answers_what_runs(monkeypatch, classifier):
    started = threading.Event()

    def endless(_, __, check, ___=None):
        started.set()
        while True:
            check()
            time.sleep(0.01)

    monkeypatch.setattr(routes, "make_view", endless)
    app = make_app({"tiny/verbs": classifier}, Limits(closing_seconds=0.3))
    found = []
    with running(app) as url:
        asking = threading.Thread(
            target=lambda: found.append(
                httpx.post(f"{url}/api/explain", json={"text": TEXT}, timeout=20)
            )
        )
        asking.start()
        assert started.wait(10)
        app.state.workers.stop()  # what a signal does
        asking.join(10)
    assert error(found[0]) == (503, "stopping")


def test_sigterm_is_answered_in_the_documented_shape():
    """The real program, stopped while a flow over many tokens is solved."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "attnflow", "serve", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as server:
        try:
            assert b"http://127.0.0.1" in server.stdout.readline()
            url = f"http://127.0.0.1:{port}"
            for _ in range(200):
                try:
                    httpx.get(f"{url}/health")
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
            body = {"text": "the keys " * 60}
            found = []
            asking = threading.Thread(
                target=lambda: found.append(httpx.post(f"{url}/api/explain", json=body, timeout=30))
            )
            asking.start()
            # It may be answered before anybody sees that it is pending.
            while asking.is_alive() and not httpx.get(f"{url}/health").json()["pending"]:
                time.sleep(0.001)
            server.send_signal(signal.SIGTERM)
            asking.join(20)
            assert server.wait(20) in (-signal.SIGTERM, 0, 130, 143)
        finally:
            server.kill()
    answer = found[0]
    assert answer.status_code == 200 or error(answer) in ((503, "stopping"), (422, "invalid"))
