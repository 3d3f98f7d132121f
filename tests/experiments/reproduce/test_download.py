"""Data is downloaded once and verified; changed or missing files are refused."""

import hashlib
import http.server
import io
import tarfile
import threading
import zipfile

import pytest

from attnflow.errors import InputError
from attnflow_experiments.reproduce.download import Archive, data_folder

CONTENT = b"VBZ\tthe key\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def archives():
    tar, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:gz") as archive:
        item = tarfile.TarInfo("rnn_agr_simple/numpred.val")
        item.size = len(CONTENT)
        archive.addfile(item, io.BytesIO(CONTENT))
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("SST-2/numpred.val", CONTENT)
        archive.writestr("SST-2/other", b"x")
    return {"/a.tar.gz": tar.getvalue(), "/a.zip": zipped.getvalue(), "/bad": b"no archive"}


@pytest.fixture
def server():
    files, requested = archives(), []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            self.send_response(200 if self.path in files else 404)
            self.end_headers()
            self.wfile.write(files.get(self.path, b""))

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", requested
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
def test_files_are_downloaded_once_and_cached(server, tmp_path, monkeypatch, name):
    url, requested = server
    monkeypatch.setenv("ATTNFLOW_CACHE", str(tmp_path))
    archive = Archive(f"{url}/{name}", {"numpred.val": SHA256}, "--data")
    for _ in range(2):
        folder = data_folder(None, archive, "agreement")
        assert [p.name for p in folder.iterdir()] == ["numpred.val"]
        assert (folder / "numpred.val").read_bytes() == CONTENT
    assert requested == [f"/{name}"]


@pytest.mark.parametrize(
    ("path", "files", "message"),
    [
        ("a.zip", {"numpred.val": "0" * 64}, "has changed: its SHA-256 is"),
        (
            "a.zip",
            {"numpred.val": SHA256, "dev.tsv": SHA256},
            "has no dev.tsv; give the data's folder",
        ),
        ("bad", {"numpred.val": SHA256}, "is not a zip or tar archive"),
        ("gone", {"numpred.val": SHA256}, "could not be downloaded .*give the data's folder"),
    ],
)
def test_changed_or_missing_files_are_refused(server, tmp_path, monkeypatch, path, files, message):
    monkeypatch.setenv("ATTNFLOW_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=message):
        data_folder(None, Archive(f"{server[0]}/{path}", files, "--data"), "agreement")
    assert not list(tmp_path.rglob("numpred.val*"))


def test_a_folder_that_was_given_is_never_written_to(tmp_path):
    with pytest.raises(InputError, match=r"has no numpred\.val"):
        data_folder(
            tmp_path, Archive("http://127.0.0.1:9/", {"numpred.val": SHA256}, "--data"), "agreement"
        )
    assert not list(tmp_path.iterdir())
