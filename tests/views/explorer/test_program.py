"""The explorer from the command line."""

import re
import signal
import socket
import subprocess
import sys

import httpx
import psutil
import pytest

from attnflow.cli.app import run
from serving import free_port, wait_until_it_answers


def seconds_of(process):
    """CPU seconds: unlike those of a clock, the same beside other work."""
    times = psutil.Process(process.pid).cpu_times()
    return times.user + times.system


def test_serve_answers_and_ends_in_good_order():
    port = free_port()
    command = [sys.executable, "-m", "attnflow", "serve", "--model", "verbs", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{port}"
    try:
        assert server.stdout.readline().strip() == url
        wait_until_it_answers(url)
        spent = []
        for noun in ("keys", "dogs", "cats"):
            before = seconds_of(server)
            body = {"text": f"the {noun} to the cabinet"}
            answer = httpx.post(f"{url}/api/explain", json=body, timeout=60).json()["views"][0]
            spent.append(seconds_of(server) - before)
            assert answer["said"][0]["label"] == "plural"
        assert min(spent) < 0.5
    finally:
        server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=60)
    assert "Traceback" not in said
    assert server.returncode in (0, 130)


def test_a_taken_port_is_named(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["serve", "--model", "verbs", "--port", str(port)]) == 2
    assert f"port {port}" in capsys.readouterr().err


def test_serve_listens_to_this_machine_alone_unless_told():
    import inspect

    from attnflow.views.explorer.server import app as server

    assert inspect.signature(server.serve).parameters["host"].default == "127.0.0.1"


def test_explain_saves_the_view(tmp_path, capsys):
    file = tmp_path / "view.html"
    assert run(["explain", "the key to the cabinets", "--html", str(file)]) == 0
    assert "interactive view" in capsys.readouterr().err
    assert re.search(r'"tokens":\["\[CLS\]","the","key"', file.read_text())
    assert run(["explain", "x", "--html", str(file)]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["explain", "a", "b", "c", "--html", str(tmp_path / "three.html")]) == 2
    assert "one text, or two" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("arguments", [["--timeout", "0"], ["--port", "0"], ["--workers", "0"]])
def test_bad_options_are_refused(arguments, capsys):
    assert run(["serve", *arguments]) == 2
    assert arguments[0] in capsys.readouterr().err
