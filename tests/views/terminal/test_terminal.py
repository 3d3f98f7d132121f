"""The program in a terminal: a pseudo-terminal's two ends, one of them played by the test."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "src"
QUESTION = b"\x1b]11;?\x1b\\\x1b[c"
WHO = b"\x1b[?62;c"


class Terminal:
    """A process whose input, output and controlling terminal is this one."""

    def __init__(self, code, typed=b"", **environment):
        """``typed`` is there before the process starts."""
        self.ours, theirs = pty.openpty()
        self.seen = b""
        self.write(typed)
        known = {**os.environ, "COLORFGBG": "", "ATTNFLOW_DEBUG": ""}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(theirs), os.O_RDWR)),
            env={**known, "TERM": "xterm-256color", "PYTHONPATH": str(SOURCE), **environment},
        )
        os.close(theirs)

    def wait_for(self, what, seconds=120):
        until = time.monotonic() + seconds
        while what not in self.seen and time.monotonic() < until:
            if select.select([self.ours], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.ours, 4096)
                except OSError:  # the other end is closed
                    break
        return what in self.seen

    def write(self, what):
        os.write(self.ours, what)

    def end(self):
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.wait_for(b"\0")  # which never comes: until the other end is closed
        os.close(self.ours)
        return self.seen.decode()


BACKGROUND = """
import sys
from attnflow.views.terminal import paint
paint.TIMEOUT = SECONDS
print("it is", paint.background())
print("left:", sys.stdin.readline().strip())
"""


def asking(seconds):
    """A program that waits so long for the terminal's answer."""
    return BACKGROUND.replace("SECONDS", str(seconds))


@pytest.mark.parametrize(
    ("answer", "found", "seconds"),
    [
        (b"\x1b]11;rgb:ffff/ffff/eded\x1b\\" + WHO, "light", 60),
        (b"\x1b]11;rgb:1e/1e/1e\x07" + WHO, "dark", 60),
        (WHO, "unknown", 60),
        (b"", "unknown", 0.2),
    ],
)
def test_the_terminal_is_asked_for_its_background(answer, found, seconds):
    terminal = Terminal(asking(seconds))
    assert terminal.wait_for(QUESTION)
    terminal.write(answer)
    assert terminal.wait_for(f"it is {found}".encode())
    terminal.write(b"x\n")
    assert "left: x" in terminal.end()  # nothing of the answer is left for the next reader


def test_what_is_being_typed_is_not_lost():
    terminal = Terminal(asking(60), typed=b"next command")
    assert terminal.wait_for(b"it is unknown")
    assert QUESTION not in terminal.seen
    terminal.write(b"\n")
    assert "left: next command" in terminal.end()


def test_what_the_environment_says_is_not_asked_for():
    terminal = Terminal(asking(60), COLORFGBG="0;15")
    assert terminal.wait_for(b"it is light")
    terminal.write(b"\n")
    assert "\x1b]11" not in terminal.end()


def test_errors_break_between_words():
    code = 'from attnflow.cli.app import run; run(["figure", "heatmap", "x", "-o", "x.jpeg"])'
    said = Terminal(code, COLUMNS="40").end().splitlines()
    assert len(said) > 1
    assert max(map(len, said)) <= 40
    whole = " ".join(said)
    assert whole.startswith("attnflow: can't tell the format of 'x.jpeg'; let it end in one of:")


def test_control_c_says_so_and_leaves_no_traceback():
    code = """
import sys, time
from attnflow.cli.app import run
from attnflow.models import loading

def load(_):
    print("loading", flush=True)
    # In short steps: a signal that arrives just before one long sleep is answered after it.
    while True:
        time.sleep(0.05)

loading.load_model = load
sys.exit(run(["explain", "x"]))
"""
    terminal = Terminal(code)
    assert terminal.wait_for(b"loading\r\n")
    terminal.process.send_signal(signal.SIGINT)
    said = terminal.end()
    assert terminal.process.returncode == 130
    assert "attnflow: stopped" in said
    assert "Traceback" not in said


def test_a_page_is_laid_out_in_a_terminal():
    code = """
from attnflow_experiments.pages import show_page
show_page('''## Title

Some words.

| a | b |
|---|---|
| one | two |

![figure1.svg](folder/figure1.svg)
''')
"""
    shown = re.sub(r"\x1b\[[0-9;]*m", "", Terminal(code, COLUMNS="60").end())
    assert "## " not in shown
    assert "|" not in shown
    assert re.search(r"one +two", shown)
    assert "folder/figure1.svg" in shown


def test_a_page_stays_markdown_in_a_pipe(capsys):
    from attnflow_experiments.pages import show_page

    show_page("| a |\n|---|\n| b |")
    assert capsys.readouterr().out == "| a |\n|---|\n| b |\n"
