"""Models that come with the package are found by their names, and nothing else is."""

import logging
import shutil
from pathlib import Path

import pytest
import transformers as tf

import attnflow
import tiny
from attnflow import shipped
from attnflow.errors import InputError, ModelError
from attnflow.models import locating
from attnflow.models.loading import load_model
from attnflow.models.locating import refuse_near_shipped


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
def test_a_shipped_model_has_no_revisions(options):
    refused = r"verbs is shipped with attnflow and has no revision '(main|v1)': leave it out, or"
    with pytest.raises(InputError, match=refused):
        load_model(**options)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sentimnt", "sentiment"),
        ("Sentiment", "sentiment"),
        ("sentiment-x", "sentiment"),
        ("sentimnt@main", "sentiment"),
        ("verb", "verbs"),
        ("attnflow/verb", "verbs"),
    ],
)
def test_a_misspelt_name_is_told_before_the_hub_is_asked(name, meant, monkeypatch):
    monkeypatch.setattr(locating, "is_unavailable", lambda: pytest.fail("the hub was asked"))
    with pytest.raises(ModelError, match=f"did you mean {meant}. Allowed: .*sentiment, verbs"):
        load_model(name)


@pytest.mark.parametrize("name", ["bert", "t5-base", "openai-gpt", "ctrl", "me/sentimnt"])
def test_names_of_the_hub_are_no_misspellings(name):
    refuse_near_shipped(name)


def test_a_model_on_this_machine_is_no_misspelling(monkeypatch):
    monkeypatch.setattr(locating, "is_cached", lambda name: name == "sentiment-x")
    refuse_near_shipped("sentiment-x")


def test_the_full_name_is_for_shipped_models_alone():
    with pytest.raises(ModelError, match="'attnflow/other' is not shipped with attnflow; allowed"):
        load_model("attnflow/other")


def test_a_path_is_never_a_shipped_model():
    with pytest.raises(ModelError, match="'sentiment' is not a folder here, and shipped models"):
        load_model(Path("sentiment"))


def test_a_name_that_nothing_has_lists_the_shipped_ones():
    named = ", ".join(shipped.NAMES)
    with pytest.raises(ModelError, match=f"a model shipped with attnflow: {named}"):
        load_model("no-such-model")


def test_a_copy_is_as_good(tmp_path):
    folder = shutil.copytree(shipped.folder_of("verbs"), tmp_path / "copy")
    text = "the keys to the cabinet"
    there, here = (attnflow.explain(text, name) for name in ("verbs", folder))
    assert there.values.tolist() == here.values.tolist()
