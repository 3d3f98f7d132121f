"""Errors in one line: what went wrong and what to do."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any


def print_error(message: str) -> None:
    """Write one line to standard error; a terminal's lines break between words."""
    line = f"attnflow: {' '.join(message.split())}"
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
    sys.stderr.write(f"{printable(line)}\n")


def printable(text: str) -> str:
    """The text with escapes for what no terminal takes: bytes of names that are not UTF-8."""
    return text.encode(errors="backslashreplace").decode()


def usage_message(error: Any, arguments: Sequence[str]) -> str:
    """Typer's message, with what was given and what may have been meant."""
    context = getattr(error, "ctx", None)
    hint = f" See {context.command_path} --help" if context else ""
    message = _describe(error, arguments)
    return f"{message}{'' if message.endswith('?') else '.'}{hint}"


def _describe(error: Any, arguments: Sequence[str]) -> str:
    message: str = error.format_message().replace("Value error, ", "").rstrip(".")
    if "unexpected extra argument" in message:
        return f"{message}; put a text of several words in quotes"
    option = getattr(error, "option_name", None)
    if option is not None:
        near = get_close_matches(option, getattr(error, "possibilities", None) or (), n=1)
        return f"No such option: {option}" + (f". Did you mean {near[0]}?" if near else "")
    if message.startswith("Missing option"):
        return _missing(error)
    names = getattr(getattr(error, "param", None), "opts", ())
    given = [value for name, value in pairwise(arguments) if name in names]
    if given and repr(given[-1]) not in message:
        message += f", not {given[-1]!r}"
    return message


def _missing(error: Any) -> str:
    """What an option that was left out is for, and a call that has it."""
    param, command = error.param, error.ctx.command
    named = f"{param.opts[0]} {param.metavar or ''}".strip()
    about = (param.help or "").rstrip(".")
    _, _, example = (command.help or "").partition("Example: ")
    shown = f". Example: {example.splitlines()[0]}" if example else ""
    return f"{named} is missing: {about[:1].lower()}{about[1:]}{shown}"
