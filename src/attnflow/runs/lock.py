"""One process at a time runs into a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnflow.errors import InputError

try:
    import fcntl
except ImportError:  # on Windows, where folders can't be locked
    fcntl = None  # type: ignore[assignment]


@contextmanager
def only_writer(folder: Path) -> Iterator[bool]:
    """Refuse a folder that another process runs into; yields whether it was possible to find out.

    The system drops the lock with the process, however that ends.
    """
    if fcntl is None:
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield _lock(handle, folder)
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        msg = (
            f"another process is running into {folder}; wait until it ends, or choose another "
            "folder"
        )
        raise InputError(msg) from None
    except OSError:  # file systems of other machines often can't
        return False
    return True
