"""A server under load: slow requests, limits of time and room, what is kept and what is dropped."""

import asyncio
import socket
import threading
import time

import httpx
import pytest

from attnflow.views.explorer.server import routes
from attnflow.views.explorer.server.app import make_app
from attnflow.views.explorer.server.limits import ApiError, Cancelled, Job, Limits
from attnflow.views.explorer.server.workers import Workers
from serving import apart, error, running

TEXT = "the keys to the cabinet"


@pytest.fixture
def slow(monkeypatch, classifier):
    """A server on which one text takes for ever, and says when it starts and when it is stopped."""
    started, ended = threading.Event(), threading.Event()
    usual = routes.make_view

    def patient(made, extent, check, image=None):
        if made.tokens.text == "slow":
            started.set()
            try:
                while True:
                    check()
                    time.sleep(0.01)
            except Cancelled:
                ended.set()
                raise
        return usual(made, extent, check, image)

    monkeypatch.setattr(routes, "make_view", patient)

    def app(**limits):
        return make_app({"tiny/verbs": classifier}, Limits(**limits))

    return app, started, ended


def ask_for_slow(url):
    """A connection that has sent the slow request; closing it is leaving."""
    connection = socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])))
    body = b'{"text": "slow"}'
    connection.sendall(
        b"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    return connection


def test_one_slow_request_does_not_stop_the_others_and_ends_when_its_client_leaves(slow):
    app, started, ended = slow
    with running(app()) as url:
        leaving = ask_for_slow(url)
        assert started.wait(30)
        answer = httpx.post(f"{url}/api/explain", json={"text": TEXT}, timeout=20)
        assert answer.status_code == 200
        assert not ended.is_set()
        leaving.close()
        assert ended.wait(30)
        deadline = time.monotonic() + 30
        while httpx.get(f"{url}/health").json()["pending"]:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_time_runs_out_with_a_clear_answer(slow):
    app, _, ended = slow
    with running(app(seconds=1.5)) as url:
        answer = httpx.post(f"{url}/api/explain", json={"text": "slow"}, timeout=60)
        assert error(answer) == (504, "timeout")
        assert "1.5 seconds" in answer.json()["error"]["message"]
        assert ended.wait(30)


def test_a_full_server_says_it_is_busy(slow):
    app, started, _ = slow
    with running(app(workers=1, waiting=0)) as url, ask_for_slow(url):
        assert started.wait(30)
        answer = httpx.post(f"{url}/api/explain", json={"text": TEXT}, timeout=60)
        assert error(answer) == (503, "busy")
        assert answer.headers["retry-after"] == "1"
        assert httpx.get(f"{url}/health").status_code == 200


def test_waiting_counts_as_time():
    async def scene():
        workers = Workers(Limits(workers=1, waiting=4, seconds=0.3))

        async def stays():
            return False

        def work(job):
            while True:
                job.check()
                time.sleep(0.01)

        results = await asyncio.gather(
            *(workers.run(work, stays) for _ in range(3)), return_exceptions=True
        )
        workers.close()
        return results

    results = apart(scene)
    assert all(isinstance(each, ApiError) and each.code == "timeout" for each in results)


def test_flow_of_a_long_text_stops_between_pieces(models):
    from opened import opened

    made = opened(" ".join(["the keys to the cabinet are here"] * 40), models["tiny/long"])
    job = Job(time.monotonic() + 60)
    calls = []

    def check():
        calls.append(time.monotonic())
        if len(calls) == 2:
            job.stopped.set()
        job.check()

    with pytest.raises(Cancelled):
        made.scores("flow", [6], [0], check=check)
    assert len(calls) == 2


def test_a_crowd_gets_answers_or_is_told_to_wait(classifier):
    """A short form of experiments/attnflow_experiments/load.py."""
    app = make_app({"tiny/verbs": classifier}, Limits(waiting=4))

    async def visit(url, seed, seen):
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            for turn in range(4):
                text = f"the {['key', 'keys', 'cat'][(seed + turn) % 3]} to the mat"
                answer = await client.post("/api/explain", json={"text": text})
                seen.append(answer.status_code)

    async def crowd(url):
        seen = []
        await asyncio.gather(*(visit(url, seed, seen) for seed in range(30)))
        return seen

    with running(app) as url:
        seen = apart(lambda: crowd(url))
        assert set(seen) == {200, 503}
        assert httpx.get(f"{url}/health").json()["pending"] == 0
    assert len(app.state.sessions._cached) == 3


def test_what_was_read_last_is_cached_within_the_limit(classifier):
    app = make_app({"tiny/verbs": classifier}, Limits(cached_bytes=40_000))
    sessions = app.state.sessions
    from attnflow.views.explorer.server.requests import InputRequest

    job = Job(time.monotonic() + 60)

    def opened(cache, text):
        with cache.open(InputRequest(text=text), job, lambda _: 0) as found:
            return found

    first = opened(sessions, TEXT)
    assert opened(sessions, TEXT) is first
    for word in ("key", "cat", "mat", "red", "old"):
        opened(sessions, f"the {word} is on the mat")
    assert sum(session.nbytes for session, _ in sessions._cached.values()) <= 40_000
    assert opened(sessions, TEXT) is not first
    few = make_app({"tiny/verbs": classifier}, Limits(cached_inputs=2)).state.sessions
    for word in ("key", "cat", "mat"):
        opened(few, word)
    assert len(few._cached) == 2
