"""How models are loaded, said the same way in every command; and the hub, asked briefly.

The hub is a server on this machine, and commands that ask it run in processes of their own, since
huggingface_hub reads its settings once.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typer

from attnflow.cli import app
from attnflow.models import loading

LOADING = {"--device", "--dtype", "--revision", "--trust-remote-code"}
TEXT = "the cat is on the mat"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def without(*commands):
    """The options of every command that takes a --model, but of some."""
    for name, command in typer.main.get_command(app.app).commands.items():
        given = {option for parameter in command.params for option in parameter.opts}
        if "--model" in given and name not in commands:
            yield name, given


def test_every_command_that_takes_a_model_says_how_it_is_loaded():
    # The reproduction and the tour are of shipped models, as they are.
    for name, given in without("reproduce", "tour"):
        assert given >= LOADING, name


@pytest.fixture
def loaded(monkeypatch):
    """The options that models were loaded with."""
    seen = []
    load = loading._load

    def spy(source, options, name):
        seen.append((name, options))
        return load(source, options, name)

    monkeypatch.setattr(loading, "_load", spy)
    return seen


@pytest.mark.parametrize(
    "command",
    [
        ["explain", TEXT],
        ["explain", TEXT, "--json", "--method", "flow"],
        ["compare", TEXT, "--method", "rollout", "--method", "raw"],
        ["routes", TEXT, "--to", "cat"],
        ["figure", "heatmap", TEXT, "-o", "{out}.svg", "--method", "rollout"],
        ["run", "{texts}", "-o", "{out}"],
        ["evaluate", "{texts}", "--format", "text", "--method", "rollout", "--metric", "deletion"],
    ],
    ids=lambda command: command[0],
)
def test_options_reach_the_model(run, folder, loaded, tmp_path, command):
    texts = tmp_path / "texts.txt"
    texts.write_text(f"{TEXT}\nthe mat is red\n")
    filled = [part.format(texts=texts, out=tmp_path / "out") for part in command]
    ran = run(*filled, "-m", folder, "--dtype", "bfloat16", "--device", "cpu")
    assert ran.code == 0, ran.err
    for name, options in loaded:
        assert (name, options.dtype, options.device) == (folder, "bfloat16", "cpu")
    assert loaded


def test_options_reach_the_model_of_fit(run, folder, loaded, tmp_path):
    texts = tmp_path / "texts.txt"
    nouns = ("cat", "mat", "dog")
    texts.write_text("".join(f"the {one} is on the {two}\n" for one in nouns for two in nouns))
    ran = run("fit", folder, texts, "-o", tmp_path / "heads.json", "--dtype", "float32")
    assert ran.code == 0, ran.err
    assert [options.dtype for _, options in loaded] == ["float32"]


@pytest.mark.usefixtures("quick_workers")
def test_options_reach_the_workers_of_a_run(run, folder, tmp_path):
    texts, out = tmp_path / "texts.txt", tmp_path / "out"
    texts.write_text(f"{TEXT}\nthe mat is red\n")
    ran = run(
        *("run", texts, "-o", out, "-m", folder, "--workers", 2, "--shard-size", 1),
        *("--dtype", "bfloat16"),
    )
    assert ran.code == 0, ran.err
    about = json.loads((out / "manifest.json").read_text())["request"]["model"]
    assert (about["name"], about["precision"]) == (folder, "bfloat16")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--device", "tpu"], "device='tpu' is not here; allowed: 'cpu'"),
        (["--dtype", "int4"], "dtype='int4' is unknown; allowed: float32, float16"),
        (["--revision", "v1"], "--revision v1 is for a model of the hub; name it by --model"),
        (["-m", "{folder}", "--revision", "v1"], "is on this machine"),
        (["-m", "a/b@v2", "--revision", "v1"], "names a revision, and --revision v1 another"),
    ],
)
def test_what_has_no_meaning_is_refused_before_work(run, folder, arguments, said):
    ran = run("explain", TEXT, *[each.format(folder=folder) for each in arguments], columns=400)
    assert ran.code == 2
    assert said in ran.err


def test_one_revision_is_not_of_several_models(run):
    ran = run("serve", "-m", "a/b", "-m", "c/d", "--revision", "v1", columns=400)
    assert ran.code == 2
    assert "for several, write NAME@REVISION" in ran.err


def test_a_device_is_not_of_a_cluster(run, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text(f"{TEXT}\n")
    ran = run("run", texts, "-o", tmp_path / "o", "--device", "cpu", "--ray", "local", columns=400)
    assert ran.code == 2
    assert "gpus_per_worker says where models run" in ran.err


def command(folder, *arguments, **settings):
    """A command in a process of its own, in a pipe, with a cache of its own."""
    environment = {**os.environ, "HF_HOME": str(folder), "HF_HUB_OFFLINE": "0", **settings}
    line = [sys.executable, "-m", "attnflow", *arguments]
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)


def test_code_of_a_repository_runs_only_where_it_is_trusted(run, tmp_path):
    model, ran = tmp_path / "strange", tmp_path / "ran"
    model.mkdir()
    code = {"AutoConfig": "code.StrangeConfig"}
    (model / "config.json").write_text(json.dumps({"model_type": "strange", "auto_map": code}))
    (model / "code.py").write_text(f"open({str(ran)!r}, 'w').close()\nraise SystemExit(3)\n")
    refused = run("explain", TEXT, "-m", model)
    assert refused.code == 2
    assert "--trust-remote-code" in refused.err
    assert not ran.exists()
    command(tmp_path, "explain", TEXT, "-m", str(model), "--trust-remote-code")
    assert ran.exists()


def test_a_hub_that_never_answers_is_one_line_of_the_command(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = command(tmp_path, "explain", TEXT, "-m", "someone/model", HF_ENDPOINT=address)
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):  # it was asked once, without the hub's own retries
            silent.accept()
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "attnflow: 'someone/model' is not a folder here; the hub can't be reached"
    )


@pytest.fixture
def hub(folder):
    """A hub with one model, and the paths that it was asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.answer(body=False)

        def do_GET(self):
            self.answer(body=True)

        def answer(self, *, body):
            asked.append(self.path)
            file = Path(folder) / self.path.rsplit("/", 1)[-1]
            found = "/resolve/" in self.path and file.is_file()
            content = file.read_bytes() if found else b""
            self.send_response(200 if found or self.path == "/" else 404)
            if not found:
                self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{file.name}"')
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def test_a_model_comes_from_the_hub_once_and_leaves_pipes_clean(run, hub, folder, tmp_path):
    address, asked = hub
    asks = ("explain", TEXT, "-m", "someone/model", "--revision", "v1", "--json")
    first = command(tmp_path, *asks, HF_ENDPOINT=address)
    assert (first.returncode, first.stderr) == (0, "")
    assert "/someone/model/resolve/v1/config.json" in asked
    data = json.loads(first.stdout)
    assert data["model"] == "someone/model@v1"
    local = json.loads(run("explain", TEXT, "-m", folder, "--json").out)
    assert data["scores"] == local["scores"]
    # What was fetched is found again without the hub, by its revision alone.
    asked.clear()
    again = command(tmp_path, *asks, HF_ENDPOINT=address, HF_HUB_OFFLINE="1")
    assert (again.returncode, again.stderr, again.stdout) == (0, "", first.stdout)
    other = [part.replace("v1", "v2") for part in asks]
    refused = command(tmp_path, *other, HF_ENDPOINT=address, HF_HUB_OFFLINE="1")
    assert "the hub is switched off (HF_HUB_OFFLINE)" in refused.stderr
    assert asked == []
