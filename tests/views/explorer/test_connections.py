"""Who may connect to a server, for how long, and what becomes of connections when it stops."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import httpx
import pytest

from attnflow.views.explorer.server import routes
from attnflow.views.explorer.server.access import (
    Access,
    client_group,
    default_hosts,
    host_name,
    is_loopback,
)
from attnflow.views.explorer.server.app import make_app
from attnflow.views.explorer.server.limits import Limits
from attnflow.views.explorer.server.sessions import distinct_names
from serving import apart, error, running, wait_until_it_answers

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
    limits = Limits(head_seconds=0.4)
    with running(make_app({"tiny/verbs": classifier}, limits), limits) as url:
        port = int(url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port)) as slow:
            with suppress(ConnectionError):
                slow.sendall(sent)
            assert closes(slow)
        assert httpx.get(f"{url}/health").status_code == 200


def drip(connection):
    """Send a little now and then, for longer than any server should wait."""
    for _ in range(2000):
        connection.sendall(b"G")
        time.sleep(0.05)


def test_a_dripping_sender_is_closed(classifier):
    limits = Limits(head_seconds=0.5)
    with running(make_app({"tiny/verbs": classifier}, limits), limits) as url:
        port = int(url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port)) as slow, pytest.raises(ConnectionError):
            drip(slow)


def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_error(classifier):
    """It would fill the log of the server with tracebacks."""
    sent, received = (
        [],
        [
            {"type": "http.request", "body": b'{"text": "the', "more_body": True},
            {"type": "http.disconnect"},
        ],
    )
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/explain",
        "query_string": b"",
        "headers": [*headers, (b"content-length", b"40")],
        "client": ("127.0.0.1", 40_000),
        "server": ("127.0.0.1", 8000),
    }

    async def receive():
        return received.pop(0)

    async def send(message):
        sent.append(message)

    apart(lambda: make_app({"classifier": classifier})(scope, receive, send))
    assert sent[0]["status"] == 400
    assert not received


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


HALF_OPEN = {
    "nothing is sent": b"",
    "half of a head": b"GET /health HTTP/1.1\r\nHost: 127.0",
    "a head without its body": (
        b"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: 50\r\n\r\n{"
    ),
    "a second request is due": b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


@pytest.mark.parametrize("sent", HALF_OPEN.values(), ids=HALF_OPEN)
def test_connections_on_which_nothing_happens_make_room_for_others(classifier, sent):
    limits = Limits(connections=20, connections_each=10, head_seconds=60, transfer_seconds=60)
    with running(make_app({"tiny/verbs": classifier}, limits), limits) as url, ExitStack() as held:
        where = "127.0.0.1", int(url.rsplit(":", 1)[1])
        idle = [held.enter_context(socket.create_connection(where)) for _ in range(30)]
        for each in idle:
            with suppress(ConnectionError):  # another one may have its place
                each.sendall(sent)
        # Connections are accepted in their order: by now, all but the last ten are closed.
        assert httpx.get(f"{url}/health").status_code == 200
        assert all(closes(each) for each in idle[:20])


def closes(connection):
    """Whether the other side closes a connection, perhaps after an answer."""
    connection.settimeout(60)
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.fixture
def patient(monkeypatch):
    """Explaining takes until it is released; how many have begun is counted."""
    begun, release = threading.Semaphore(0), threading.Event()

    def wait(*_):
        begun.release()
        assert release.wait(30)
        return {}

    monkeypatch.setattr(routes, "make_view", wait)
    yield begun, release
    release.set()


def test_too_many_connections_at_work_are_refused_and_those_of_others_are_not(classifier, patient):
    begun, release = patient
    limits = Limits(workers=2, connections=5, connections_each=2)
    body = {"text": TEXT}
    with (
        running(make_app({"tiny/verbs": classifier}, limits), limits) as url,
        ThreadPoolExecutor(4) as pool,
    ):

        def ask(local):
            with at_address(local) as client:
                return client.post(f"{url}/api/explain", json=body)

        working = [pool.submit(ask, "127.0.0.1") for _ in range(2)]
        assert all(begun.acquire(timeout=20) for _ in working)
        refused = httpx.get(f"{url}/health")
        assert error(refused) == (503, "busy")
        assert refused.headers["retry-after"] == "1"
        with at_address("127.0.0.2") as client:
            assert client.get(f"{url}/health").status_code == 200
        other = pool.submit(ask, "127.0.0.2")  # a worker is there for whoever has none
        assert begun.acquire(timeout=20)
        release.set()
        assert [each.result().status_code for each in (*working, other)] == [200] * 3


def at_address(local):
    """A client at another address of this machine."""
    with socket.socket() as probe:
        try:
            probe.bind((local, 0))
        except OSError:
            pytest.skip(f"this machine has no address {local}")
    return httpx.Client(transport=httpx.HTTPTransport(local_address=local), timeout=40)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("testclient", "testclient"),
    ],
)
def test_a_client_is_an_address_or_a_network_of_ipv6(address, expected):
    assert client_group(address) == expected


@pytest.mark.parametrize(
    "others",
    [
        ('{"a": "b"}',),
        ("a b c=d",),
        ("caf\u00e9=1", "=", ";;"),
        ('bad="unfinished',),
        ("name=value, with=commas", "@/()<>=1"),
        ("x" * 5000,),
    ],
)
def test_cookies_of_others_keep_nobody_out(classifier, others):
    """Cookies know no ports: a browser sends those of every program on this machine."""
    app = make_app({"tiny/verbs": classifier}, access=Access(token=TOKEN))
    with running(app) as url:
        name = f"attnflow-{url.rsplit(':', 1)[1]}"
        own = f"{name}={TOKEN}"

        def status(*cookies):
            line = "; ".join(cookies).encode("latin-1")
            return httpx.get(f"{url}/api/models", headers={b"cookie": line}).status_code

        for at in range(len(others) + 1):
            assert status(*others[:at], own, *others[at:]) == 200
        assert status(*others, f'{name}="{TOKEN}"') == 200
        assert status(*others, f"{name}=wrong", own) == 200  # of another path, say
        for wrong in (f"{name}=wrong", f"x{own}", f"{name}x={TOKEN}", f"{name}", f"{TOKEN}={name}"):
            assert status(*others, wrong) == 401


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
                httpx.post(f"{url}/api/explain", json={"text": TEXT}, timeout=60)
            )
        )
        asking.start()
        assert started.wait(30)
        app.state.workers.stop()  # what a signal does
        asking.join(60)
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
            wait_until_it_answers(url)
            body = {"text": "the keys " * 60}
            found = []
            asking = threading.Thread(
                target=lambda: found.append(httpx.post(f"{url}/api/explain", json=body, timeout=60))
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
