"""Files that are about to be written: one check for all of them, made before any work."""

from __future__ import annotations

import os
from pathlib import Path

from attnflow.errors import InputError


def check_target(file: str | Path, *, overwrite: bool) -> Path:
    """The file's path, if it may be written."""
    path = Path(file)
    folder = path.absolute().parent
    if path.is_dir():
        msg = f"{path} is a folder; name a file in it"
    elif path.exists() and not overwrite:
        msg = f"{path} exists; choose another name, or overwrite it with overwrite=True (--force)"
    elif not folder.is_dir():
        msg = f"the folder {folder} does not exist; create it first"
    elif not os.access(path if path.exists() else folder, os.W_OK):
        msg = f"{path} can't be written: no permission; choose another place"
    else:
        return path
    raise InputError(msg)
