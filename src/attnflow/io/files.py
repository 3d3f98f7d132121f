"""Names of files, and files that are about to be written: one check, made before any work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnflow.errors import InputError, shown


def as_path(file: object) -> Path:
    """The path of a name that can be a file's."""
    if not isinstance(file, str | os.PathLike) or not isinstance(os.fspath(file), str):
        msg = f"path={shown(file)} must be the name of a file"
        raise InputError(msg)
    path = Path(file)
    if "\0" in str(path):
        msg = f"path={shown(str(path))} holds a NUL character; no file's name does"
        raise InputError(msg)
    return path


def is_file(path: Path) -> bool:
    """Whether such a file exists; a name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def check_target(file: str | Path, *, overwrite: bool) -> Path:
    """The file's path, if it may be written."""
    path = as_path(file)
    try:
        msg = _why_not(path, overwrite=overwrite)
    except OSError as error:  # such as a name that is too long for a file
        msg = f"{path} can't be written: {error.strerror}; choose another name"
    if msg:
        raise InputError(msg)
    return path


def _why_not(path: Path, *, overwrite: bool) -> str:
    """Why a file can't be written; nothing where it can."""
    folder = path.absolute().parent
    if path.is_dir():
        return f"{path} is a folder; name a file in it"
    if path.exists() and not overwrite:
        return f"{path} exists; choose another name, or overwrite it with overwrite=True (--force)"
    if not folder.is_dir():
        return f"the folder {folder} does not exist; create it first"
    if not os.access(path if path.exists() else folder, os.W_OK):
        return f"{path} can't be written: no permission; choose another place"
    return ""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What is done in here writes the file; where the system refuses, the error names the file."""
    try:
        yield
    except OSError as error:
        msg = f"{path} can't be written: {error.strerror or error}; choose another place"
        raise InputError(msg) from error
