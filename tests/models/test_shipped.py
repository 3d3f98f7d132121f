"""Models that come with the package are found by their names, and nothing else is."""

import logging
import shutil
from pathlib import Path

import pytest
import transformers as tf

import attnflow
import tiny
from attnflow import shipped
from attnflow.errors import ModelError
from attnflow.models.loading import load_model


@pytest.fixture
def namesake(tmp_path, monkeypatch):
    """A folder here that has the name of a shipped model."""
    monkeypatch.chdir(tmp_path)
    tiny.build("bert", head=tf.BertForSequenceClassification).save_pretrained("verbs")
    tiny.word_piece().save_pretrained("verbs")


@pytest.mark.parametrize("name", shipped.NAMES)
def test_a_shipped_model_has_a_short_and_a_full_name(name):
    model = load_model(name)
    assert model is load_model(f"attnflow/{name}")
    assert model.name == f"attnflow/{name}"
    assert attnflow.explain("a fine film", name, method="raw").model == f"attnflow/{name}"


def test_one_of_them_answers_when_none_is_named():
    assert shipped.DEFAULT in shipped.NAMES
    assert load_model() is load_model(shipped.DEFAULT)


@pytest.mark.parametrize("name", shipped.NAMES)
def test_each_is_small_enough_to_ship_and_on_the_card(name):
    files = shipped.folder_of(name).iterdir()
    assert sum(path.stat().st_size for path in files) < 12 * 2**20
    card = (shipped.FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"## attnflow/{name}" in card


@pytest.mark.parametrize("name", shipped.NAMES)
def test_each_says_what_it_decides(name):
    assert load_model(name).description["decides"]


def test_the_shipped_model_wins_over_a_folder_and_says_so(namesake, caplog):
    with caplog.at_level(logging.WARNING, logger="attnflow"):
        model = load_model("verbs")
    assert model.name == "attnflow/verbs"
    assert caplog.messages == [
        "verbs is the model shipped with attnflow; the folder here is ./verbs"
    ]


@pytest.mark.parametrize("source", ["./verbs", Path("verbs")])
def test_the_folder_has_names_of_its_own(namesake, source, caplog):
    with caplog.at_level(logging.WARNING, logger="attnflow"):
        assert load_model(source).description["class"] == "BertForSequenceClassification"
    assert caplog.messages == []


@pytest.mark.parametrize(
    "options", [{"source": "verbs@main"}, {"source": "verbs", "revision": "v1"}]
)
def test_a_revision_is_of_the_hub(options):
    missing = r"'verbs(@main)?' is not a folder here; the hub (is|can't)"
    with pytest.raises(ModelError, match=missing):
        load_model(**options)


def test_a_name_that_nothing_has_lists_the_shipped_ones():
    named = ", ".join(shipped.NAMES)
    with pytest.raises(ModelError, match=f"a model shipped with attnflow: {named}"):
        load_model("no-such-model")


def test_a_copy_is_as_good(tmp_path):
    folder = shutil.copytree(shipped.folder_of("verbs"), tmp_path / "copy")
    text = "the keys to the cabinet"
    there, here = (attnflow.explain(text, name) for name in ("verbs", folder))
    assert there.values.tolist() == here.values.tolist()
