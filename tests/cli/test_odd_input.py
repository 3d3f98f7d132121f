"""Odd bytes, names and places on the command line: one line, exit code 2, nothing written."""

import os
import subprocess
import sys

import pytest

from attnflow.records import Attribution

BYTE = "\udcff"  # what Python makes of a byte that is not UTF-8


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with links that lead nowhere, and modules that can't be imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken.py").write_text("x = (")
    (tmp_path / "failing.py").write_text("1 / 0")
    (tmp_path / "surrogates.txt").write_bytes(b"\xed\xa0\x80 keys")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", f"the {BYTE} keys"], "is not Unicode text: character 4"),
        (["compare", BYTE], "is not Unicode text"),
        (["routes", BYTE, "--to", "x"], "is not Unicode text"),
        (["explain", "x", "--answer", BYTE], "writes no text"),
        (["explain", "x", "--query", BYTE], "is not one of the tokens"),
        (["explain", "x", "--query", "9" * 5000], "is not one of the tokens"),
        (["routes", "x", "--to", "x:" + "9" * 5000], "is not one of the tokens"),
        (["explain", "x", "--layers", "9" * 5000], "--layers"),
        (["explain", "x", "--method", BYTE], "is unknown"),
        (["explain", "x", "-m", "a\0b"], "is not a folder here"),
        (["explain", "--file", "surrogates.txt"], "is not UTF-8 text (byte 0)"),
        (["explain", "--file", BYTE], "can't read"),
        (["explain", "--file", "loop"], "can't read loop"),
        (["explain", "x", "--save", "a\0b"], "embedded null byte"),
        (["explain", "x", "--save", "x" * 300], "File name too long"),
        (["explain", "x", "--save", "loop"], "loop can't be written"),
        (["explain", "x", "--html", "loop"], "loop can't be written"),
        (["explain", "x", "--save", "/dev/full", "--force"], "can't be written: No space left"),
        (["explain", "x", "--html", "/dev/full", "--force"], "can't be written: No space left"),
        (["figure", "heatmap", "x", "-o", "loop/x.svg"], "does not exist"),
        (["figure", "graph", "x", "-o", "x.svg", "--threshold", "nan"], "threshold=nan"),
        (["explain", "x", "--plugin", ""], "plugin '' failed: it is neither a file nor"),
        (["explain", "x", "--plugin", "."], "plugin '.' failed: it is neither a file nor"),
        (["explain", "x", "--plugin", "broken.py"], "plugin 'broken.py' failed: SyntaxError"),
        (
            ["explain", "x", "--plugin", "failing.py"],
            "'failing.py' failed: ZeroDivisionError",
        ),
        (["serve", "--host", BYTE], "choose another --host"),
        (["serve", "--host", "a\0b"], "choose another --host"),
        (["serve", "--timeout", "nan"], "must be more than 0 seconds"),
        (["serve", "--timeout", "inf"], "must be more than 0 seconds"),
        (["reproduce", "table1", "--report", "folder"], "folder can't be read"),
        ([BYTE], "See attnflow --help"),
    ],
    ids=range(31),
)
def test_odd_input_is_one_line_and_exit_code_2(arguments, said, run, place):
    ran = run(*arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("attnflow: ")
    assert said in ran.err


def test_bytes_that_are_no_text_cause_no_traceback():
    command = [sys.executable, "-m", "attnflow", "explain", b"the \xff keys"]
    plain = {name: value for name, value in os.environ.items() if name != "ATTNFLOW_DEBUG"}
    done = subprocess.run(command, capture_output=True, check=False, env=plain)
    assert done.returncode == 2
    assert done.stderr.startswith(b"attnflow: text='the \\udcff keys' is not Unicode text")
    assert done.stderr.count(b"\n") == 1


def test_a_file_may_have_any_name_that_the_system_takes(run, place):
    ran = run("explain", "the keys", "--method", "raw", "--save", f"{BYTE}.json")
    assert ran.code == 0
    assert Attribution.load(f"{BYTE}.json").text == "the keys"


def test_nul_is_a_character_like_others(run, place):
    (place / "nul.txt").write_bytes(b"the\0keys\n")
    assert run("explain", "--file", "nul.txt", "--method", "raw").code == 0
