"""Texts in a list give what they give alone, whatever the padding."""

import copy

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.models.loading import load_model

TEXTS = [tiny.TEXT, "the cat", "a key to the old red cabinet", "cat"]


def gpt2(config_padding, tokenizer_padding):
    """A decoder's classifier, which looks for padding by the number in its configuration."""
    model = tiny.build("gpt2", head=tf.GPT2ForSequenceClassification)
    model.config = copy.deepcopy(model.config)
    model.config.pad_token_id = config_padding
    tokenizer = tiny.plain()
    tokenizer.pad_token = tokenizer_padding
    return model, tokenizer


def xlnet():
    torch.manual_seed(0)
    config = tf.XLNetConfig(vocab_size=100, d_model=32, n_layer=3, n_head=4, d_inner=64)
    return tf.XLNetForSequenceClassification(config).eval(), tiny.word_piece()


def roberta():
    return tiny.build("roberta", head=tf.RobertaForSequenceClassification), tiny.word_piece()


MODELS = {
    "agreed": lambda: gpt2(0, "[PAD]"),
    "none in the tokenizer": lambda: gpt2(3, None),
    "none in the model": lambda: gpt2(None, "[PAD]"),
    "another": lambda: gpt2(3, "[PAD]"),
    "none at all": lambda: gpt2(None, None),
    "last position": xlnet,
    "encoder": roberta,
}


@pytest.mark.parametrize("name", MODELS)
def test_labels_scores_and_importance_in_lists_are_those_alone(name):
    model = load_model(MODELS[name]())
    for function, options in (
        (attnflow.explain, {}),
        (attnflow.explain, {"method": "rollout"}),
        (attnflow.blank_out, {"signed": True}),
        (attnflow.gradients, {}),
    ):
        together = function(TEXTS, model, **options)
        for text, found in zip(TEXTS, together, strict=True):
            alone = function(text, model, **options)
            assert found.query == alone.query
            assert found.prediction.label == alone.prediction.label
            assert found.prediction.probability == pytest.approx(alone.prediction.probability, 1e-5)
            np.testing.assert_allclose(found.values, alone.values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "together"), [("agreed", True), ("encoder", True), ("another", False)]
)
def test_models_run_together_where_that_changes_nothing(name, together):
    model = load_model(MODELS[name]())
    inputs = [model.tokenize(text) for text in TEXTS]
    assert model.batchable(inputs) is together


def test_a_change_of_the_padding_token_is_noticed():
    network, tokenizer = gpt2(3, "[PAD]")
    inputs = [load_model((network, tokenizer)).tokenize(text) for text in TEXTS]
    assert not load_model((network, tokenizer)).batchable(inputs)
    network.config.pad_token_id = 0
    assert load_model((network, tokenizer)).batchable(inputs)


@pytest.mark.parametrize("kind", ["integrated", "norm"])
def test_gradients_need_no_padding_token(kind):
    assert attnflow.gradients("the cat", gpt2(None, None), kind=kind).values.shape == (2,)


def test_what_is_blanked_is_seen_even_where_it_is_the_padding_token():
    """UNK, the end and the padding are one token after ``pad_token = eos_token``, as in GPT-2."""
    model, tokenizer = tiny.build("gpt2"), tiny.plain()
    tokenizer.pad_token = tokenizer.eos_token = "[UNK]"
    adapter = load_model((model, tokenizer))
    tokens = adapter.tokenize(tiny.TEXT)
    blanked = adapter.blank(tokens, [2], adapter.filler("unk"))
    assert blanked.inputs["attention_mask"] == [1] * len(tokens)
    found = attnflow.blank_out(tiny.TEXT, adapter, signed=True)
    ids = torch.tensor([tokens.inputs["input_ids"]])
    with torch.no_grad():
        before = model(ids).logits[0, -1].double().softmax(-1)
        ids[0, 2] = tokenizer.unk_token_id
        after = model(ids).logits[0, -1].double().softmax(-1)
    best = int(before.argmax())
    assert found.values[2] == pytest.approx(float(before[best] - after[best]), abs=1e-6)


def test_an_unknown_token_of_number_0_is_no_padding():
    tokenizer = tiny.plain()
    tokenizer.pad_token, tokenizer.unk_token = None, "[PAD]"
    assert (tokenizer.unk_token_id, tokenizer.pad_token_id) == (0, None)
    adapter = load_model((tiny.build("gpt2"), tokenizer))
    tokens = adapter.tokenize(tiny.TEXT)
    blanked = adapter.blank(tokens, [2], adapter.filler())
    assert blanked.inputs["input_ids"][2] == 0
    assert blanked.inputs["attention_mask"] == [1] * len(tokens)
    hidden = adapter.blank(tokens, [2], adapter.filler("pad"))
    assert hidden.inputs["attention_mask"][2] == 0
