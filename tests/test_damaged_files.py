"""Files that are no attributions end in an error that names them; the others lose nothing."""

import dataclasses
import gzip
import json
import math
import pickle

import numpy as np
import pytest

from attnflow.errors import InputError
from attnflow.records import Attribution, PatchGrid, Prediction, files
from attnflow.records.files import to_json

DROP = object()


def made(**changes):
    values = {
        "tokens": ("[CLS]", "un", "##known", "cat"),
        "scores": np.random.default_rng(0).random((2, 2, 4)),
        "layers": (1, 3),
        "queries": (0, 2),
        "layer": 3,
        "query": 0,
        "method": "rollout",
        "options": {"heads": [0, 1], "residual": 0.5},
        "prediction": Prediction("x", 0.75, (("x", 0.75), ("y", 0.25)), 3),
        "statistics": {"largest_gap": 1e-17},
        "word_ids": (None, 0, 0, 1),
        "word_texts": ("Unknown", "cat"),
        "segments": ("a", "patch", "patch", "a"),
        "grid": PatchGrid(1, 2, (10, 20), (0.0, 0.5, 20.0, 9.5)),
    }
    return Attribution(**(values | changes))


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def edited(*edits):
    """A saved attribution as text, with values changed at paths."""
    data = made().to_dict()
    for *path, last, value in edits:
        place = data
        for part in path:
            place = place[part]
        if value is DROP:
            del place[last]
        else:
            place[last] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("tokens", "abcd", "tokens='abcd' must be a list of texts"),
        ("tokens", ["a", "b", "c", 4], r"tokens\[3\]=4 must be a text"),
        ("tokens", None, "tokens=None"),
        ("tokens", {"a": 1}, "tokens=.* must be a list of texts"),
        ("layers", [3, 1], r"layers=\[3, 1\] must rise, each number once"),
        ("layers", [1, 1], r"layers=\[1, 1\] must rise"),
        ("layers", [0, 3], r"layers\[0\]=0 must be an integer from 1 to 3"),
        ("layers", [True, 3], r"layers\[0\]=True"),
        ("layers", [1.0, 3], r"layers\[0\]=1.0"),
        ("layers", [1, 4], r"layers\[1\]=4 must be an integer from 1 to 3"),
        ("layers", 3, "layers=3 must be a list of integers"),
        ("layer", True, "layer=True"),
        ("layer", 3.0, "layer=3.0"),
        ("queries", [0, 4], r"queries\[1\]=4 must be an integer from 0 to 3"),
        ("queries", [-1, 0], r"queries\[0\]=-1"),
        ("queries", [0, 0], "must rise"),
        ("query", "0", "query='0'"),
        ("depth", -1, "depth=-1"),
        ("depth", 2, r"layers\[1\]=3 must be an integer from 1 to 2"),
        ("method", 3, "method=3 must be a text"),
        ("model", None, "model=None"),
        ("text", ["a"], "text="),
        ("options", [], r"options=\[\] must be a dict"),
        ("statistics", "a", "statistics='a' must be a dict"),
        ("word_ids", [None, 0, 0, 2], r"word_ids\[3\]=2 must be an integer from 0 to 1"),
        ("word_ids", [None, 0, 0, -1], r"word_ids\[3\]=-1"),
        ("word_ids", [None, 0, 0, 1.0], r"word_ids\[3\]=1.0"),
        ("word_ids", "abcd", "word_ids='abcd'"),
        ("word_ids", 0, "word_ids=0"),
        ("word_ids", [], "word_ids has 0 entries"),
        ("word_texts", [1, 2], r"word_texts\[0\]=1"),
        ("segments", 0, "segments=0"),
        ("segments", [1, 2, 3, 4], r"segments\[0\]=1"),
        ("prediction", "x", "prediction='x' must be a dict"),
        ("prediction", {"label": "x"}, "no prediction of format 1: it lacks probability"),
        ("prediction", {"label": "x", "probability": 0.5, "why": 1}, "it has unknown why"),
        ("prediction", {"label": 1, "probability": 0.5}, "label=1 must be a text"),
        ("prediction", {"label": "x", "probability": "0.5"}, "the probability of 'x'='0.5'"),
        ("prediction", {"label": "x", "probability": True}, "the probability of 'x'=True"),
        ("prediction", {"label": "x", "probability": -0.5}, "'x' is -0.5; .*from 0 to 1"),
        ("prediction", {"label": "x", "probability": 0.5, "position": 4}, "position=4"),
        ("prediction", {"label": "x", "probability": 0.5, "alternatives": [["x"]]}, r"\['x'\]"),
        ("prediction", {"label": "x", "probability": 0.5, "alternatives": 3}, "alternatives=3"),
        ("grid", [], r"grid=\[\] must be a dict"),
        ("grid", {"rows": 1}, "it lacks box, columns, image"),
        ("scores", "1", "scores are"),
        ("scores", [[["1.0"] * 4] * 2] * 2, "scores hold str"),
        ("scores", [[[True] * 4] * 2] * 2, "scores hold bool"),
        ("scores", [[[0.5, 0.5, 0.5, None]] * 2] * 2, "scores hold NoneType"),
        ("scores", [[[0.5] * 4, [0.5] * 3]] * 2, "scores must be an array of numbers"),
        ("scores", [[[10**400] * 4] * 2] * 2, "scores"),
        ("scores", [[[[[0.5]]]]], "scores hold list|shape"),
        ("scores", [], "shape"),
        ("format", True, "format=True"),
        ("format", "1", "format='1'"),
        ("more", 1, "it has unknown more"),
        ("scores", DROP, "it lacks scores"),
        ("tokens", DROP, "it lacks tokens"),
    ],
)
def test_a_field_of_another_type_is_named(field, value, message, tmp_path):
    path = written(tmp_path / "x.json", edited((field, value)))
    with pytest.raises(InputError, match=rf"(?s)x\.json is not a saved attribution: .*{message}"):
        Attribution.load(path)
    with pytest.raises(InputError, match=message):
        Attribution.from_dict(json.loads(path.read_text()))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows", 0),
        ("rows", 1.5),
        ("columns", True),
        ("image", [10]),
        ("image", [10, -1]),
        ("image", 7),
        ("box", [0, 0, 1]),
        ("box", [5.0, 0.0, 5.0, 9.0]),
        ("box", ["a", 0, 1, 1]),
        ("box", [0, 0, 10**400, 1]),
    ],
)
def test_a_grid_that_lies_on_no_image_is_refused(name, value, tmp_path):
    path = written(tmp_path / "x.json", edited(("grid", name, value)))
    with pytest.raises(InputError, match=rf"x\.json is not a saved attribution: .*grid\.{name}"):
        Attribution.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b" \n\t", "does not start with {"),
        (b"\x00" * 100, "does not start with {"),
        (b"\xff\xfe{\x00}\x00", "does not start with {"),
        (b'{"format": "\xff"}', r"it is not UTF-8 text \(byte 12\)"),
        (b'{"format": 1' + b"[" * 200_000, "is not a saved attribution"),
        (b'{"format": ' + b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b'{"format": ' + b"9" * 5000 + b"}", "is not a saved attribution"),
        (b'{"format": 1, "format": 1}', "it holds 'format' twice"),
        (edited(("statistics", "a", math.nan)).encode(), "it holds NaN, which is not JSON"),
        (edited(("scores", 0, 0, 0, -math.inf)).encode(), "it holds -Infinity"),
        (edited(("statistics", "a", 31337)).replace("31337", "1e999").encode(), ""),
        (edited()[:-1].encode(), "is not a saved attribution"),
        (edited().encode() + b"]", "is not a saved attribution"),
        (edited().encode("utf-16"), "does not start with {"),
        (b"\x1f\x8b", "its compression is damaged"),
        (b"\x1f\x8bnothing of that kind", "its compression is damaged"),
        (gzip.compress(edited().encode())[:-20], "its compression is damaged"),
        (gzip.compress(edited().encode())[:40] + b"\x00" * 99, "its compression is damaged"),
    ],
    ids=range(20),
)
@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_damaged_and_foreign_files_are_named(content, message, name, tmp_path):
    path = written(tmp_path / name, content)
    if not message:
        assert Attribution.load(path).statistics["a"] == math.inf
        return
    for read in (Attribution.load, Attribution.load_all):
        with pytest.raises(InputError, match=rf"{name} .*{message}"):
            read(path)


def test_options_nested_without_end_are_refused(tmp_path):
    deep = []
    for _ in range(100):
        deep = [deep]
    path = written(tmp_path / "x.json", edited(("options", "a", deep)))
    with pytest.raises(InputError, match="options is nested more than 32 levels deep"):
        Attribution.load(path)
    endless = {}
    endless["a"] = endless
    with pytest.raises(InputError, match="statistics is nested"):
        made(statistics=endless)


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_what_is_read_has_a_limit(ending, tmp_path, monkeypatch):
    path = made().save(tmp_path / f"x{ending}")
    size = len(to_json(made()))
    monkeypatch.setattr(files, "MOST_BYTES", size)
    assert Attribution.load(path).tokens == made().tokens
    padded = to_json(made()) + b" " * 10
    written(path, gzip.compress(padded) if ending.endswith("gz") else padded)
    with pytest.raises(InputError, match=f"it has more than {size:,} bytes.*, the limit"):
        Attribution.load(path)
    monkeypatch.setattr(files, "MOST_BYTES", 100)
    with pytest.raises(InputError, match="at most 100: save fewer layers"):
        made().save(tmp_path / "y.json")


def test_a_file_that_unpacks_to_more_than_the_limit_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    path = written(tmp_path / "x.gz", gzip.compress(b"{" + b" " * (64 << 20)))
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match=r"more than 1,048,576 bytes unpacked"):
        Attribution.load(path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (None, "path=None must be the name of a file"),
        (3, "path=3"),
        (b"x.json", "path=b'x.json'"),
        ("no/such/file.json", "no/such/file.json can't be read: No such file"),
        (".", "can't be read: Is a directory"),
        ("a\0b", r"holds a NUL character"),
        ("x" * 5000, "can't be read: File name too long"),
    ],
    ids=range(7),
)
def test_places_that_are_no_files_are_named(path, message):
    for read in (Attribution.load, Attribution.load_all):
        with pytest.raises(InputError, match=message):
            read(path)


@pytest.mark.parametrize(
    "path", [None, 3, b"x", "a\0b", "x" * 5000, "", "/dev/null/x"], ids=range(7)
)
def test_saving_to_places_that_are_no_files_is_refused(path):
    with pytest.raises(InputError):
        made().save(path)


def test_files_that_may_not_be_read_or_written_are_named(tmp_path, monkeypatch):
    path = made().save(tmp_path / "x.json")

    def refused(*_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(type(path), "replace", refused)
    monkeypatch.setattr(type(path), "write_bytes", refused)
    with pytest.raises(InputError, match=r"x\.json can't be written: Permission denied"):
        made().save(path, overwrite=True)
    monkeypatch.setattr(type(path), "open", refused)
    with pytest.raises(InputError, match=r"x\.json can't be read: Permission denied"):
        Attribution.load(path)


def test_a_byte_order_mark_and_a_wrong_ending_do_no_harm(tmp_path):
    plain = edited().encode()
    for number, content in enumerate((b"\xef\xbb\xbf" + plain, gzip.compress(plain), plain)):
        for ending in ("json", "gz"):
            path = written(tmp_path / f"{number}.{ending}", content)
            assert np.array_equal(Attribution.load(path).scores, made().scores)


@pytest.mark.parametrize("text", ["a \ud800", "\udcff", "\ude00\ud83d", "\ud83d😀\ude00"])
@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_lone_surrogates_are_saved_without_loss(text, ending, tmp_path):
    found = made(text=text, tokens=(text, "b", "c", "d"), options={text: text})
    path = found.save(tmp_path / f"x{ending}")
    loaded = Attribution.load(path)
    assert (loaded.text, loaded.tokens, loaded.options) == (text, found.tokens, found.options)


def test_a_pair_that_is_two_characters_is_refused(tmp_path):
    with pytest.raises(InputError, match="two halves of a surrogate pair"):
        made(text="\ud83d\ude00").save(tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()


def test_nan_in_statistics_is_saved_as_null(tmp_path):
    statistics = {"a": math.nan, "b": [math.inf, 1.5], "c": {"d": -math.inf}}
    prediction = Prediction("x", math.nan, (("x", math.nan), ("y", 0.5)))
    found = made(statistics=statistics, prediction=prediction)
    path = found.save(tmp_path / "x.json")
    json.loads(path.read_text(), parse_constant=pytest.fail)
    loaded = Attribution.load(path)
    assert loaded.statistics == {"a": None, "b": [None, 1.5], "c": {"d": None}}
    assert math.isnan(loaded.prediction.probability)
    assert loaded.prediction.alternatives[1] == ("y", 0.5)
    assert math.isnan(loaded.prediction.alternatives[0][1])
    assert math.isnan(pickle.loads(pickle.dumps(found)).statistics["a"])


@pytest.mark.parametrize("value", [{1, 2}, 1j, b"x", object(), [10**5000]])
def test_what_json_does_not_know_is_refused_when_it_is_saved(value, tmp_path):
    found = made(statistics={"a": value})
    with pytest.raises(InputError, match="options and statistics must be plain"):
        found.save(tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize(
    "scores",
    [
        np.ones((2, 2, 4), complex),
        np.ones((2, 2, 4), bool),
        np.full((2, 2, 4), "1"),
        np.ones((2, 2, 4), object),
        None,
        np.array(1.0),
        np.ones((2, 0, 2, 4)),
    ],
)
def test_scores_are_numbers(scores):
    with pytest.raises(InputError, match="scores"):
        made(scores=scores)


def test_scores_of_any_layout_are_kept():
    scores = np.random.default_rng(1).random((2, 2, 4))
    for same in (scores.astype(">f8"), np.asfortranarray(scores), scores[::-1][::-1]):
        found = made(scores=same)
        assert found.scores.dtype == np.float64
        assert np.array_equal(found.scores, scores)


def test_numbers_of_numpy_become_plain(tmp_path):
    found = made(layer=np.int64(3), layers=np.array([1, 3]), query=np.int8(0), depth=np.int16(5))
    assert [type(each) for each in (found.layer, found.layers[0], found.query)] == [int] * 3
    loaded = Attribution.load(found.save(tmp_path / "x.json"))
    for field in dataclasses.fields(Attribution):
        if field.name != "scores":
            assert getattr(loaded, field.name) == getattr(found, field.name)


def test_patches_that_do_not_fill_the_grid_are_refused():
    assert made().patches().shape == (1, 2)
    broken = made(segments=("a", "a", "patch", "a"))
    for ask in (broken.patches, broken.over_image):
        with pytest.raises(InputError, match="1 patches; a grid of 1 × 2 has 2"):
            ask()
    huge = made(grid=PatchGrid(1, 2, (10**9, 10**9), (0.0, 0.0, 20.0, 9.5)))
    with pytest.raises(InputError, match="1000000000 × 1000000000 pixels"):
        huge.over_image()
