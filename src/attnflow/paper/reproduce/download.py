"""Data from a folder, or from its public archive: fetched once, checked, kept."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

from attnflow.errors import InputError


@dataclass(frozen=True)
class Archive:
    """Where an archive is, the SHA-256 of each file wanted out of it, and the option instead."""

    url: str
    files: dict[str, str]
    option: str


AGREEMENT = Archive(
    "http://tallinzen.net/media/rnn_agreement/rnn_agr_simple.tar.gz",
    {"numpred.val": "430643ef15cacdcc2ff88afe44a87b9aeaa094c683653a54c2a936428d300245"},
    "--data",
)
SENTIMENT = Archive(
    "https://dl.fbaipublicfiles.com/glue/data/SST-2.zip",
    {"dev.tsv": "54a9c12c77e402fc14d6a66a506f24d999f596b0176eb777c972cccc2f9cc4b0"},
    "--sentiment-data",
)


def cache() -> Path:
    """Where fetched data is kept: ``$ATTNFLOW_CACHE``, or a folder in the user's cache."""
    chosen = os.environ.get("ATTNFLOW_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "attnflow"


def data_folder(given: Path | None, archive: Archive, name: str) -> Path:
    """The folder given, or the cache, with the archive's files fetched into it where missing."""
    folder = given or cache() / name
    missing = [file for file in archive.files if not (folder / file).is_file()]
    if missing and given is not None:
        msg = f"{given} has no {', '.join(missing)}; give the folder that holds the data"
        raise InputError(msg)
    if missing:
        fetch(archive, folder)
    return folder


def fetch(archive: Archive, folder: Path) -> None:
    """Download the archive, take the wanted files out, and refuse any that is not as it was."""
    try:
        with urllib.request.urlopen(archive.url, timeout=60) as response:
            content = response.read()
    except OSError as error:
        msg = (
            f"{archive.url} could not be fetched ({error}); "
            f"give the data's folder with {archive.option}"
        )
        raise InputError(msg) from error
    found = {}
    for name, member in _members(content, archive.url):
        wanted = archive.files.get(name)
        if wanted is None:
            continue
        got = hashlib.sha256(member).hexdigest()
        if got != wanted:
            msg = f"{name} from {archive.url} is not the file this was made with: SHA-256 {got}"
            raise InputError(msg)
        found[name] = member
    if missing := sorted(set(archive.files) - set(found)):
        msg = f"{archive.url} holds no {', '.join(missing)}"
        raise InputError(msg)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in found.items():
        part = folder / f"{name}.part"
        part.write_bytes(content)
        part.replace(folder / name)


def _members(archive: bytes, url: str) -> list[tuple[str, bytes]]:
    """Names without folders, and contents, of a zip or tar archive."""
    stream = io.BytesIO(archive)
    if zipfile.is_zipfile(stream):
        with zipfile.ZipFile(stream) as packed:
            return [(Path(name).name, packed.read(name)) for name in packed.namelist()]
    stream.seek(0)
    try:
        with tarfile.open(fileobj=stream) as tape:
            members = [(Path(item.name).name, tape.extractfile(item)) for item in tape]
            return [(name, file.read()) for name, file in members if file is not None]
    except tarfile.TarError as error:
        msg = f"{url} gave no archive that can be read: {error}"
        raise InputError(msg) from error
