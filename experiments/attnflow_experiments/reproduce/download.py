"""Data from a folder, or from its public archive: downloaded once, verified and cached."""

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
from attnflow.io.files import write_file


@dataclass(frozen=True)
class Archive:
    """A public archive.

    Attributes:
        url: Its address.
        files: The files needed from it → their SHA-256.
        option: The command-line option that gives a local folder instead.
    """

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


def cache_folder() -> Path:
    """The folder for downloads: ``$ATTNFLOW_CACHE``, by default ``~/.cache/attnflow``."""
    chosen = os.environ.get("ATTNFLOW_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "attnflow"


def data_folder(given: Path | None, archive: Archive, name: str) -> Path:
    """The folder given, or a cache folder; files missing there are downloaded."""
    folder = given or cache_folder() / name
    missing = [file for file in archive.files if not (folder / file).is_file()]
    if missing and given is not None:
        msg = f"{given} has no {', '.join(missing)}; give the folder that holds the data"
        raise InputError(msg)
    if missing:
        download(archive, folder)
    return folder


def download(archive: Archive, folder: Path) -> None:
    """Download the archive, verify the needed files and write them into the folder."""
    try:
        with urllib.request.urlopen(archive.url, timeout=60) as response:
            content = response.read()
    except OSError as error:
        msg = (
            f"{archive.url} could not be downloaded ({error}); "
            f"give the data's folder with {archive.option}"
        )
        raise InputError(msg) from error
    found = {}
    for name, member in _members(content, archive.url):
        expected = archive.files.get(name)
        if expected is None:
            continue
        actual = hashlib.sha256(member).hexdigest()
        if actual != expected:
            msg = (
                f"{name} from {archive.url} has changed: its SHA-256 is {actual}, expected "
                f"{expected}; give the data's folder with {archive.option}"
            )
            raise InputError(msg)
        found[name] = member
    if missing := sorted(set(archive.files) - set(found)):
        msg = (
            f"{archive.url} has no {', '.join(missing)}; give the data's folder with "
            f"{archive.option}"
        )
        raise InputError(msg)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in found.items():
        write_file(folder / name, content)


def _members(archive: bytes, url: str) -> list[tuple[str, bytes]]:
    """File names without folders, and contents, of a zip or tar archive."""
    stream = io.BytesIO(archive)
    if zipfile.is_zipfile(stream):
        with zipfile.ZipFile(stream) as file:
            return [(Path(name).name, file.read(name)) for name in file.namelist()]
    stream.seek(0)
    try:
        with tarfile.open(fileobj=stream) as tar:
            members = [(Path(item.name).name, tar.extractfile(item)) for item in tar]
            return [(name, member.read()) for name, member in members if member is not None]
    except tarfile.TarError as error:
        msg = f"{url} is not a zip or tar archive ({error}); give the data's folder instead"
        raise InputError(msg) from error
