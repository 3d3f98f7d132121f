"""A real server in a thread, and ports for servers in processes of their own."""

import asyncio
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx


@contextmanager
def running(app, limits=None, port=0):
    """Where the app answers, while inside; leaving stops it."""
    from attnflow.views.explorer.server.connections import make_server
    from attnflow.views.explorer.server.limits import Limits

    bound = socket.create_server(("127.0.0.1", port))  # handed over: nobody can take it in between
    port = bound.getsockname()[1]
    server = make_server(app, "127.0.0.1", port, limits or Limits())
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    deadline = time.monotonic() + 120
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=60)
        assert not thread.is_alive()


def free_port():
    """A port that is free, and that no other process is given by chance.

    The kernel hands out ports from 32768 on, to every connection that leaves this machine's
    programs; below, each process of the tests begins at a place of its own.
    """
    for port in range(20_000 + os.getpid() % 100 * 100, 32_768):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    msg = "no port is free"
    raise AssertionError(msg)


def wait_until_it_answers(url):
    """Wait for a server in a process of its own."""
    deadline = time.monotonic() + 120
    while True:
        try:
            assert httpx.get(f"{url}/health", timeout=60).json()["status"] == "ok"
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)


def apart(scene):
    """The result of a coroutine function, run in a thread: the browser's loop is in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(scene())).result()


def error(answer):
    """What a refusal says: its status and its code."""
    return answer.status_code, answer.json()["error"]["code"]
