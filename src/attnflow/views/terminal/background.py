"""Whether the terminal is dark or light: by the environment, or by a query to the terminal."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from functools import cache

TIMEOUT = 0.2  # seconds: terminals reply within a few milliseconds
# The background colour; then the device attributes, which all terminals report: that ends the wait.
QUERY = b"\x1b]11;?\x1b\\" + b"\x1b[c"
COLOUR = re.compile(rb"\x1b\]11;rgb:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
END = re.compile(rb"\x1b\[\?[\d;]*c")


@cache
def background() -> str:
    """``"dark"``, ``"light"``, or ``"unknown"`` where the terminal doesn't tell."""
    declared = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    if declared.isdigit():
        return "light" if int(declared) in (7, *range(9, 16)) else "dark"
    colour = COLOUR.search(_query_terminal())
    if colour is None:
        return "unknown"
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in colour.groups())
    return "light" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "dark"


def _query_terminal() -> bytes:
    """The terminal's reply to the query; empty where it can't be queried."""
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
            return _exchange(terminal)
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, before)
    except (OSError, termios.error):
        return b""
    finally:
        os.close(terminal)


def _exchange(terminal: int) -> bytes:
    if select.select([terminal], [], [], 0)[0]:
        return b""  # somebody is typing, and the next command must not be lost
    os.write(terminal, QUERY)
    reply = b""
    deadline = time.monotonic() + TIMEOUT
    while not END.search(reply) and (left := deadline - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            reply += os.read(terminal, 1024)
    return reply
