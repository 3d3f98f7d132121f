"""The record of a result: frozen, validated, saved without loss."""

import dataclasses
import gzip
import json
import pickle
import sys

import numpy as np
import pytest

from attnflow.errors import InputError, MissingExtra
from attnflow.records import Attribution, PatchGrid, Prediction

TOKENS = ("[CLS]", "un", "##known", "cat", "[SEP]")


def made(**changes):
    scores = np.random.default_rng(0).random((2, 5, 5))
    values = {
        "tokens": TOKENS,
        "scores": scores,
        "layers": (1, 2),
        "queries": (0, 1, 2, 3, 4),
        "layer": 2,
        "query": 0,
        "method": "rollout",
        "options": {"heads": [0, 1], "residual": 0.5},
        "model": "a model",
        "text": "Unknown cat",
        "prediction": Prediction("x", 0.75, (("x", 0.75), ("y", 0.25)), 3),
        "statistics": {"largest_gap": 1e-17, "model": {"class": "A"}},
        "word_ids": (None, 0, 0, 1, None),
        "word_texts": ("Unknown", "cat"),
        "segments": ("a", "b", "b", "c", "a"),
        "grid": PatchGrid(1, 2, (10, 20), (0.0, 0.5, 20.0, 9.5)),
    }
    return Attribution(**(values | changes))


def same(one, other):
    for field in dataclasses.fields(Attribution):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if field.name == "scores":
            assert np.array_equal(left, right)
            assert left.dtype == right.dtype
        else:
            assert left == right, field.name
    return True


def test_rows_values_and_top():
    found = made()
    assert np.array_equal(found.values, found.scores[1, 0])
    assert np.array_equal(found.row(1, 3), found.scores[0, 3])
    assert np.array_equal(found.row(-2, 3), found.scores[0, 3])
    best = int(found.values.argmax())
    assert found.top(1) == [(TOKENS[best], float(found.values[best]))]
    assert [s for _, s in found.top(5)] == sorted(found.values, reverse=True)


@pytest.mark.parametrize("name", ["scores", "tokens", "options"])
def test_nothing_can_be_changed(name):
    found = made()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(found, name, None)
    with pytest.raises(ValueError, match="read-only"):
        found.scores[0, 0, 0] = 1
    with pytest.raises(TypeError):
        found.options["residual"] = 0


def test_the_scores_are_its_own():
    scores = np.zeros((2, 5, 5))
    found = made(scores=scores)
    scores[:] = 7
    assert not found.scores.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": np.zeros((2, 5, 4))}, "shape"),
        ({"scores": np.zeros((5, 5))}, "shape"),
        ({"scores": np.full((2, 5, 5), np.nan)}, "finite"),
        ({"layer": 3}, "layer=3 was not computed.*1 to 2"),
        ({"query": 9}, "query=9"),
        ({"word_ids": (1,)}, "word_ids has 1 entries"),
        ({"segments": ("a",)}, "segments has 1"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        made(**changes)


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_saved_and_loaded_without_loss(tmp_path, ending):
    found = made()
    path = found.save(tmp_path / f"it{ending}")
    assert same(Attribution.load(path), found)
    with pytest.raises(InputError, match="overwrite=True"):
        found.save(path)
    found.save(path, overwrite=True)


def test_pickles_and_dicts_lose_nothing():
    found = made()
    assert same(pickle.loads(pickle.dumps(found)), found)
    assert same(Attribution.from_dict(found.to_dict()), found)


@pytest.mark.parametrize("content", ["", "no json", "{}", '{"format": 99, "scores": []}', "[1]"])
def test_other_files_are_no_attributions(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"x\.json is not a saved attribution"):
        Attribution.load(path)


def test_words_sum_keys_and_average_queries():
    found = made()
    words = found.words()
    assert words.tokens == ("[CLS]", "Unknown", "cat", "[SEP]")
    summed = np.stack(
        [
            found.scores[..., 0],
            found.scores[..., 1:3].sum(-1),
            *np.moveaxis(found.scores[..., 3:], -1, 0),
        ],
        axis=-1,
    )
    np.testing.assert_allclose(words.row(1, 1), summed[0, 1:3].mean(0))
    np.testing.assert_allclose(words.values, summed[1, 0])
    assert words.prediction.position == 2
    assert words.segments == ("a", "b", "c", "a")
    assert words.word_ids == (None, 0, 1, None)
    assert words.word_texts == ("Unknown", "cat")
    again = words.words()
    assert again.tokens == words.tokens
    np.testing.assert_array_equal(again.scores, words.scores)
    with pytest.raises(InputError, match="has no words"):
        made(word_ids=None).words()


def test_words_average_ratios_to_chance():
    found = made(options={"correction": "uniform"}, scores=np.ones((2, 5, 5)))
    assert np.array_equal(found.words().scores, np.ones((2, 4, 4)))


def test_words_keep_single_heads():
    found = made(scores=np.random.default_rng(0).random((2, 3, 5, 5)))
    assert found.words().scores.shape == (2, 3, 4, 4)


@pytest.mark.parametrize("heads", [None, 3])
def test_a_frame_has_one_row_a_score(heads):
    shape = (2, 5, 5) if heads is None else (2, heads, 5, 5)
    found = made(scores=np.random.default_rng(0).random(shape))
    frame = found.to_frame()
    assert len(frame) == found.scores.size
    chosen = frame[(frame.layer == 2) & (frame["query"] == 3) & (frame.key == 1)]
    np.testing.assert_array_equal(chosen.score.to_numpy(), found.scores[1, ..., 3, 1].ravel())
    assert set(chosen.token) == {"un"}
    assert set(chosen.query_token) == {"cat"}


def test_a_frame_without_pandas_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match="pip install pandas"):
        made().to_frame()


def test_rows_are_given_as_to_explain():
    found = made()
    assert np.array_equal(found.row(query="cat"), found.scores[1, 3])
    assert np.array_equal(found.row(query=-1), found.scores[1, 4])
    with pytest.raises(InputError, match=r"layer=-9 was not computed; this attribution has 1 to 2"):
        found.row(layer=-9)
    with pytest.raises(InputError, match="layer must be an integer from 1 to 2, got 'top'"):
        found.row(layer="top")
    one = made(queries=(0,), scores=np.ones((2, 1, 5)))
    with pytest.raises(InputError, match=r"query='cat' was not computed.*has 0; .*query='all'"):
        one.row(query="cat")
    with pytest.raises(InputError, match=r"query='Unknown' is split into 1:un 2:##known; give one"):
        found.row(query="Unknown")
    with pytest.raises(InputError, match=r"query=9 does not exist; there are 5 tokens"):
        found.row(query=9)


def test_layers_from_the_top_count_from_the_models_depth(tmp_path):
    assert made().depth == 2
    found = made(depth=4)
    assert np.array_equal(found.row(-3, 3), found.scores[1, 3])
    assert found.at(layer=-4).layer == 1
    assert found.words().depth == 4
    assert Attribution.load(found.save(tmp_path / "it.json")).depth == 4
    with pytest.raises(InputError, match=r"layer=-1 was not computed.*1 to 2; .*layers='all'"):
        found.row(layer=-1)


def test_at_is_the_same_attribution_for_another_layer_or_position():
    found = made()
    other = found.at(layer=-2, query="cat")
    assert (other.layer, other.query) == (1, 3)
    assert np.array_equal(other.values, found.row(1, 3))
    assert np.array_equal(other.scores, found.scores)
    assert other.options == found.options | {"layer": -2, "query": "cat"}
    assert same(found.at(), found)


def test_top_leaves_ties_as_they_stand_in_the_text():
    row = np.array([0.5, 1 - 2e-16, 1, 1 - 1e-16, 0.25])
    found = made(scores=np.broadcast_to(row, (2, 5, 5)))
    assert [token for token, _ in found.top(4)] == ["un", "##known", "cat", "[CLS]"]
    assert found.top(0) == []
    with pytest.raises(InputError, match=r"k=-1 must be an integer of at least 0"):
        found.top(-1)


def test_a_list_of_attributions_does_not_fill_the_screen():
    row = np.array([0.5, 0.875, 0, 1, 0.25])
    found = made(scores=np.broadcast_to(row, (2, 5, 5)))
    assert repr(found) == (
        "<Attribution: rollout of a model, 5 tokens; cat 1, un 0.875, [CLS] 0.5, …>"
    )


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_files_of_many_are_read_with_load_all(tmp_path, ending):
    path = made().save(tmp_path / f"it{ending}")
    assert len(Attribution.load_all(path)) == 1
    lines = "\n".join(json.dumps(made(text=text).to_dict()) for text in "ab") + "\n"
    path.write_bytes(gzip.compress(lines.encode()) if ending.endswith("gz") else lines.encode())
    assert [item.text for item in Attribution.load_all(path)] == ["a", "b"]
    assert same(Attribution.load_all(path)[1], made(text="b"))
    with pytest.raises(InputError, match=r"holds 2 attributions; .*Attribution\.load_all"):
        Attribution.load(path)


def test_files_laid_out_over_lines_are_read(tmp_path):
    path = tmp_path / "it.json"
    path.write_text(json.dumps(made().to_dict(), indent=2))
    assert same(Attribution.load(path), made())
