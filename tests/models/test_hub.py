"""Names on the hub: asked briefly, offline respected, options passed on.

The hub is a server on this machine; the library runs in a process of its own, since
huggingface_hub reads its settings once.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from attnflow.errors import InputError, ModelError
from attnflow.models import locating
from attnflow.models.loading import LoadOptions, load_model

PROGRAM = """
import sys
from attnflow.models.loading import load_model
from attnflow.errors import ModelError
import transformers
transformers.AutoConfig
try:
    load_model(sys.argv[1])
except ModelError as error:
    print(error)
"""


def ask(name: str, folder, **settings: str) -> str:
    """The error that a name ends in."""
    environment = {**os.environ, "HF_HOME": str(folder), "HF_HUB_OFFLINE": "0", **settings}
    command = [sys.executable, "-c", PROGRAM, name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def silent() -> Iterator[tuple[str, socket.socket]]:
    """A server that never answers those who connect, and wait in a queue."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}", server


@contextmanager
def serve(root: int) -> Iterator[tuple[str, list[str]]]:
    """A server without models that says this of itself, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            found = self.path == "/"
            self.send_response(root if found or root != 200 else 404)
            if not found:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


@pytest.fixture
def empty() -> Iterator[tuple[str, list[str]]]:
    """A hub without models."""
    with serve(200) as hub:
        yield hub


def test_a_hub_that_does_not_answer_is_one_line_and_asked_once(silent, tmp_path):
    address, server = silent
    message = ask("someone/model", tmp_path, HF_ENDPOINT=address)
    assert "'someone/model' is not a folder here; the hub can't be reached" in message
    assert "\n" not in message
    server.setblocking(False)
    server.accept()[0].close()
    with pytest.raises(BlockingIOError):  # transformers would try again and again
        server.accept()
    assert locating.SECONDS < 5


def test_a_gateway_that_reaches_no_hub_is_asked_once(tmp_path):
    with serve(503) as (address, asked):
        message = ask("someone/model", tmp_path, HF_ENDPOINT=address)
    assert "'someone/model' is not a folder here; the hub can't be reached" in message
    assert asked == ["/"]


def test_a_switched_off_hub_is_never_asked(empty, tmp_path):
    address, asked = empty
    message = ask("someone/model", tmp_path, HF_ENDPOINT=address, HF_HUB_OFFLINE="1")
    assert "the hub is switched off (HF_HUB_OFFLINE)" in message
    assert asked == []


def test_a_revision_in_the_name_reaches_the_hub(empty, tmp_path):
    address, asked = empty
    message = ask("someone/model@v1.2", tmp_path, HF_ENDPOINT=address)
    assert "'someone/model' is not a folder here, and not a model on the hub" in message
    assert any("/someone/model/resolve/v1.2/config.json" in path for path in asked)


def test_the_answer_of_the_hub_is_remembered(monkeypatch):

    calls = []
    monkeypatch.setattr(locating, "is_offline", lambda: False)
    monkeypatch.setattr(locating, "is_reachable", lambda: bool(calls.append(time.monotonic())))
    monkeypatch.setattr(locating, "_answer", None)
    assert locating.is_unavailable()
    assert locating.is_unavailable()
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int4"}, "dtype='int4' is unknown; allowed: float32, float16"),
        ({"device": "cpu", "device_map": "auto"}, "device and device_map both say"),
        ({"device": "tpu"}, "device='tpu' is not here"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_loaded(options, message):
    with pytest.raises(InputError, match=message):
        load_model("no/such-model", **options)


def test_two_revisions_are_refused():
    with pytest.raises(InputError, match="names a revision, and revision='v2' another"):
        load_model("no/such-model@v1", revision="v2")


def test_options_are_refused_for_a_model_that_is_loaded():
    with pytest.raises(InputError, match="leave out dtype, revision and so on"):
        load_model(load_model(), dtype="float16")


def test_dtype_and_device_map_reach_the_model():
    import torch

    half = load_model(dtype="bfloat16")
    assert {p.dtype for p in half.network.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in load_model().network.parameters()} == {torch.float32}
    # A mapping can't be found again in a cache: it is loaded anew.
    spread = load_model(device_map={"": "cpu"})
    assert load_model(device_map={"": "cpu"}) is not spread
    with pytest.raises(ModelError, match="nowhere"):
        load_model(device_map="nowhere")


def test_code_of_a_repository_is_not_run_unless_trusted(tmp_path):
    (tmp_path / "config.json").write_text(
        '{"model_type": "strange", "auto_map": {"AutoConfig": "code.StrangeConfig"}}'
    )
    (tmp_path / "code.py").write_text("raise SystemExit('ran')\n")
    with pytest.raises(ModelError, match="read it, then use load_model"):
        load_model(str(tmp_path))


def test_quantized_models_are_put_on_their_device_while_they_are_built():
    options = LoadOptions(device="cpu", quantization_config={"bits": 8})
    assert options.to_build() == {"device_map": "cpu", "quantization_config": {"bits": 8}}
    assert not options.is_hashable
    assert LoadOptions(dtype="auto").is_hashable
