"""Standard streams as the program finds them: closed, on a full disk, or with few characters.

While something takes long, a terminal has a status line on standard error.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from attnflow.cli.errors import printable
from attnflow.errors import AttnflowError

READABLE = "attnflow-readable"
NARROWEST = 20  # columns in which a line can still be read
SPELLED = {
    **dict(zip("▁▂▃▄▅▆▇█", ".:-=+*%#", strict=True)),  # heights
    **dict(zip("▏▎▍▌▋▊▉", "...####", strict=True)),  # the ends of bars
    **dict(zip("░▒▓", ".+%", strict=True)),
    **dict(zip("─│┌┐└┘├┤┬┴┼", "-|+++++++++", strict=True)),
    **dict(zip("“”„‘’−–—·•×÷†‡␣⟨⟩", '"""\'\'---**x/+=_<>', strict=True)),
    "…": "...",
    "→": "->",
    "←": "<-",
    "↑": "^",
    "↓": "v",
    "≤": "<=",
    "≥": ">=",
    "±": "+/-",
    "‖": "||",
    "⏎": "\\n",
    "⇥": "\\t",
    "\N{NO-BREAK SPACE}": " ",
    "∅": "{}",
    "⊙": "*",
    "ρ": "rho",
    "α": "alpha",
    "λ": "lambda",
    "φ": "phi",
    "Σ": "sum",
    "Π": "product",
    "∇": "grad",
}
RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀ]+")


class OutputError(AttnflowError):
    """Standard output can't be written."""


class _Output(io.FileIO):
    """Standard output, whose failures say that it is the output that failed."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            raise
        except OSError as error:
            closed = error.errno == errno.EBADF
            why = "it is closed" if closed else error.strerror or str(error)
            msg = f"standard output can't be written: {why}; send it to a file or a terminal"
            raise OutputError(msg) from None


class _Messages(io.FileIO):
    """Standard error: where it can't be written there is nobody to tell, and results go on."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except OSError:
            return len(content)


def prepare_streams() -> None:
    """Make the standard streams usable, whatever the program was started with.

    A stream that is closed is opened in its own place, so that no file gets its number. Characters
    that the output's encoding does not have are spelled in those it has.
    """
    codecs.register_error(READABLE, spell)
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115 - for the program's whole life
    if os.name != "posix":  # consoles of Windows have streams of their own
        return
    for name, kind in (("stdout", _Output), ("stderr", _Messages)):
        stream: Any = getattr(sys, name)
        if stream is None:  # what is opened has the lowest number that is free: that of the stream
            number = os.open(os.devnull, os.O_RDONLY)
        else:
            number = stream.fileno()
            stream.flush()
        encoding, errors = getattr(stream, "encoding", "utf-8"), getattr(stream, "errors", "strict")
        usual = errors in ("strict", "backslashreplace", "surrogateescape")
        wrapped = io.TextIOWrapper(
            io.BufferedWriter(kind(number, "w", closefd=False)),
            encoding=encoding,
            errors=READABLE if usual else errors,
            line_buffering=name == "stderr" or os.isatty(number),
            write_through=getattr(stream, "write_through", False),
        )
        setattr(sys, name, wrapped)


def discard_output() -> None:
    """Forget what could not be written, so that it is not tried again when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def prepare_width() -> None:
    """Replace a width in which nothing can be read; 0 is what terminals of unknown width have."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and not (given.isascii() and int(given)):
        del os.environ["COLUMNS"]
    elif given.isdigit():
        os.environ["COLUMNS"] = str(max(int(given), NARROWEST))


def spell(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that an encoding does not have: signs spelled, others escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    text = RAISED.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[0]), text)
    text = "".join(SPELLED.get(each, each) for each in text)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def echo(text: str, *, err: bool = False) -> None:
    """Write a line to standard output, or to standard error.

    ``typer.echo`` writes UTF-8 where the encoding is ASCII, whatever the terminal makes of it.
    """
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{printable(text)}\n")
    stream.flush()


def print_json(data: Any) -> None:
    """Write data as one line of JSON, with escapes where the output's encoding needs them."""
    line = json.dumps(data, ensure_ascii=False)
    try:
        line.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        line = json.dumps(data)
    echo(line)


@contextmanager
def show_status(what: str) -> Iterator[None]:
    """Show what is being done until it is done."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} …"):
        yield


@contextmanager
def show_work(what: str) -> Iterator[Callable[[float], None]]:
    """A status line that turns into a bar as soon as the work tells what share of it is done."""
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    from attnflow.io.progress import progress_bar

    with ExitStack() as line, ExitStack() as bar:
        line.enter_context(show_status(what))
        shown: list[Callable[[float], None]] = []

        def advance(share: float) -> None:
            if not shown:
                line.close()  # one of them at a time
                shown.append(bar.enter_context(progress_bar(what, 1, shown=True, share=True)))
            shown[0](share)

        yield advance
