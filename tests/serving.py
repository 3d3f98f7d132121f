"""A real server in a thread."""

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def running(app, limits=None):
    """Where the app answers, while inside; leaving stops it."""
    from attnflow.views.explorer.server.connections import make_server
    from attnflow.views.explorer.server.limits import Limits

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = make_server(app, "127.0.0.1", port, limits or Limits())
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=15)
        assert not thread.is_alive()


def apart(scene):
    """The result of a coroutine function, run in a thread: the browser's loop is in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(scene())).result()


def error(answer):
    """What a refusal says: its status and its code."""
    return answer.status_code, answer.json()["error"]["code"]
