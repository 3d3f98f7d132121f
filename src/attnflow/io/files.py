"""Writing files whole, only where they may be written, and checksums of what is in them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnflow.errors import InputError, shown

try:
    import fcntl
except ImportError:  # on Windows, where folders can't be locked
    fcntl = None  # type: ignore[assignment]

PART_SUFFIX = ".part"
ELSEWHERE = "choose another place"
GO_ON = "what is finished is kept: free some disk space, and run the same command again"


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
    """Whether such a file exists; False for an invalid name."""
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
def writing(path: Path, advice: str = ELSEWHERE) -> Iterator[None]:
    """What is done in here writes the file; where the system refuses, the error names the file."""
    try:
        yield
    except OSError as error:
        msg = f"{path} can't be written: {error.strerror or error}; {advice}"
        raise InputError(msg) from error


def write_file(path: Path, content: bytes, advice: str = ELSEWHERE) -> None:
    """Write a file whole or not at all: where that fails, what was there before is still there."""
    with writing(path, advice):
        write_atomically(path, content)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a crash or a full disk leaves the old content or the new, never a part.

    A link is followed. What can be written only in place is: a pipe, or a file whose folder is not
    writable.
    """
    path = Path(os.path.realpath(path))
    if path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        path.write_bytes(content)
        return
    try:
        _write_and_rename(path, content, mode)
    except OSError as error:
        if mode is None or error.errno not in (errno.EACCES, errno.EPERM, errno.EBUSY):
            raise
        path.write_bytes(content)


def _write_and_rename(path: Path, content: bytes, mode: int | None) -> None:
    # This name is unique, across threads and across machines that share the disk.
    unique = f"{os.getpid()}-{secrets.token_hex(4)}"
    part = path.with_name(f"{path.name[:50]}.{unique}{PART_SUFFIX}")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            part.chmod(stat.S_IMODE(mode))
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # not every file system can flush a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def only_writer(folder: Path) -> Iterator[bool]:
    """Refuse a folder that is written to already; yields whether a lock could be taken.

    The system drops the lock with the process, however that ends.
    """
    if fcntl is None:
        yield False
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        raise _written(folder) from None
    try:
        yield _lock(handle, folder)
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _written(folder) from None
    except OSError:  # network file systems often can't
        return False
    if os.fstat(handle).st_nlink == 0:  # removed by one that has just ended
        raise _written(folder)
    return True


def _written(folder: Path) -> InputError:
    return InputError(
        f"{folder} is being written to already; wait until that ends, or choose another place"
    )


# Checksums of plain data, so that what is read back is what was saved.

CHECKSUM = "sha256"
CHANGED = (
    "its content does not match its checksum: it was damaged or edited after it was saved (without "
    f'its "{CHECKSUM}" it is read as it is)'
)


def digest(value: Any) -> str:
    """The SHA-256 of plain values; the order of a dict's keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def with_checksum(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with the digest of all the rest under ``sha256``."""
    return {**plain, CHECKSUM: digest(plain)}


def matches_checksum(found: Mapping[str, Any]) -> bool:
    """Whether data has a checksum, and it is that of all the rest."""
    rest = {name: value for name, value in found.items() if name != CHECKSUM}
    return CHECKSUM in found and found[CHECKSUM] == digest(rest)


def without_checksum(found: Any) -> Any:
    """Data without its checksum, which must be right where there is one.

    Versions before 0.3 saved none, and files that are written by hand need none.
    """
    if not isinstance(found, dict) or CHECKSUM not in found:
        return found
    if not matches_checksum(found):
        raise InputError(CHANGED)
    return {name: value for name, value in found.items() if name != CHECKSUM}
