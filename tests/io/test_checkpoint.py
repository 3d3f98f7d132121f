"""Checkpoints: read back equal, never half-written, refused by name when damaged or of others."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from attnflow.errors import InputError
from attnflow.io import checkpoint as module
from attnflow.io import files
from attnflow.io.checkpoint import Checkpoint, alone_in
from attnflow.io.files import only_writer
from full_disk import files_up_to

REQUEST = {"model": None, "count": 6, "recipe": {"steps": 90, "mixture": {"natural": 24}}}


@pytest.mark.parametrize(
    "value",
    [None, 0, 1.5, "text", [], [1, [None, "é"]], {"a": [0.1, float("inf")], "b": {"c": True}}],
)
def test_plain_values_are_read_back_equal(tmp_path, value):
    Checkpoint(tmp_path, REQUEST).put("piece", value)
    checkpoint = Checkpoint(tmp_path, REQUEST)
    assert checkpoint.get("piece", "missing") == value
    assert checkpoint.names() == ["piece"]
    assert "piece" in checkpoint
    assert "other" not in checkpoint
    assert checkpoint.get("other", "missing") == "missing"


def test_arrays_are_read_back_equal(tmp_path):
    arrays = {"file": np.arange(6.0).reshape(2, 3), "words": np.array(["a", "b"])}
    Checkpoint(tmp_path, REQUEST).put("shard-1", arrays)
    found = Checkpoint(tmp_path, REQUEST).get("shard-1")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


def test_states_of_torch_are_read_back_equal(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    checkpoint = Checkpoint(tmp_path, REQUEST)
    checkpoint.put("state", {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    found = checkpoint.get("state")
    assert torch.equal(found["model"]["weight"], model.weight)
    assert found["optimizer"]["param_groups"] == optimizer.state_dict()["param_groups"]


@pytest.mark.parametrize("value", [object(), {"a": np.array([object()])}, Path.cwd])
def test_values_that_could_not_be_read_back_are_refused(tmp_path, value):
    with pytest.raises(InputError, match=r"can't be saved in a checkpoint; allowed: plain"):
        Checkpoint(tmp_path / "new", REQUEST).put("piece", value)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "-option", "a b"])
def test_names_that_are_no_file_names_are_refused(tmp_path, name):
    with pytest.raises(InputError, match="must consist of letters, digits"):
        Checkpoint(tmp_path, REQUEST).put(name, 1)


def test_done_removes_what_was_saved_and_nothing_else(tmp_path):
    folder = tmp_path / "checkpoint"
    checkpoint = Checkpoint(folder, REQUEST)
    assert not folder.exists()  # opening writes nothing
    checkpoint.put("piece", 1)
    (folder / "piece.piece.1.part").write_bytes(b"of a killed process")
    checkpoint.done()
    assert not folder.exists()
    checkpoint.done()
    checkpoint.put("piece", 1)
    (folder / "notes.txt").write_text("mine")
    checkpoint.done()
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_another_request_is_refused_with_what_differs(tmp_path):
    Checkpoint(tmp_path, REQUEST).put("piece", 1)
    changed = {"count": 7, "recipe": {"steps": 90, "mixture": {"natural": 20}}, "data": Path("sva")}
    with pytest.raises(InputError) as refused:
        Checkpoint(tmp_path, changed)
    message = str(refused.value)
    assert message.startswith(f"{tmp_path} was made with other options: ")
    for difference in (
        "model was null, now (not set)",
        "count was 6, now 7",
        "recipe.mixture.natural was 24, now 20",
        'data was (not set), now "sva"',
    ):
        assert difference in message
    assert "steps" not in message
    assert "choose another folder, or delete it to start over" in message


def test_the_order_of_options_and_tuples_make_no_difference(tmp_path):
    Checkpoint(tmp_path, {"a": (1, 2), "b": Path("x")}).put("piece", 1)
    assert Checkpoint(tmp_path, {"b": "x", "a": [1, 2]}).get("piece") == 1


def test_a_piece_of_another_request_is_refused(tmp_path):
    Checkpoint(tmp_path / "old", {"count": 1}).put("piece", 1)
    new = Checkpoint(tmp_path / "new", {"count": 2})
    new.put("other", 2)
    (tmp_path / "old" / "piece.piece").rename(tmp_path / "new" / "piece.piece")
    with pytest.raises(InputError, match=r"piece\.piece belongs to a run with other options"):
        new.get("piece")


def test_a_piece_under_the_name_of_another_is_refused(tmp_path):
    """Its request and its checksum are right."""
    checkpoint = Checkpoint(tmp_path, REQUEST)
    checkpoint.put("text0", [1.0])
    checkpoint.put("text1", [2.0])
    (tmp_path / "text1.piece").write_bytes((tmp_path / "text0.piece").read_bytes())
    with pytest.raises(InputError, match=r"text1\.piece is damaged: it holds the piece 'text0'"):
        checkpoint.get("text1")


@pytest.mark.parametrize(
    "value", [{"a": list(range(50))}, {"a": torch.ones(50)}], ids=["json", "tensors"]
)
def test_a_file_cut_anywhere_is_refused_by_name(tmp_path, value):
    checkpoint = Checkpoint(tmp_path, REQUEST)
    checkpoint.put("other", 1)
    checkpoint.put("piece", value)
    path = tmp_path / "piece.piece"
    content = path.read_bytes()
    for size in (0, 1, 40, content.index(b"\n") + 1, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(InputError, match=r"piece\.piece is damaged: .*delete this file and"):
            Checkpoint(tmp_path, REQUEST).get("piece")
    path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])  # one bit
    with pytest.raises(InputError, match="do not match their checksum"):
        checkpoint.get("piece")
    path.unlink()  # what the message says to do
    assert Checkpoint(tmp_path, REQUEST).get("piece") is None
    assert checkpoint.get("other") == 1


def test_a_damaged_request_is_refused_by_name(tmp_path):
    Checkpoint(tmp_path, REQUEST).put("piece", 1)
    path = tmp_path / "request.json"
    content = path.read_text()
    for damaged in ("", content[:20], "[]", content.replace("90", "91")):
        path.write_text(damaged)
        with pytest.raises(InputError, match=r"request\.json is damaged .*delete the folder"):
            Checkpoint(tmp_path, REQUEST)


def test_a_later_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FORMAT", 3)
    Checkpoint(tmp_path, REQUEST).put("piece", 1)
    monkeypatch.undo()
    with pytest.raises(InputError, match="its format is 3"):
        Checkpoint(tmp_path, REQUEST).get("piece")


def test_a_full_disk_leaves_the_old_value(tmp_path):
    Checkpoint(tmp_path, REQUEST).put("piece", "old")
    told = r"piece\.piece can't be written: File too large; what is finished is kept: free"
    with files_up_to(1000), pytest.raises(InputError, match=told):
        Checkpoint(tmp_path, REQUEST).put("piece", "new" * 1000)
    assert Checkpoint(tmp_path, REQUEST).get("piece") == "old"
    assert not list(tmp_path.glob("*.part"))


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InputError, match="a file is in the way; choose another folder"):
        Checkpoint(tmp_path / "taken", REQUEST).put("piece", 1)


def test_a_folder_that_can_not_be_made_is_named(tmp_path):
    with pytest.raises(InputError, match="x can't be written: File name too long; choose another"):
        Checkpoint(tmp_path / ("x" * 300), REQUEST).put("piece", 1)


WRITER = """
import sys
from attnflow.io.checkpoint import Checkpoint, alone_in
from attnflow.io.files import only_writer
checkpoint = Checkpoint(sys.argv[1], {"count": 1})
number = checkpoint.get("state", [0])[0]
while True:
    number += 1
    checkpoint.put("state", [number] * 50_000)
    checkpoint.put(f"shard-{number % 5}", {"number": number, "rows": [number] * 5_000})
    print(number, flush=True)
"""


def test_kill_9_at_random_moments_leaves_a_readable_state(tmp_path):
    chance, reported = random.Random(0), 0
    for _ in range(8):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        first = writer.stdout.readline()
        time.sleep(chance.uniform(0, 0.1))
        writer.send_signal(signal.SIGKILL)
        lines = [first, *writer.stdout.read().splitlines()]
        writer.stdout.close()
        writer.wait()
        assert int(first) > reported  # went on from what the killed one had saved
        reported = int(lines[-1])
        checkpoint = Checkpoint(tmp_path, {"count": 1})
        state = checkpoint.get("state")
        assert len(state) == 50_000
        assert len(set(state)) == 1
        assert state[0] in (reported, reported + 1, reported + 2)  # nothing reported is lost
        for name in checkpoint.names():
            assert checkpoint.get(name) is not None
    assert json.loads((tmp_path / "request.json").read_text())["request"] == {"count": 1}


def test_a_folder_that_goes_while_it_is_locked_is_refused(tmp_path, monkeypatch):
    """Its owner has just ended: a lock on what was removed keeps nobody out."""
    folder = tmp_path / "parts"
    take = files.fcntl.flock

    def removed(handle, how):
        folder.rmdir()
        take(handle, how)

    monkeypatch.setattr(files.fcntl, "flock", removed)
    with pytest.raises(InputError, match="is being written to already"), alone_in(folder):
        pass
    with pytest.raises(InputError, match="is being written to already"), only_writer(folder):
        pass
