import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import transformers

import tiny
from attnflow.cli import app

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A small classifier, saved."""
    place = tmp_path_factory.mktemp("models") / "classifier"
    tiny.build("bert", head=transformers.BertForSequenceClassification).save_pretrained(place)
    tiny.word_piece().save_pretrained(place)
    return str(place)


@pytest.fixture(scope="session")
def masked(tmp_path_factory):
    """A small masked language model, saved."""
    place = tmp_path_factory.mktemp("models") / "masked"
    tiny.build("bert", head=transformers.BertForMaskedLM).save_pretrained(place)
    tiny.word_piece().save_pretrained(place)
    return str(place)


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the program in this process, as in a terminal that is ``columns`` wide."""

    def run_it(*arguments, columns=80, colour=False):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.delenv("ATTNFLOW_DEBUG", raising=False)
        if colour:
            monkeypatch.setenv("FORCE_COLOR", "1")
            monkeypatch.setenv("COLORTERM", "truecolor")
            monkeypatch.setenv("TERM", "xterm-256color")
        code = app.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run_it


@pytest.fixture
def stdin(monkeypatch):
    """Put bytes into standard input."""

    def put(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))

    return put


@pytest.fixture
def process():
    """Run the program as a process of its own: half a second, and many where torch is imported."""

    def run_it(*arguments, **environment):
        done = subprocess.run(
            [sys.executable, "-m", "attnflow", *map(str, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run_it
