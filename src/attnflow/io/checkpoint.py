"""Checkpoints: pieces of long work saved by name, so that an interrupted run can continue.

    checkpoint = Checkpoint(folder, request)     # refused if the folder is of another request
    for name in names:
        if name not in checkpoint:
            checkpoint.put(name, compute(name))
    results = [checkpoint.get(name) for name in names]
    checkpoint.done()                            # removes the folder

A folder holds ``request.json`` and one ``NAME.piece`` per piece. A piece is one header line (JSON:
format, name, encoding, digest of the request, SHA-256 of the content) and the content. Every file
is written under a temporary name, flushed to the disk and renamed: at any moment, even after
``kill -9``, it holds an old or a new value in full. Damage from elsewhere is detected by the
SHA-256 and reported. Several processes may share a folder if no two of them write the same piece.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnflow.errors import InputError
from attnflow.io.files import (
    GO_ON,
    PART_SUFFIX,
    digest,
    is_file,
    only_writer,
    write_file,
    writing,
)

FORMAT = 2
REQUEST = "request.json"
PIECE_SUFFIX = ".piece"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
MISSING = "(not set)"


class Checkpoint:
    """Pieces of one request's work, in a folder of their own.

    Opening reads the folder only; it is created by the first ``put``.

    Args:
        folder: Where pieces are saved. Nothing else should be in it.
        request: Every option that changes a piece: plain values, which may be nested; paths are
            saved as text.

    Raises:
        InputError: The folder holds pieces of another request, or a damaged ``request.json``.
    """

    def __init__(self, folder: str | Path, request: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.request = _plain_request(request)
        self._digest = digest(self.request)
        path = self.folder / REQUEST
        if is_file(path):
            self._check_request(path)

    def _check_request(self, path: Path) -> None:
        try:
            saved = json.loads(path.read_bytes())
            request, expected = saved["request"], saved["sha256"]
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(self._damaged_request(path, error)) from None
        if digest(request) != expected:
            raise InputError(self._damaged_request(path, "its checksum does not match"))
        check_same_request(request, self.request, self.folder)

    def _damaged_request(self, path: Path, reason: object) -> str:
        return f"{path} is damaged ({reason}); delete the folder {self.folder} to start over"

    def names(self) -> list[str]:
        """The names of all saved pieces, sorted."""
        return saved_names(self.folder)

    def __contains__(self, name: str) -> bool:
        return self._path(name).is_file()

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a piece; ``default`` if it was not saved. Tensors are on the CPU.

        Raises:
            InputError: The file is damaged, or belongs to another request.
        """
        path = self._path(name)
        try:
            line, _, content = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return default
        try:
            header = json.loads(line)
            known, encoding = header["format"], header["encoding"]
            own, owner, expected = header.get("name"), header["request"], header["sha256"]
        except (ValueError, TypeError, KeyError):
            raise InputError(_damaged_piece(path, "its header can't be read")) from None
        if known != FORMAT or encoding not in DECODERS:
            reason = f"its format is {known!r}, {encoding!r}; this version reads {FORMAT}"
            raise InputError(_damaged_piece(path, reason))
        if own != name:
            raise InputError(_damaged_piece(path, f"it holds the piece {own!r}"))
        if hashlib.sha256(content).hexdigest() != expected:
            reason = f"its {len(content)} bytes do not match their checksum"
            raise InputError(_damaged_piece(path, reason))
        if owner != self._digest:
            msg = (
                f"{path} belongs to a run with other options; choose another folder, or delete "
                f"{self.folder} to start over"
            )
            raise InputError(msg)
        return DECODERS[encoding](content)

    def put(self, name: str, value: Any) -> None:
        """Save a piece, replacing an earlier value of that name.

        Args:
            name: Letters, digits, ``_``, ``-`` and ``.``, not starting with ``-`` or ``.``.
            value: Plain values (``None``, numbers, text, lists, dicts with text keys), a dict of
                NumPy arrays, or what torch saves safely, such as a ``state_dict()``.

        Raises:
            InputError: The name or the value can't be saved, or the folder can't be created.
        """
        path = self._path(name)
        encoding, content = _encode(value)
        header = {
            "format": FORMAT,
            "name": name,
            "encoding": encoding,
            "request": self._digest,
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        self._create()
        write_file(path, json.dumps(header).encode() + b"\n" + content, GO_ON)
        for leftover in self.folder.glob(f"{path.name}.*{PART_SUFFIX}"):  # of a killed process
            leftover.unlink(missing_ok=True)

    def _create(self) -> None:
        _make(self.folder)
        path = self.folder / REQUEST
        if not path.exists():
            saved = {"request": self.request, "sha256": self._digest}
            write_file(path, json.dumps(saved, indent=1).encode() + b"\n", GO_ON)

    def done(self) -> None:
        """Remove the pieces and, if nothing else is in it, the folder."""
        for pattern in (f"*{PIECE_SUFFIX}", f"*{PART_SUFFIX}", REQUEST):  # the request last
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()

    def _path(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            msg = (
                f"name={name!r} must consist of letters, digits, '_', '-' and '.', and start with "
                "a letter, a digit or '_'"
            )
            raise InputError(msg)
        return self.folder / f"{name}{PIECE_SUFFIX}"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Create the folder of a checkpoint, and refuse it while something else works in it.

    Where the work ends before anything was saved, the folder is removed again.
    """
    _make(folder)
    with only_writer(folder):
        try:
            yield
        except BaseException:
            with suppress(OSError):
                folder.rmdir()
            raise


def _make(folder: Path) -> None:
    with writing(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            msg = f"{folder} can't be created: a file is in the way; choose another folder"
            raise InputError(msg) from None


def saved_names(folder: Path) -> list[str]:
    """The names of all pieces in a checkpoint's folder, of whatever request."""
    return sorted(path.name.removesuffix(PIECE_SUFFIX) for path in folder.glob(f"*{PIECE_SUFFIX}"))


def check_same_request(saved: Mapping[str, Any], given: Mapping[str, Any], path: Path) -> None:
    """Refuse to continue what was started with other options, and name each that differs."""
    before, now = dict(_flatten(saved)), dict(_flatten(_plain_request(given)))
    changes = [
        f"{name} was {before.get(name, MISSING)}, now {now.get(name, MISSING)}"
        for name in dict.fromkeys((*before, *now))
        if before.get(name, MISSING) != now.get(name, MISSING)
    ]
    if changes:
        msg = (
            f"{path} was made with other options: {'; '.join(changes)}. Give the same options "
            "again, choose another folder, or delete it to start over"
        )
        raise InputError(msg)


def _flatten(request: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every option by its dotted name, its value as JSON."""
    for name, value in request.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", json.dumps(value)


def _plain_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request as JSON reads it back, so that it can be compared with a saved one."""

    def convert(value: Any) -> Any:
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        msg = f"a request may hold plain values and paths, got {type(value).__name__}: {value!r}"
        raise InputError(msg)

    plain: dict[str, Any] = json.loads(json.dumps(dict(request), default=convert))
    return plain


def _damaged_piece(path: Path, reason: str) -> str:
    return (
        f"{path} is damaged: {reason}; delete this file and run again: only this piece is "
        "computed again"
    )


def _encode(value: Any) -> tuple[str, bytes]:
    """The encoding and content of a value, chosen so that it is read back equal."""
    if _is_plain(value):
        return "json", json.dumps(value).encode()
    import numpy as np

    buffer = io.BytesIO()
    if isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(item, np.ndarray) and item.dtype != object
        for key, item in value.items()
    ):
        named: dict[str, Any] = {f"_{key}": item for key, item in value.items()}  # not "file"
        np.savez(buffer, **named)
        return "arrays", buffer.getvalue()
    import torch

    try:
        torch.save(value, buffer)
        _decode_tensors(buffer.getvalue())  # refuses types that are not safe to load
    except (pickle.PickleError, AttributeError, TypeError) as error:
        msg = (
            f"a value of type {type(value).__name__} can't be saved in a checkpoint; allowed: "
            "plain values, a dict of NumPy arrays, and what torch loads with weights_only=True"
        )
        raise InputError(msg) from error
    return "tensors", buffer.getvalue()


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_is_plain, value.values()))
    return value is None or isinstance(value, str | int | float)


def _decode_arrays(content: bytes) -> Any:
    import numpy as np

    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {key.removeprefix("_"): item for key, item in arrays.items()}


def _decode_tensors(content: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


DECODERS: dict[str, Callable[[bytes], Any]] = {
    "json": json.loads,
    "arrays": _decode_arrays,
    "tensors": _decode_tensors,
}
