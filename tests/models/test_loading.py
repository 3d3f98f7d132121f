"""From names, folders and objects to models with the right head."""

import json
import logging

import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import ModelError
from attnflow.models.loading import _load_once, load_model, no_bars


@pytest.fixture(autouse=True)
def fresh():
    _load_once.cache_clear()


def saved(folder, name, head=None, tokenizer=None):
    tiny.build(name, head=head).save_pretrained(folder)
    (tokenizer or tiny.word_piece()).save_pretrained(folder)
    return folder


HEADS = {
    "bare": ("bert", None, "BertModel", "no head"),
    "classifier": (
        "bert",
        tf.BertForSequenceClassification,
        "BertForSequenceClassification",
        "classifier",
    ),
    "masked": ("roberta", tf.RobertaForMaskedLM, "RobertaForMaskedLM", "masked language model"),
    "tags": (
        "bert",
        tf.BertForTokenClassification,
        "BertForTokenClassification",
        "token classifier",
    ),
    "causal": ("gpt2", None, "GPT2LMHeadModel", "causal language model"),
    "pair": ("t5", None, "T5ForConditionalGeneration", "encoder–decoder language model"),
}


@pytest.mark.parametrize("kind", HEADS)
def test_a_folder_loads_with_the_head_its_checkpoint_has(kind, tmp_path, caplog):
    family, head, expected, said = HEADS[kind]
    with caplog.at_level(logging.INFO, logger="attnflow"):
        model = load_model(saved(tmp_path, family, head))
    assert model.description["class"] == expected
    assert model.description["head"] == said
    assert expected in caplog.text
    found = attnflow.explain("the cat", tmp_path, method="rollout")
    assert found.model == str(tmp_path)
    assert found.statistics["model"]["head"] == said


def test_an_image_classifier_loads_with_its_processor(tmp_path):
    tiny.build("vit").save_pretrained(tmp_path)
    tf.ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    assert load_model(tmp_path).description["head"] == "image classifier"


def test_a_head_without_weights_is_not_made_up(tmp_path, caplog):
    saved(tmp_path, "bert")
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = ["BertForSequenceClassification"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with caplog.at_level(logging.WARNING, logger="attnflow"):
        model = load_model(tmp_path)
    assert model.description["class"] == "BertModel"
    assert "weights of its head are missing" in caplog.text


def test_a_name_is_loaded_once(tmp_path):
    saved(tmp_path, "bert")
    assert load_model(tmp_path) is load_model(str(tmp_path))


def test_loading_leaves_progress_bars_as_they_were(tmp_path):
    saved(tmp_path, "bert")
    tf.utils.logging.enable_progress_bar()
    load_model(tmp_path)
    assert tf.utils.logging.is_progress_bar_enabled()


def test_a_gguf_file_draws_no_bar():
    from transformers import modeling_gguf_pytorch_utils as gguf

    drawn = gguf.tqdm
    with no_bars():
        assert gguf.tqdm([]).disable
    assert gguf.tqdm is drawn


@pytest.mark.parametrize("missing", ["./no-such-folder", "~/no-such-folder", "/no/such/folder"])
def test_a_path_that_is_not_there_is_no_name_on_the_hub(missing):
    with pytest.raises(ModelError, match=f"'{missing}' does not exist; give a folder"):
        load_model(missing)


def test_a_name_that_is_no_folder_says_so():
    with pytest.raises(
        ModelError, match=r"no-such-model' is not a folder here; the hub is switched off"
    ):
        load_model("no-such-model")


@pytest.mark.parametrize("bad", ["no-such-org/no-such-model", "", ".", "m" * 300])
def test_what_cannot_be_loaded_is_named(bad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=repr(bad)):
        load_model(bad)


def test_objects_must_be_a_model_and_a_tokenizer():
    with pytest.raises(ModelError, match=r"\('str', 'str'\)"):
        load_model(("bert", "tokenizer"))


def test_a_list_is_as_good_as_a_tuple():
    pair = (tiny.build("bert"), tiny.word_piece())
    assert load_model(list(pair)).description == load_model(pair).description


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (tiny.build("bert"), r"model=BertModel comes without its tokenizer.*\(model, tokenizer\)"),
        ({"model": "a", "tokenizer": "b"}, r"model=dict is not a model; give \(model, tokenizer\)"),
        (tiny.word_piece(), "is not a model; give"),
        (3, "model=int is not a model"),
    ],
)
def test_what_is_no_model_is_refused(source, message):
    with pytest.raises(ModelError, match=message):
        load_model(source)
    with pytest.raises(ModelError, match=message):
        attnflow.explain("the cat", source)


def test_a_compiled_model_is_read_through_its_original():
    model = tiny.build("bert")
    compiled = torch.compile(model)
    plain = attnflow.explain("the cat", (model, tiny.word_piece()), method="raw")
    found = attnflow.explain("the cat", (compiled, tiny.word_piece()), method="raw")
    assert found.values.tolist() == plain.values.tolist()


def test_an_encoder_decoder_that_generates_nothing_is_refused():
    built = tiny.build("bart", head=tf.BartForQuestionAnswering)
    with pytest.raises(ModelError, match="ForConditionalGeneration"):
        load_model((built, tiny.word_piece()))
