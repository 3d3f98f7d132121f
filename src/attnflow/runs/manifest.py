"""The manifest of a run: what was asked for, of which model and input, and whether it is done."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attnflow.errors import InputError
from attnflow.io.checkpoint import PART_SUFFIX, check_same_request, digest, write_atomically
from attnflow.io.files import writing
from attnflow.runs.shards import NAME, PATTERN, read_info
from attnflow.version import VERSION

FILE = "manifest.json"
FORMAT = 1
PACKAGES = ("numpy", "numba", "torch", "transformers", "tokenizers", "pyarrow")
KEPT = "what is finished is kept: make room, and run the same command again"


def versions() -> dict[str, str]:
    """The versions that results depend on."""
    found = {name: version(name) for name in PACKAGES}
    return {"attnflow": VERSION, "python": platform.python_version(), **found}


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run's folder."""
    path = folder / FILE
    if not path.exists():
        there = "there is no such folder" if not folder.exists() else f"it has no {FILE}"
        msg = f"{folder} is no run: {there}; give the folder that attnflow run wrote"
        raise InputError(msg)
    try:
        found = json.loads(path.read_bytes())
        known, request, checksum = found["format"], found["request"], found["sha256"]
    except (ValueError, TypeError, KeyError, OSError) as error:
        msg = f"{path} is damaged ({error}); delete the folder to start over"
        raise InputError(msg) from None
    if known != FORMAT or digest(request) != checksum:
        why = f"its format is {known!r}" if known != FORMAT else "its checksum does not match"
        msg = f"{path} is damaged ({why}; this version reads {FORMAT}); delete the folder"
        raise InputError(msg)
    manifest: dict[str, Any] = found
    return manifest


def start(folder: Path, source: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The folder's manifest: a new one, or the one that is there if nothing differs."""
    if (folder / FILE).exists():
        saved = read_manifest(folder)
        check_same_request(saved["request"], request, folder)
        return saved
    if any(folder.glob(PATTERN)):
        msg = f"{folder} has shards and no {FILE}; choose another folder, or delete them"
        raise InputError(msg)
    plain = json.loads(json.dumps(request))
    manifest = {
        "format": FORMAT,
        "source": source,
        "request": plain,
        "sha256": digest(plain),
        "finished": None,
    }
    save(folder / FILE, _encoded(manifest))
    return manifest


def finish(folder: Path, manifest: Mapping[str, Any], shards: Sequence[int]) -> None:
    """Say that a run is done, and what its shards hold; remove what killed processes left."""
    paths = [folder / NAME.format(index) for index in shards]
    infos = [read_info(path) for path in paths]
    finished = {
        "rows": sum(info.count for info in infos),
        "attributions": sum(info.records for info in infos),
        "errors": sum(info.errors for info in infos),
        "shards": [
            {
                "file": path.name,
                "rows": info.count,
                "bytes": path.stat().st_size,
                "sha256": _sha256(path),
            }
            for path, info in zip(paths, infos, strict=True)
        ],
    }
    content = _encoded({**manifest, "finished": finished})
    if (folder / FILE).read_bytes() != content:
        save(folder / FILE, content)
    for leftover in folder.glob(f"*{PART_SUFFIX}"):
        leftover.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save(path: Path, content: bytes) -> None:
    """Write a file of a run, whole or not at all."""
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
    except InputError as error:
        msg = f"{error}; {KEPT}"
        raise InputError(msg) from error.__cause__


def _encoded(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n"
