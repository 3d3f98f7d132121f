"""Who may connect to a server, for how long, and what becomes of connections when it stops."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from attnflow.views.explorer.server import routes
from attnflow.views.explorer.server.access import Access, default_hosts, host_name, is_loopback
from attnflow.views.explorer.server.app import make_app
from attnflow.views.explorer.server.limits import Limits
from attnflow.views.explorer.server.sessions import distinct_names
from serving import error, free_port, running, wait_until_it_answers

TEXT = "the keys to the cabinet"
TOKEN = "a-token-of-24-letters-ok"


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
            slow.settimeout(60)
            start = time.monotonic()
            try:
                slow.sendall(sent)
                while slow.recv(4096):
                    pass
            except ConnectionError:
                pass
            assert time.monotonic() - start < 0.8 * Limits().transfer_seconds
        assert httpx.get(f"{url}/health").status_code == 200


def test_a_dripping_sender_is_closed(classifier):
    limits = Limits(transfer_seconds=0.5)
    with running(make_app({"tiny/verbs": classifier}, limits), limits) as url:
        port = int(url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port)) as slow:
            start = time.monotonic()
            try:
                while time.monotonic() - start < Limits().transfer_seconds:
                    slow.sendall(b"G")
                    time.sleep(0.05)
            except OSError:
                pass
            assert time.monotonic() - start < 0.8 * Limits().transfer_seconds


def test_a_slow_body_is_answered_and_closed(classifier):
    limits = Limits(transfer_seconds=0.4)
    with running(make_app({"tiny/verbs": classifier}, limits), limits) as url:
        port = int(url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.settimeout(60)
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
        for each in idle:  # an answer shows that the server knows the connection
            each.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert each.recv(4096).startswith(b"HTTP/1.1 200 ")
        answer = httpx.get(f"{url}/health")
        assert error(answer) == (503, "busy")
        [each.close() for each in idle]
        deadline = time.monotonic() + 30
        while httpx.get(f"{url}/health").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)


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
        assert started.wait(30)
        app.state.workers.stop()  # what a signal does
        asking.join(30)
    assert error(found[0]) == (503, "stopping")


def test_sigterm_is_answered_in_the_documented_shape():
    """The real program, stopped while a flow over many tokens is solved."""
    port = free_port()
    command = [sys.executable, "-m", "attnflow", "serve", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as server:
        try:
            assert b"http://127.0.0.1" in server.stdout.readline()
            url = f"http://127.0.0.1:{port}"
            wait_until_it_answers(url)
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
            asking.join(60)
            assert server.wait(60) in (-signal.SIGTERM, 0, 130, 143)
        finally:
            server.kill()
    answer = found[0]
    assert answer.status_code == 200 or error(answer) in ((503, "stopping"), (422, "invalid"))
