"""Files are written whole or not at all, wherever they are."""

import os
import stat
import threading
from pathlib import Path

import pytest

from attnflow.errors import InputError
from attnflow.io.files import write_atomically, write_file
from full_disk import files_up_to


def names(folder):
    return sorted(found.name for found in folder.iterdir())


def test_what_can_not_be_written_leaves_what_was_there(tmp_path):
    path = tmp_path / "file.json"
    write_file(path, b"old")
    for place in (path, tmp_path / "new.json"):
        with files_up_to(1000), pytest.raises(InputError, match=rf"{place.name} can't be written"):
            write_file(place, b"x" * 5000)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file.json"]


def test_an_interrupt_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_links_and_permissions_stay(tmp_path):
    path, link = tmp_path / "real", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_file(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    (tmp_path / "nowhere").symlink_to(tmp_path / "later")
    write_file(tmp_path / "nowhere", b"made")
    assert (tmp_path / "later").read_bytes() == b"made"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match=r"loop can't be written: Too many levels of symbolic"):
        write_file(tmp_path / "loop", b"lost")
    assert (tmp_path / "loop").is_symlink()


def test_a_pipe_is_written_and_stays_a_pipe(tmp_path):
    """As for ``--save >(gzip)`` and ``/dev/stdout``."""
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, b"through")
    reader.join()
    assert received == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


def test_a_file_that_can_not_be_renamed_is_written_in_place(tmp_path, monkeypatch):
    """One that is mounted by itself, as containers do, or in a folder of someone else's."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def busy(*_):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "replace", busy)
    write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["file"]
    with pytest.raises(InputError, match=r"other can't be written: Device or resource busy"):
        write_file(tmp_path / "other", b"new")


def test_names_as_long_as_the_system_allows(tmp_path):
    path = tmp_path / ("x" * 250 + ".json")
    write_file(path, b"content")
    assert path.read_bytes() == b"content"
