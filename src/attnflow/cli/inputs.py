"""Texts from arguments, a file or standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from attnflow.errors import InputError
from attnflow.io.inputs import NO_TEXT


def read_texts(given: Sequence[str] | None, file: Path | None) -> list[str]:
    """All texts that were given, in order; each line of a file or of standard input is one."""
    if given and file is not None:
        msg = "give texts as arguments or with --file, not both"
        raise InputError(msg)
    if file is not None and str(file) != "-":
        return _lines(_content(file), str(file))
    if file is not None or list(given or ()) == ["-"] or (not given and not sys.stdin.isatty()):
        return _lines(sys.stdin.buffer.read(), "standard input")
    texts = list(given or ())
    if not texts or not all(text.strip() for text in texts):
        raise InputError(NO_TEXT)
    return texts


def read_text(given: str | None, file: Path | None = None) -> str:
    """The one text that was given."""
    texts = read_texts(None if given is None else [given], file)
    if len(texts) > 1:
        msg = f"this command takes one text; there are {len(texts)}, one per line: give one line"
        raise InputError(msg)
    return texts[0]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        msg = f"can't read {file}: {error.strerror}; give a text file with --file"
        raise InputError(msg) from None


def _lines(content: bytes, where: str) -> list[str]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{where} is not UTF-8 text (byte {error.start}); save it as UTF-8 first"
        raise InputError(msg) from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        msg = f"{where} holds {NO_TEXT}, or write one per line there"
        raise InputError(msg)
    return lines
