"""Standard streams that are closed, full, narrow, or without the characters of the output."""

import io
import json
import os
import subprocess
import sys
import unicodedata

import pytest

from attnflow.cli import app, streams

TEXT = "the naïve keys – to the cabinet"
DISK = "No space left on device"


def in_shell(redirected, *arguments, **environment):
    """Run the program as a shell does that redirects its streams."""
    command = f'exec "$0" -m attnflow "$@" {redirected}'
    return subprocess.run(
        ["sh", "-c", command, sys.executable, *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("asked", ["--version", "--help"])
@pytest.mark.parametrize(
    ("redirected", "why"),
    [("> /dev/full", DISK), (">&-", "it is closed"), ("<&- >&-", "it is closed")],
)
def test_output_that_can_not_be_written_is_told(asked, redirected, why):
    ran = in_shell(redirected, asked)
    assert ran.returncode == 1
    assert ran.stderr == (
        f"attnflow: standard output can't be written: {why}; send it to a file or a terminal\n"
    )


def test_a_reader_that_leaves_is_no_error():
    ran = in_shell("| head -c 1", "--help")
    assert (ran.stdout, ran.stderr) == ("U", "")


@pytest.mark.parametrize("redirected", ["2>&-", "2> /dev/full", "<&- 2>&-"])
def test_messages_that_can_not_be_written_stop_nothing(redirected):
    ran = in_shell(redirected, "--version")
    assert ran.returncode == 0
    assert ran.stdout.startswith("attnflow ")
    assert in_shell(redirected, "explain", "x", "--layer", "no").returncode == 2


def test_a_closed_output_matters_only_to_what_prints(folder, tmp_path):
    """The number of the closed stream is not given to a file, which would get what is printed."""
    file = tmp_path / "it.svg"
    options = ("-m", folder, "--edges", "attention", "--method", "raw", "-o", file)
    ran = in_shell(">&-", "figure", "heatmap", "a cat", *options)
    assert ran.returncode == 0, ran.stderr
    assert "</svg>" in file.read_text()[-20:]


@pytest.mark.parametrize(("columns", "left"), [("0", None), ("5", "20"), ("132", "132")])
def test_a_width_in_which_nothing_fits_is_ignored(columns, left, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    streams.prepare_width()
    assert os.environ.get("COLUMNS") == left


def test_widths_that_are_no_numbers_are_left_to_others(monkeypatch):
    for given in ("", "-3", "wide"):
        monkeypatch.setenv("COLUMNS", given)
        streams.prepare_width()
        assert os.environ["COLUMNS"] == given
    monkeypatch.setenv("COLUMNS", "²")  # a digit of which Python makes no integer
    streams.prepare_width()
    assert "COLUMNS" not in os.environ


def test_a_terminal_of_no_width_and_no_characters(folder):
    options = ("-m", folder, "--edges", "attention", "--method", "raw")
    ran = in_shell("", "explain", TEXT, *options, COLUMNS="0", PYTHONIOENCODING="ascii")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.isascii()
    assert ran.stdout.startswith("the na\\xefve keys - to the cabinet\n")
    assert "###" in ran.stdout


@pytest.fixture
def run_in_ascii(monkeypatch):
    """Run the program in this process, as with PYTHONIOENCODING=ascii."""

    def run_it(*arguments):
        streams.codecs.register_error(streams.READABLE, streams.spell)
        content = io.BytesIO()
        output = io.TextIOWrapper(content, encoding="ascii", errors=streams.READABLE)
        with monkeypatch.context() as patched:
            patched.setenv("COLUMNS", "80")
            patched.setattr(sys, "stdout", output)
            assert app.run([str(each) for each in arguments]) == 0
        return content.getvalue().decode("ascii")

    return run_it


@pytest.mark.parametrize("command", ["explain", "compare", "routes"])
def test_json_stays_json(command, folder, run_in_ascii):
    extra = ["--to", "keys"] if command == "routes" else []
    written = run_in_ascii(command, TEXT, "-m", folder, "--json", "--edges", "attention", *extra)
    assert json.loads(written)["text"] == TEXT


@pytest.mark.parametrize("arguments", [["--help"], ["evaluate", "-h"], ["routes", "-h"]])
def test_help_without_its_characters(arguments, run_in_ascii):
    written = run_in_ascii(*arguments)
    assert written.startswith("Usage")
    assert "\\u" not in written


def test_all_signs_of_the_program_are_spelled():
    """Letters of other languages are escaped; what the program itself draws is not."""
    for sign in "▁▂▃▄▅▆▇█▏▎▍▌▋▊▉░▒▓─│“”’…→←−–·×†‡≥≤±ρ":
        spelled = sign.encode("ascii", streams.READABLE).decode()
        assert "\\" not in spelled, unicodedata.name(sign)
    assert "10⁻³".encode("ascii", streams.READABLE) == b"10^-3"
    assert "naïve 鍵 \ud800".encode("ascii", streams.READABLE) == rb"na\xefve \u9375 \ud800"
    assert "naïve – 鍵".encode("latin-1", streams.READABLE) == b"na\xefve - \\u9375"
