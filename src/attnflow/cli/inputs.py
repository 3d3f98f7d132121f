"""Texts from arguments, a file or standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from attnflow.errors import InputError


def read_texts(given: Sequence[str] | None, file: Path | None) -> list[str]:
    """All texts that were given, in order; each line of a file or of standard input is one."""
    if given and file is not None:
        msg = "give texts as arguments or with --file, not both"
        raise InputError(msg)
    if file is not None and str(file) != "-":
        texts = _lines(_content(file))
    elif file is not None or list(given or ()) == ["-"] or (not given and not sys.stdin.isatty()):
        texts = _lines(sys.stdin.read())
    else:
        texts = list(given or ())
    if not texts or not all(text.strip() for text in texts):
        msg = 'no text; give one in quotes: attnflow explain "the keys to the cabinet"'
        raise InputError(msg)
    return texts


def read_text(given: str | None, file: Path | None = None) -> str:
    """The one text that was given."""
    texts = read_texts(None if given is None else [given], file)
    if len(texts) > 1:
        msg = f"this command takes one text; here are {len(texts)}"
        raise InputError(msg)
    return texts[0]


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"can't read {file}: {error.strerror}"
        raise InputError(msg) from None
    except UnicodeDecodeError:
        msg = f"{file} is not UTF-8 text"
        raise InputError(msg) from None


def _lines(content: str) -> list[str]:
    return [line for line in content.splitlines() if line.strip()]
