"""Whether the terminal is dark or light: what it says itself, asked where it must be."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from functools import cache

PATIENCE = 0.2  # seconds: terminals answer within a few thousandths
# The colour of the background; then what terminal it is, which all answer, and so end the wait.
QUESTION = b"\x1b]11;?\x1b\\" + b"\x1b[c"
COLOUR = re.compile(rb"\x1b\]11;rgb:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
END = re.compile(rb"\x1b\[\?[\d;]*c")


@cache
def background() -> str:
    """``"dark"``, ``"light"``, or ``"unknown"`` where the terminal doesn't tell."""
    said = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    if said.isdigit():
        return "light" if int(said) in (7, *range(9, 16)) else "dark"
    found = COLOUR.search(_answer())
    if found is None:
        return "unknown"
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return "light" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "dark"


def _answer() -> bytes:
    """What the terminal answers to the question; nothing where it can't be asked."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "linux"):
        return b""
    try:
        import termios
        import tty

        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except (ImportError, OSError):
        return b""
    try:
        if os.tcgetpgrp(terminal) != os.getpgrp():
            return b""  # in the background, a program that changes the terminal is stopped
        before = termios.tcgetattr(terminal)
        try:
            tty.setcbreak(terminal, termios.TCSANOW)
            return _ask(terminal)
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, before)
    except (OSError, termios.error):
        return b""
    finally:
        os.close(terminal)


def _ask(terminal: int) -> bytes:
    if select.select([terminal], [], [], 0)[0]:
        return b""  # somebody is typing, and the next command must not be lost
    os.write(terminal, QUESTION)
    answer = b""
    until = time.monotonic() + PATIENCE
    while not END.search(answer) and (left := until - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            answer += os.read(terminal, 1024)
    return answer
