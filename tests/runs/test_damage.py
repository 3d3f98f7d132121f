"""Damage to a run's files is noticed, however the run is read and whenever it is resumed."""

import hashlib
import json
import random
import shutil

import pandas as pd
import pytest

import attnflow
from attnflow.errors import InputError
from attnflow.io.files import digest, with_checksum
from attnflow.runs.shards import read_shard

# One text looks like the place where a shard has its checksum.
TEXTS = [
    "the keys to the cabinet are here",
    "",
    f'a cat "sha256": "{"0" * 64}"',
    "playing cats !",
    "here is a key",
]
OPTIONS = {"shard_size": 2, "layers": "all", "methods": ["raw", "flow"], "edges": "attention"}
WAYS = {
    "table": lambda run: run.table.to_table().to_pandas(),
    "some columns": lambda run: run.to_pandas(["row", "scores"]),
    "to_pandas": lambda run: run.to_pandas(),
    "filtered": lambda run: run.table.to_table(filter=run_filter()).to_pandas(),
    "count": lambda run: run.table.count_rows(),
    "attributions": lambda run: [one.to_dict() for one in run],
    "explained": lambda run: [(row, len(found)) for row, _, found in run.explained()],
    "errors": lambda run: run.errors,
}


def run_filter():
    import pyarrow.dataset as ds

    return ds.field("row") < 2


@pytest.fixture(scope="module")
def loaded(model):
    return attnflow.load_model(model)


@pytest.fixture(scope="module")
def whole(loaded, tmp_path_factory):
    """The files of a finished run."""
    place = tmp_path_factory.mktemp("runs") / "whole"
    attnflow.run(TEXTS, place, loaded, **OPTIONS)
    return {path.name: path.read_bytes() for path in place.iterdir()}


def restore(folder, whole, *, finished=True):
    """A run's folder as it was; not ``finished``, as if killed after its last shard."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in whole.items():
        (folder / name).write_bytes(content)
    if not finished:
        saved = json.loads(whole["manifest.json"])
        edit_manifest(folder, saved | {"finished": None})
    return folder


def edit_manifest(folder, changed):
    """A manifest with other content, and the checksum that belongs to it."""
    rest = {name: value for name, value in changed.items() if name != "sha256"}
    (folder / "manifest.json").write_text(json.dumps(with_checksum(rest), indent=1) + "\n")


def flip(path, chance):
    content = bytearray(path.read_bytes())
    at = chance.randrange(len(content) * 8)
    content[at // 8] ^= 1 << (at % 8)
    path.write_bytes(content)


def same(one, other):
    return one.equals(other) if isinstance(one, pd.DataFrame) else one == other


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "unfinished"])
@pytest.mark.parametrize("way", WAYS)
def test_a_flipped_bit_of_a_shard_is_noticed(way, finished, whole, tmp_path):
    folder, chance, read = tmp_path / "run", random.Random(way), WAYS[way]
    restore(folder, whole, finished=finished)
    expected = read(attnflow.read_run(folder, unfinished=True))
    bad_rows = "part-00000.parquet"
    names = [bad_rows] if way in ("errors", "filtered") else [n for n in whole if "part" in n]
    for _ in range(25):
        restore(folder, whole, finished=finished)
        name = chance.choice(names)
        flip(folder / name, chance)
        with pytest.raises(InputError, match=rf"{name} is damaged .*delete this file and run"):
            read(attnflow.read_run(folder, unfinished=True))
    restore(folder, whole, finished=finished)
    assert same(read(attnflow.read_run(folder, unfinished=True)), expected)


def test_damage_after_a_run_was_opened_is_noticed(whole, tmp_path):
    for finished in (True, False):
        folder = restore(tmp_path / "run", whole, finished=finished)
        run = attnflow.read_run(folder, unfinished=True)
        table = run.table
        flip(folder / "part-00000.parquet", random.Random(1))
        for read in (*WAYS.values(), lambda _, table=table: table.to_table()):
            with pytest.raises(InputError, match=r"part-00000\.parquet is damaged"):
                read(run)


def test_a_damaged_shard_is_never_resumed(whole, loaded, tmp_path):
    folder, chance = tmp_path / "run", random.Random(2)
    for number in range(20):
        restore(folder, whole, finished=number % 2 == 0)
        name = chance.choice([name for name in whole if "part" in name])
        flip(folder / name, chance)
        with pytest.raises(InputError, match=rf"{name} is damaged"):
            attnflow.run(TEXTS, folder, loaded, **OPTIONS)
        (folder / name).unlink()  # what the message says to do
        made = attnflow.run(TEXTS, folder, loaded, **OPTIONS)
        assert made.kept == (4 if name == "part-00002.parquet" else 3)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole


def test_all_damaged_shards_are_named_before_the_model_is_loaded(whole, tmp_path):
    folder = restore(tmp_path / "run", whole)
    for name in ("part-00000.parquet", "part-00002.parquet"):
        flip(folder / name, random.Random(3))
    with pytest.raises(InputError, match=r"part-00000.* is damaged .*too: part-00002\.parquet"):
        attnflow.run(TEXTS, folder, "/nowhere/at/all", **OPTIONS)


def test_a_flipped_bit_of_a_manifest_is_noticed_or_harmless(whole, tmp_path):
    folder = restore(tmp_path / "run", whole)
    path, content = folder / "manifest.json", whole["manifest.json"]
    expected, messages = attnflow.read_run(folder), []
    for at in random.Random(5).sample(range(len(content) * 8), 2000):
        changed = bytearray(content)
        changed[at // 8] ^= 1 << (at % 8)
        path.write_bytes(changed)
        try:
            found = attnflow.read_run(folder)
        except InputError as error:
            messages.append(str(error))
        else:  # between values, where it is read the same
            assert found == expected
    assert all(str(path) in message for message in messages)
    assert len(messages) > 1000


def test_a_shard_of_another_place_or_run_is_noticed(whole, loaded, tmp_path):
    folder = restore(tmp_path / "run", whole, finished=False)
    other = tmp_path / "other"
    attnflow.run(TEXTS, other, loaded, **OPTIONS | {"methods": ["raw", "rollout"]})
    shutil.copy(other / "part-00001.parquet", folder)
    for use in (
        lambda: attnflow.read_run(folder, unfinished=True),
        lambda: attnflow.run(TEXTS, folder, loaded, **OPTIONS),
    ):
        with pytest.raises(InputError, match=r"part-00001\.parquet belongs to a run with other"):
            use()
    restore(folder, whole)
    (folder / "part-00001.parquet").write_bytes(whole["part-00000.parquet"])
    with pytest.raises(InputError, match=r"part-00001\.parquet is damaged"):
        list(attnflow.read_run(folder))


def test_a_shard_of_the_same_rows_at_another_place_is_noticed(loaded, tmp_path):
    """What it is made of is the same, but for the numbers of its rows."""
    folder, rows = tmp_path / "run", TEXTS[:2] * 3
    attnflow.run(rows, folder, loaded, **OPTIONS)
    saved = json.loads((folder / "manifest.json").read_bytes())
    edit_manifest(folder, saved | {"finished": None})
    shutil.copy(folder / "part-00000.parquet", folder / "part-00001.parquet")
    for use in (
        lambda: attnflow.read_run(folder, unfinished=True),
        lambda: attnflow.run(rows, folder, loaded, **OPTIONS),
    ):
        with pytest.raises(
            InputError, match=r"part-00001.* damaged \(its first row is 0 instead of 2"
        ):
            use()
    (folder / "part-00001.parquet").rename(folder / "part-one.parquet")
    with pytest.raises(InputError, match=r"part-one\.parquet is not the name of a shard"):
        attnflow.read_run(folder, unfinished=True)


def test_runs_of_version_0_2_are_read_and_verified(whole, loaded, tmp_path):
    """Their shards have no checksums of their own, and the manifest has one of its request only."""
    folder = restore(tmp_path / "run", whole)
    expected = attnflow.read_run(folder).to_pandas()
    saved = json.loads(whole["manifest.json"])
    before = {**saved, "format": 1, "sha256": digest(saved["request"])}
    for each in before["finished"]["shards"]:
        path = folder / each["file"]
        start, mark, end = path.read_bytes().rpartition(b'"sha256": "')
        old = start + mark.replace(b"256", b"999") + end
        path.write_bytes(old)
        each["sha256"] = hashlib.sha256(old).hexdigest()
        del each["attributions"], each["errors"]
    (folder / "manifest.json").write_text(json.dumps(before))
    found = attnflow.read_run(folder)
    assert found.to_pandas().equals(expected)
    assert (found.rows, len(found), len(found.errors)) == (5, 8, 1)
    with pytest.raises(InputError, match=r"part-00000\.parquet is damaged \(it has no checksum\)"):
        read_shard(folder / "part-00000.parquet")
    with pytest.raises(InputError, match=r"part-00000\.parquet is damaged"):
        attnflow.run(TEXTS, folder, loaded, **OPTIONS)
    flip(folder / "part-00002.parquet", random.Random(4))
    with pytest.raises(InputError, match=r"part-00002\.parquet is damaged"):
        attnflow.read_run(folder)
    del before["finished"]["shards"][0]["file"]
    (folder / "manifest.json").write_text(json.dumps(before))
    with pytest.raises(InputError, match=r"manifest\.json is damaged"):
        attnflow.read_run(folder)
    (folder / "manifest.json").write_text(json.dumps({**before, "format": 3}))
    with pytest.raises(InputError, match="has format 3, and this version of attnflow reads 2"):
        attnflow.read_run(folder)


def test_the_checksum_of_a_shard_is_that_of_its_file(whole, tmp_path):
    """Written out: the SHA-256 of all bytes, with zeros where the checksum itself stands."""
    for name in (name for name in whole if "part" in name):
        path = tmp_path / name
        path.write_bytes(whole[name])
        before, mark, rest = whole[name].rpartition(b'"sha256": "')
        own, after = rest[:64], rest[64:]
        zeroed = before + mark + b"0" * 64 + after
        assert hashlib.sha256(zeroed).hexdigest().encode() == own
        assert read_shard(path) == whole[name]
        listed = json.loads(whole["manifest.json"])["finished"]["shards"]
        sums = {each["file"]: each["sha256"] for each in listed}
        assert sums[name] == hashlib.sha256(whole[name]).hexdigest()


@pytest.mark.parametrize("change", ["changed", "longer", "shorter", "half"])
def test_input_that_changes_while_it_is_read_is_noticed(change, loaded, tmp_path, monkeypatch):
    from attnflow.runs import engine

    rows, before = TEXTS * 4, TEXTS * 4
    later = {
        "changed": [*rows[:15], "another key", *rows[16:]],
        "longer": [*rows, "one more"],
        "shorter": rows[:-1],
        "half": rows[:10],
    }
    write, options = engine.write_file, OPTIONS | {"shard_size": 5, "methods": "raw"}

    def write_and_change(path, *content):
        write(path, *content)
        if path.name == "part-00000.parquet":
            rows[:] = later[change]

    monkeypatch.setattr(engine, "write_file", write_and_change)
    where = {"changed": 15, "longer": 20, "shorter": 15, "half": 10}[change]
    with pytest.raises(
        InputError, match=f"the list changed while it was read: rows from {where} on"
    ):
        attnflow.run(rows, tmp_path / "run", loaded, **options)
    monkeypatch.undo()
    assert not attnflow.read_run(tmp_path / "run", unfinished=True).finished
    with pytest.raises(InputError, match=r"other options: input\."):
        attnflow.run(rows, tmp_path / "run", loaded, **options)
    made = attnflow.run(before, tmp_path / "run", loaded, **options)
    assert made.kept >= 5
    assert [row for row, _, _ in made.explained()] == [row for row in range(20) if row % 5 != 1]


def test_a_generator_that_has_become_shorter_is_noticed(loaded, tmp_path):
    folder = tmp_path / "run"
    attnflow.run(iter(TEXTS), folder, loaded, **OPTIONS)
    before = (folder / "manifest.json").read_bytes()
    with pytest.raises(InputError, match=r"part-00002\.parquet is of rows that the input no"):
        attnflow.run(iter(TEXTS[:4]), folder, loaded, **OPTIONS)
    assert (folder / "manifest.json").read_bytes() == before
