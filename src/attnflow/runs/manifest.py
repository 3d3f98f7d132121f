"""The manifest of a run: its options, its model and input, and whether it is finished.

It has a checksum of all that it says, and once the run is finished, those of all shards.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attnflow.errors import InputError, shown
from attnflow.io.checkpoint import check_same_request
from attnflow.io.files import (
    CHECKSUM,
    GO_ON,
    digest,
    matches_checksum,
    with_checksum,
    write_file,
    writing,
)
from attnflow.runs.shards import PATTERN, Shard, describe, read_shard
from attnflow.version import VERSION

FILE = "manifest.json"
FORMAT = 2
BEFORE = 1  # of versions up to 0.2: only the request had a checksum
PACKAGES = ("numpy", "numba", "torch", "transformers", "tokenizers", "pyarrow")


def versions() -> dict[str, str]:
    """The versions that results depend on."""
    found = {name: version(name) for name in PACKAGES}
    return {"attnflow": VERSION, "python": platform.python_version(), **found}


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run's folder."""
    path = folder / FILE
    if not path.exists():
        there = "there is no such folder" if not folder.exists() else f"it has no {FILE}"
        msg = f"{folder} is not a run: {there}; give the folder that attnflow run wrote"
        raise InputError(msg)
    try:
        found = json.loads(path.read_bytes())
        known = found["format"]
        before = known == BEFORE
        sound = found[CHECKSUM] == digest(found["request"]) if before else matches_checksum(found)
    except (ValueError, TypeError, KeyError, OSError, RecursionError) as error:
        msg = f"{path} is damaged ({error}); delete the folder to start over"
        raise InputError(msg) from None
    if known not in (BEFORE, FORMAT):
        msg = (
            f"{path} has format {shown(known)}, and this version of attnflow reads {FORMAT}; read "
            "the run with the version that wrote it"
        )
        raise InputError(msg)
    if not sound:
        msg = f"{path} is damaged (its checksum does not match); delete the folder to start over"
        raise InputError(msg)
    manifest: dict[str, Any] = found
    return manifest


def listed_shards(folder: Path, manifest: Mapping[str, Any]) -> list[Shard]:
    """The shards of a finished run, as its manifest lists them."""
    listed = manifest["finished"]["shards"]
    if manifest["format"] == FORMAT:
        return [Shard(**each) for each in listed]
    try:
        paths = [(folder / each["file"], each["sha256"]) for each in listed]
    except (TypeError, KeyError) as error:
        msg = f"{folder / FILE} is damaged ({error}); delete the folder to start over"
        raise InputError(msg) from None
    return [describe(path, read_shard(path, checksum)) for path, checksum in paths]


def start(folder: Path, source: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The folder's manifest: a new one, or the existing one if nothing differs."""
    if (folder / FILE).exists():
        saved = read_manifest(folder)
        check_same_request(saved["request"], request, folder)
        if saved["format"] != FORMAT:
            msg = (
                f"{folder} was made by a version whose shards have no checksums; choose another "
                "folder, or delete it to start over"
            )
            raise InputError(msg)
        return saved
    if any(folder.glob(PATTERN)):
        msg = f"{folder} has shards and no {FILE}; choose another folder, or delete them"
        raise InputError(msg)
    plain = json.loads(json.dumps(request))
    manifest = {"format": FORMAT, "source": source, "request": plain, "finished": None}
    write_file(folder / FILE, _encoded(manifest), GO_ON)
    return manifest


def finish(folder: Path, manifest: Mapping[str, Any], shards: Sequence[Shard]) -> None:
    """Record that a run is finished, and what its shards hold."""
    finished = {
        "rows": sum(shard.rows for shard in shards),
        "attributions": sum(shard.attributions for shard in shards),
        "errors": sum(shard.errors for shard in shards),
        "shards": [asdict(shard) for shard in shards],
    }
    content = _encoded({**manifest, "finished": finished})
    if (folder / FILE).read_bytes() != content:
        write_file(folder / FILE, content, GO_ON)


def create(folder: Path) -> None:
    """Create the folder of a run, unless it exists."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


def _encoded(manifest: Mapping[str, Any]) -> bytes:
    rest = {name: value for name, value in manifest.items() if name != CHECKSUM}
    return json.dumps(with_checksum(rest), indent=1).encode() + b"\n"
