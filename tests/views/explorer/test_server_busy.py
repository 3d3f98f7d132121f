"""A server under load: slow requests, limits of time and room, what is kept and what is dropped."""

import asyncio
import gc
import json
import socket
import threading
import time
import weakref
from dataclasses import dataclass

import httpx
import pytest

import talkers
from attnflow.errors import InputError
from attnflow.models.loading import load_model
from attnflow.views.explorer.server import requests, routes
from attnflow.views.explorer.server.app import make_app
from attnflow.views.explorer.server.limits import ApiError, Cancelled, Job, Limits
from attnflow.views.explorer.server.workers import Client, Task, Turns, Workers
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


def test_one_slow_request_does_not_stop_the_others_and_ends_when_its_client_leaves(slow):
    app, started, ended = slow
    with running(app(seconds=300)) as url:  # the first answer may wait for kernels to be compiled
        leaving = send(url, "explain", {"text": "slow"})
        assert started.wait(30)
        answer = httpx.post(f"{url}/api/explain", json={"text": TEXT}, timeout=120)
        assert answer.status_code == 200
        assert not ended.is_set()
        leaving.close()
        assert ended.wait(30)
        wait_until(lambda: httpx.get(f"{url}/health").json()["pending"] == 0)


def test_time_runs_out_with_a_clear_answer(slow):
    app, _, ended = slow
    with running(app(seconds=2)) as url:
        answer = httpx.post(f"{url}/api/explain", json={"text": "slow"}, timeout=120)
        assert error(answer) == (504, "timeout")
        assert "2 seconds" in answer.json()["error"]["message"]
        assert ended.wait(30)


def test_a_full_server_says_it_is_busy(slow):
    app, started, ended = slow
    with running(app(workers=1, waiting=0, seconds=300)) as url:
        first = send(url, "explain", {"text": "slow"})
        assert started.wait(60)
        answer = httpx.post(f"{url}/api/explain", json={"text": TEXT}, timeout=120)
        assert error(answer) == (503, "busy")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert httpx.get(f"{url}/health").status_code == 200
        first.close()
        assert ended.wait(60)


async def stays():
    """A client that does not leave."""
    await asyncio.Event().wait()


ME, YOU = Client("192.0.2.1"), Client("192.0.2.2")


def test_waiting_counts_as_time():
    go_on = threading.Event()

    def work(job):
        assert go_on.wait(30)
        job.check()

    async def scene():
        workers = Workers(Limits(workers=1, waiting=4, seconds=2))
        results = await asyncio.gather(
            *(workers.run(work, ME, stays) for _ in range(3)), return_exceptions=True
        )
        go_on.set()
        workers.close()
        return results

    first, *others = apart(scene)
    assert (first.status, first.code) == (504, "timeout")
    for other in others:  # had no turn
        assert (other.status, other.code) == (503, "busy")
        assert other.retry_after >= 1


@pytest.fixture
def turns():
    """A few workers whose first tasks end when they are told to, and the names of the others."""

    class Scene:
        def __init__(self, **limits):
            self.workers = Workers(Limits(**{"workers": 1, "seconds": 20, **limits}))
            self.done, self.begun, self.go_on = [], threading.Event(), threading.Event()

        def first(self, _):
            self.begun.set()
            assert self.go_on.wait(20)

        def ask(self, client, name=None):
            work = self.first if name is None else lambda _: self.done.append(name)
            return asyncio.ensure_future(self.workers.run(work, client, stays))

        async def waits_for(self, count):
            while self.workers.pending < count:
                await asyncio.sleep(0)

    return Scene


def test_clients_have_turns():
    """Whoever asks for much waits for those who ask for little, at an address and between them."""
    waiting = Turns()
    mine = [*["a"] * 4, "b", "b", "", ""]
    asked = [*[(ME.address, name) for name in mine], *[(YOU.address, "")] * 2]
    tasks = [Task(Client(*each), None, Job()) for each in asked]
    for task in tasks:
        waiting.add(task)
    waiting.remove(tasks[2])  # has left

    def take():
        return tasks.index(waiting.take(lambda _: True))

    assert [take() for _ in range(5)] == [0, 8, 4, 9, 6]
    assert waiting.take(lambda address: address == YOU.address) is None
    waiting.add(tasks[8])
    assert [take() for _ in range(5)] == [1, 8, 5, 7, 3]
    assert waiting.take(lambda _: True) is None
    assert not waiting.remove(tasks[0])


def test_one_worker_is_left_to_other_clients(turns):
    async def scene():
        of = turns(workers=2)
        slow = [of.ask(ME), of.ask(ME), of.ask(ME)]
        await of.waits_for(3)
        await asyncio.wait_for(of.ask(YOU, "you"), 10)
        assert of.workers.pending == 3
        of.go_on.set()
        await asyncio.gather(*slow)
        of.workers.close()
        return of.done

    assert apart(scene) == ["you"]


@pytest.mark.parametrize("ending", [None, InputError("no")])
def test_a_place_is_free_before_the_result_is_told(ending):
    """Whoever has an answer may ask again at once, however slow the worker's thread is."""
    workers, pending = Workers(Limits(workers=1, waiting=0)), []

    def work(_):
        if ending is not None:
            raise ending

    task = Task(ME, work, Job(time.monotonic() + 60))
    task.result.add_done_callback(lambda _: pending.append(workers.pending))
    workers._enter(task)
    assert task.result.exception(30) is ending
    wait_until(lambda: pending)
    workers.close()
    assert pending == [0]


def test_a_client_that_asks_for_too_much_is_told_so_and_others_are_not(turns):
    async def scene():
        of = turns(waiting=5, waiting_each=3)
        crowd = [of.ask(ME) for _ in range(4)]
        await of.waits_for(4)
        (mine,) = await asyncio.gather(of.ask(ME), return_exceptions=True)
        others = [of.ask(Client(f"192.0.2.{at}")) for at in (2, 3)]
        await of.waits_for(6)
        (another,) = await asyncio.gather(of.ask(Client("192.0.2.4")), return_exceptions=True)
        of.go_on.set()
        await asyncio.gather(*crowd, *others)
        assert of.workers.pending == 0
        of.workers.close()
        return mine, another

    for refused, status in zip(apart(scene), (429, 503), strict=True):
        assert (refused.status, refused.code) == (status, "busy")
        assert 1 <= refused.retry_after <= 60


def test_who_leaves_while_waiting_has_no_turn(turns):
    async def scene():
        of = turns()
        first = of.ask(ME)
        await asyncio.to_thread(of.begun.wait, 10)
        left = asyncio.Event()
        leaving = asyncio.ensure_future(
            of.workers.run(lambda _: of.done.append("left"), ME, left.wait)
        )
        after = of.ask(ME, "stayed")
        await of.waits_for(3)
        left.set()
        (said,) = await asyncio.gather(leaving, return_exceptions=True)
        assert said.status == 499
        assert of.workers.pending == 2
        of.go_on.set()
        await asyncio.gather(first, after)
        of.workers.close()
        return of.done

    assert apart(scene) == ["stayed"]


class Held:
    """What work holds, such as a session."""


@pytest.mark.parametrize("ending", [InputError("no"), RuntimeError("bug"), Cancelled()])
def test_what_failed_work_held_is_freed_at_once(ending):
    """An error refers to its functions' variables; without help only the collector frees them."""
    found = []

    def work(_):
        held = Held()
        found.append(weakref.ref(held))
        try:
            raise ValueError  # that is the context of another one
        except ValueError:
            raise ending  # noqa: B904

    async def scene():
        workers = Workers(Limits())
        with pytest.raises((InputError, RuntimeError, ApiError)):
            await workers.run(work, ME, stays)
        workers.close()
        return found[0]()

    gc.disable()
    try:
        assert apart(scene) is None
    finally:
        gc.enable()


@pytest.mark.parametrize("edges", ["auto", "gradient", "attention"])
def test_sessions_are_freed_when_they_are_dropped(models, edges):
    """Thousands of texts are explained: what waits for the collector would fill the memory."""
    served = {name: models[name] for name in ("tiny/verbs", "tiny/gpt2")}
    cache = make_app(served).state.sessions
    # What other tests left behind, such as a server whose thread has not ended yet, is not counted.
    others = [each for each in gc.get_objects() if is_ours(type(each))]

    def explain(body):
        job = Job(time.monotonic() + 60)
        routes.explain(requests.InputRequest(**body))(cache, job)
        asked = {**body, "layers": [3], "query": 4 if "gpt2" in body["model"] else 0}
        for method in ("flow", "rollout", "integrated", "blank-out"):
            routes.scores(requests.ScoresRequest(**asked, method=method))(cache, job)
        one = {**body, "layer": 3, "query": asked["query"], "key": 1, "method": "flow"}
        routes.trace(requests.TraceRequest(**one))(cache, job)
        routes.blank(requests.BlankRequest(**body, sets=[[1], [1, 2]]))(cache, job)

    for model in served:
        body = {"model": model, "text": TEXT, "edges": edges}
        explain(body)  # what is made once per model
        cache._cached.clear()
        gc.collect()
        gc.disable()
        try:
            explain(body)
            dropped = [weakref.ref(session) for session, _ in cache._cached.values()]
            dropped += [weakref.ref(each().activations) for each in dropped]
            cache._cached.clear()
            assert dropped
            assert not any(each() for each in dropped)
            assert waiting_for_the_collector() == set()
        finally:
            gc.enable()
    del others


def waiting_for_the_collector():
    """The types of this library's objects that refer to each other and are not used any more."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        types = {type(each) for each in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    return set(filter(is_ours, types))


def is_ours(kind):
    """Whether a type is of this library."""
    return str(kind.__module__).startswith("attnflow")


@pytest.mark.parametrize(
    ("options", "at"),
    [
        ({"generate": 40}, 3),  # while it is written
        ({"answer": "the keys are on the mat", "method": "blank-out"}, 3),
    ],
)
def test_an_answer_that_nobody_waits_for_is_given_up(monkeypatch, options, at):
    """The client leaves at some run of the model: there are no more, and nothing is held."""
    talker = load_model(talkers.llama())
    body = {"text": "the keys are here", **options}
    arrived, go_on, runs, jobs, made = threading.Event(), threading.Event(), [], [], []
    usual = routes.answer_document

    def watch(*_):
        runs.append(1)
        if len(runs) == at:
            arrived.set()
            assert go_on.wait(20)

    def document(cache, request, job):
        jobs.append(job)
        return usual(cache, request, job)

    def keep(_, __, output):
        made.append(weakref.ref(output.logits))

    monkeypatch.setattr(routes, "answer_document", document)
    app = make_app({"tiny/talker": talker})
    with running(app) as url:
        whole = httpx.post(f"{url}/api/answer", json=body, timeout=30).json()
        hooks = [
            talker.network.register_forward_pre_hook(watch),
            talker.network.register_forward_hook(keep),
        ]
        leaving = send(url, "answer", body)
        assert arrived.wait(20)
        gc.disable()
        try:
            leaving.close()
            assert jobs[1].stopped.wait(30)
            go_on.set()
            wait_until(lambda: app.state.workers.pending == 0)
            assert not any(each() is not None for each in made)
        finally:
            gc.enable()
            [hook.remove() for hook in hooks]
        assert len(runs) <= at + 1
        assert app.state.sessions.memory.taken == 0
        assert httpx.post(f"{url}/api/answer", json=body, timeout=30).json() == whole


@pytest.mark.parametrize(
    "options",
    [
        {"generate": 3},
        {"answer": "the cat", "edges": "value-zeroing"},
        {"answer": "the cat", "edges": "attention", "method": "flow"},
        {"answer": "the cat", "method": "blank-out"},
    ],
)
def test_an_answer_can_be_given_up_at_every_check(options):
    """It is never taken for a refusal, after which something else would be tried."""
    talker = load_model(talkers.llama())
    cache = make_app({"tiny/talker": talker}).state.sessions
    request = requests.AnswerRequest(text="the keys are here", **options)
    whole = Ending()
    routes.answer(request)(cache, whole)
    checks = 10**9 - whole.left
    assert checks >= 2
    for last in range(1, checks + 1):
        job = Ending(left=last)
        with pytest.raises(Cancelled):
            routes.answer(request)(cache, job)
        assert job.left == 0
        assert cache.memory.taken == 0


@pytest.mark.parametrize("ask", [routes.explain, routes.answer])
def test_an_encoder_decoder_can_be_stopped_at_every_token_that_it_writes(ask):
    writer = load_model(talkers.t5())
    cache = make_app({"tiny/writer": writer}).state.sessions
    explains = ask is routes.explain
    kind = requests.InputRequest if explains else requests.AnswerRequest
    body = {"text": "the keys are here"} | ({} if explains else {"generate": 12})
    runs = []
    hook = writer.network.decoder.register_forward_pre_hook(lambda *_: runs.append(1))
    try:
        ask(kind(**body))(cache, Job())  # what is made once per model
        cache._cached.clear()
        stopped_after = []
        for checks in range(1, 12):
            runs.clear()
            with pytest.raises(Cancelled):
                ask(kind(**body))(cache, Ending(left=checks))
            stopped_after.append(len(runs))
            assert cache.memory.taken == 0
        first = stopped_after.index(1)
        assert stopped_after[first:] == list(range(1, 12 - first))
        assert first < 5
    finally:
        hook.remove()


@dataclass
class Ending(Job):
    """A job whose client leaves after so many checks."""

    left: int = 10**9

    def check(self):
        self.left -= 1
        if not self.left:
            self.stopped.set()
        super().check()


def wait_until(so):
    deadline = time.monotonic() + 120
    while not so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def send(url, path, body):
    """The connection on which a request was sent; its client may leave."""
    content = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])))
    connection.sendall(
        b"POST /api/%b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (path.encode(), len(content), content)
    )
    return connection


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


@pytest.mark.parametrize(("waiting", "clients"), [(4, 30), (512, 12)])
def test_a_crowd_gets_answers_or_is_told_to_wait(classifier, waiting, clients):
    """A short form of experiments/attnflow_experiments/load.py."""
    app = make_app({"tiny/verbs": classifier}, Limits(waiting=waiting))

    async def visit(url, seed, seen):
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            for turn in range(4):
                text = f"the {['key', 'keys', 'cat'][(seed + turn) % 3]} to the mat"
                answer = await client.post("/api/explain", json={"text": text})
                seen.append(answer.status_code)

    async def crowd(url):
        seen = []
        await asyncio.gather(*(visit(url, seed, seen) for seed in range(clients)))
        return seen

    with running(app) as url:
        seen = apart(lambda: crowd(url))
        assert set(seen) == ({200, 503} if waiting == 4 else {200})
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
