"""Texts from arguments, a file or standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from attnflow.cli.errors import print_error
from attnflow.errors import InputError
from attnflow.io.files import check_target, is_file
from attnflow.io.inputs import NO_TEXT

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter

TABLES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xlsx", ".parquet")
LONGEST_NAME = 4096


def read_texts(given: Sequence[str] | None, file: Path | None) -> list[str]:
    """All texts that were given, in order; each line of a file or of standard input is one."""
    if given and file is not None:
        msg = "give texts as arguments or with --file, not both"
        raise InputError(msg)
    if file is not None and str(file) != "-":
        if file.suffix.lower() in TABLES:
            msg = (
                f"{file} is a table, and each of its lines would be one text, columns and all; "
                f"explain its rows by attnflow run {file} -o FOLDER, or read lines as they are: "
                f"-f - < {file}"
            )
            raise InputError(msg)
        return _lines(_content(file), str(file))
    if file is not None or list(given or ()) == ["-"] or (not given and not sys.stdin.isatty()):
        return _lines(sys.stdin.buffer.read(), "standard input")
    texts = list(given or ())
    if len(texts) > 1 and not any(len(text.split()) > 1 for text in texts):
        texts = _ask_about_words(texts)
    if not texts:
        raise InputError(NO_TEXT)
    for at, text in enumerate(texts, start=1):
        if not text.strip():
            which = f"text {at} of {len(texts)} is empty: " if len(texts) > 1 else ""
            raise InputError(which + NO_TEXT)
    return texts


def _ask_about_words(texts: list[str]) -> list[str]:
    """The texts that were meant: a sentence without quotation marks looks like many texts."""
    if any(names_file(text) for text in texts):
        return texts
    whole = " ".join(texts)
    if sys.stdin.isatty() and sys.stderr.isatty():
        question = f'Explain one text, "{whole}" (and not {len(texts)} of one word each)?'
        return [whole] if typer.confirm(question, default=True, err=True) else texts
    print_error(f'these are {len(texts)} texts of one word each; for one text: "{whole}"')
    return texts


Item = str | tuple[str, str]  # a text, or a pair that is read as one input


def pair_up(texts: Sequence[str], seconds: Sequence[str] | None) -> list[Item]:
    """Each text with its second one, where there are any."""
    if not seconds:
        return list(texts)
    if len(seconds) != len(texts):
        msg = f"there are {len(seconds)} --pair and {len(texts)} texts; give one --pair for each"
        raise InputError(msg)
    if not all(second.strip() for second in seconds):
        msg = "--pair is empty; give the second text in quotes, or leave it out"
        raise InputError(msg)
    return list(zip(texts, seconds, strict=True))


def check_texts(items: Sequence[Item], model: ModelAdapter | None = None) -> None:
    """Refuse names of files where a model reads text: their names would be explained.

    Without a model it is one that reads nothing but texts.
    """
    from attnflow.io.pictures import PICTURES
    from attnflow.models.audio.sounds import SOUNDS

    texts = [text for item in items for text in ((item,) if isinstance(item, str) else item)]
    images = None if model is None else model.reads_images
    for text in texts if model is None or model.reads_text else ():
        picture = text.lower().endswith(PICTURES)
        if names_file(text) and not (picture and images == "alone"):
            meant = f"did you mean -f {text}?"
            if picture or text.lower().endswith(SOUNDS):
                kind, read = ("an image", "images") if picture else ("a sound", "sounds")
                meant = f"{kind} is for attnflow explain with a --model that reads {read}"
            if picture and images:
                meant = 'in Python, attnflow.explain takes {"image": …, "text": …}'
            msg = f"{text!r} is a file, and its name would be explained as a text; {meant}"
            raise InputError(msg)


def names_file(text: str) -> bool:
    """Whether a text is the name of a file, and looks like one: with an ending or a folder."""
    path = Path(text)
    return len(text) <= LONGEST_NAME and bool(path.suffix or "/" in text) and is_file(path)


def read_item(given: str | None, file: Path | None, second: str | None) -> Item:
    """The one text that was given, or a pair."""
    (item,) = pair_up([read_text(given, file)], None if second is None else [second])
    return item


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


def check_targets(save: Path | None, html: Path | None, *, force: bool) -> None:
    """Refuse files that can't be written, before any work."""
    targets = [target for target in (save, html) if target is not None]
    for target in targets:
        check_target(target, overwrite=force)
    if len(targets) > len({target.absolute() for target in targets}):
        msg = f"--save and --html both name {save}; give each a file of its own"
        raise InputError(msg)
