"""From names, folders and objects to models with the right head."""

import json
import logging
import re

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import ModelError
from attnflow.models import locating
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


@pytest.fixture
def sharded(tmp_path):
    """A folder whose weights lie in several files, and the scores of its model."""
    network, tokenizer = (
        tiny.build("bert", head=tf.BertForSequenceClassification),
        tiny.word_piece(),
    )
    network.save_pretrained(tmp_path, max_shard_size="20KB")
    tokenizer.save_pretrained(tmp_path)
    return tmp_path, attnflow.explain("the cat", (network, tokenizer), method="rollout").scores


def test_a_checkpoint_in_shards_is_read_whole(sharded):
    folder, scores = sharded
    assert len(list(folder.glob("model-*.safetensors"))) > 3
    found = attnflow.explain("the cat", folder, method="rollout")
    np.testing.assert_allclose(found.scores, scores, atol=1e-7)


@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "header", "not listed", "too few"])
def test_a_checkpoint_that_lacks_weights_is_refused(sharded, damage):
    """Transformers draws weights at random where it finds none, and goes on."""
    folder, _ = sharded
    index, config = folder / "model.safetensors.index.json", folder / "config.json"
    shard = sorted(folder.glob("model-*.safetensors"))[4]
    content = shard.read_bytes()
    if damage == "missing":
        shard.unlink()
    elif damage == "not listed":
        known = json.loads(index.read_text())
        listed = {name: at for name, at in known["weight_map"].items() if at != shard.name}
        index.write_text(json.dumps({**known, "weight_map": listed}))
    elif damage == "too few":
        known = json.loads(config.read_text())
        config.write_text(json.dumps({**known, "num_hidden_layers": 4}))
    else:
        damaged = {"cut": content[:-100], "empty": b"", "header": b"\xff" + content[1:]}
        shard.write_bytes(damaged[damage])
    with pytest.raises(ModelError, match="could not be loaded"):
        load_model(folder)


def test_a_model_needs_all_its_weights_but_those_of_its_pooler(tmp_path):
    network, tokenizer = tiny.build("bert"), tiny.word_piece()
    tokenizer.save_pretrained(tmp_path)
    weights = network.state_dict()
    without = {name: each for name, each in weights.items() if "pooler" not in name}
    network.save_pretrained(tmp_path, state_dict=dict(without))
    load_model(tmp_path)
    _load_once.cache_clear()
    del without["encoder.layer.1.attention.output.dense.bias"]
    network.save_pretrained(tmp_path, state_dict=dict(without))
    with pytest.raises(
        ModelError, match=r"missing: encoder\.layer\.1\.attention\.output\.dense\.bias"
    ):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("with_model", "with_peft"), [(True, False), (False, False), (False, True)]
)
def test_an_adapter_is_never_left_out(tmp_path, monkeypatch, with_model, with_peft):
    """Without peft, transformers loads the model beside an adapter and ignores the adapter."""
    if with_model:
        saved(tmp_path, "bert")
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    monkeypatch.setattr(locating, "find_spec", lambda name: with_peft or None)
    with pytest.raises(ModelError, match="holds an adapter"):
        load_model(tmp_path)


def test_a_part_of_an_adapter_is_never_left_out(tmp_path, monkeypatch):
    """Such as the classifier that was trained with it, where the model beside it has none."""
    saved(tmp_path, "bert")
    monkeypatch.setattr(locating, "find_spec", lambda name: True)
    own = tf.AutoModel.from_pretrained

    def with_adapter(*args, **options):
        network, report = own(*args, **options)
        return network, report | {"unexpected_keys": {"classifier.weight", "classifier.bias"}}

    monkeypatch.setattr(tf.AutoModel, "from_pretrained", with_adapter)
    load_model(tmp_path)  # of a checkpoint without an adapter, such weights are none of this model
    _load_once.cache_clear()
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    with pytest.raises(ModelError, match=r"2 weights fit nowhere .*: classifier\.bias"):
        load_model(tmp_path)


def test_an_index_that_is_a_list_is_named(sharded):
    folder, _ = sharded
    (folder / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(ModelError, match="could not be loaded"):
        load_model(folder)


class Wrapped(torch.nn.Module):
    """A network in another, as peft's: named for no head, and all else is the inner one's."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def get_base_model(self):
        return self.inner

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)


@pytest.mark.parametrize(
    ("kind", "head", "text"),
    [
        ("bert", tf.BertForMaskedLM, "the [MASK] to the cabinet"),
        ("bert", tf.BertForSequenceClassification, "the keys to the cabinet"),
        ("t5", tf.T5ForConditionalGeneration, "the keys to the cabinet"),
    ],
)
def test_a_wrapped_network_has_the_head_that_is_in_it(kind, head, text):
    network, tokenizer = tiny.build(kind, head=head), tiny.word_piece()
    alone = attnflow.explain(text, (network, tokenizer))
    wrapped = attnflow.explain(text, (Wrapped(network), tokenizer))
    assert wrapped.prediction == alone.prediction
    assert (wrapped.method, wrapped.options["edges"]) == (alone.method, alone.options["edges"])
    np.testing.assert_allclose(wrapped.scores, alone.scores, atol=1e-7)


class AddedTo(torch.nn.Module):
    """A table of word embeddings with an adapter that adds to it."""

    def __init__(self, table, factor):
        super().__init__()
        self.base_layer, self.factor = table, factor

    @property
    def weight(self):
        return self.base_layer.weight

    def forward(self, ids):
        return self.base_layer(ids) + self.factor * ids[..., None].float()


@pytest.mark.parametrize(
    "options",
    [
        {"method": "integrated"},
        {"method": "gradient-input"},
        {"method": "lrp"},
        {"edges": "relevance"},
    ],
    ids=["integrated", "gradient-input", "lrp", "relevance"],
)
def test_word_embeddings_with_an_adapter_are_read_whole_or_not_at_all(options):
    network = tiny.build("bert", head=tf.BertForSequenceClassification)
    plain = attnflow.explain("the cat", (network, tiny.word_piece()), **options).scores
    table = network.get_input_embeddings()
    network.set_input_embeddings(AddedTo(table, 0.0))
    found = attnflow.explain("the cat", (network, tiny.word_piece()), **options)
    np.testing.assert_allclose(found.scores, plain, atol=1e-6)
    network.set_input_embeddings(AddedTo(table, 0.1))
    with pytest.raises(ModelError, match=r"changed by an adapter \(AddedTo\).* merge it first"):
        attnflow.explain("the cat", (network, tiny.word_piece()), **options)


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


def write_gguf(path):
    """A llama of one layer that knows the words a and b."""
    writer = pytest.importorskip("gguf").GGUFWriter(path, "llama")
    tokens = ["<s>", "</s>", "<unk>", "a", "b", "Ġ", "Ġa", "Ġb"]
    writer.add_context_length(32)
    writer.add_embedding_length(8)
    writer.add_block_count(1)
    writer.add_feed_forward_length(8)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(4)
    writer.add_rope_freq_base(1e4)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 2, 1, 1, 1, 1, 1])
    writer.add_token_merges(["Ġ a", "Ġ b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(2)
    inside = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    drawn = np.random.default_rng(0)
    for name in ("token_embd", "output", *(f"blk.0.{each}" for each in inside)):
        writer.add_tensor(f"{name}.weight", drawn.normal(size=(8, 8)).astype(np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_says_how_it_need_not_be_unpacked_again(tmp_path, caplog):
    write_gguf(tmp_path / "small.gguf")
    model = load_model(tmp_path / "small.gguf")
    assert "small.gguf: a GGUF file is unpacked every time" in caplog.text
    for line in re.findall(r"^    (model\.\S+)$", caplog.text, flags=re.MULTILINE):
        exec(line.replace('"unpacked"', "folder"), {"model": model, "folder": tmp_path / "folder"})
    caplog.clear()
    saved = load_model(tmp_path / "folder")
    assert caplog.text == ""
    scores = [attnflow.explain("a b a", each).row() for each in (model, saved)]
    np.testing.assert_array_equal(*scores)


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
