"""Long work on one text shows how far it is, in a terminal alone."""

import sys

import pytest

import attnflow
import tiny
from attnflow.cli import running
from attnflow.cli.streams import show_work
from attnflow.io import progress
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request


def in_a_terminal(monkeypatch):
    """Within a test, where standard error is the one that is captured."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "DELAY", 0)
    monkeypatch.setenv("TERM", "xterm")


def test_a_status_line_turns_into_a_bar(capsys, monkeypatch):
    in_a_terminal(monkeypatch)
    with show_work("explaining") as advance:
        advance(0.25)
        advance(0.5)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "explaining" in shown.err
    assert "50%" in shown.err


def test_without_a_terminal_nothing_is_shown(capsys):
    with show_work("explaining") as advance:
        advance(0.5)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("method", ["blank-out", "integrated"])
def test_a_method_that_runs_the_model_often_has_a_bar(capsys, monkeypatch, method):
    in_a_terminal(monkeypatch)
    model = attnflow.load_model((tiny.build("gpt2"), tiny.plain()))
    config = Request(method=method, progress=True)
    session = open_session(tiny.TEXT, model, config)
    (found,) = running.attributions(session, [method])
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"{method} " in shown.err
    assert "%" in shown.err
    assert found.method == method
