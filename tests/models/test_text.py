"""What the adapter of text models puts into activations beside attention."""

import pytest
import torch
import transformers as tf

import tiny
from attnflow.errors import ModelError
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.loading import load_model

TEXTS = [tiny.TEXT, "the cat"]


@pytest.fixture(scope="module")
def model():
    built = tiny.build("bert", head=tf.BertForSequenceClassification)
    return load_model((built.requires_grad_(False), tiny.word_piece()))


def test_gradients_of_the_prediction_come_without_padding(model):
    tokens = [model.tokenize(text) for text in TEXTS]
    passes = model.run(tokens, None, CaptureSpec(gradients=True))
    for text, forward in zip(TEXTS, passes, strict=True):
        encoded = model.tokenizer(text, return_tensors="pt")
        with Capture(CaptureSpec(gradients=True)) as capture:
            logits = model.network(**encoded).logits[0]
        expected = capture.gradients(logits.log_softmax(-1).max())
        size = len(forward.tokens)
        for found, gradient in zip(forward.activations.gradients, expected, strict=True):
            assert found.shape == (4, size, size)
            torch.testing.assert_close(found, gradient[0], rtol=1e-4, atol=1e-6)


def test_the_parts_of_attention_blocks_are_in_the_activations(model):
    tokens = [model.tokenize(text) for text in TEXTS]
    forward = model.run(tokens, None, CaptureSpec(blocks=True))[1]
    blocks = forward.activations.blocks
    assert [block.values.shape for block in blocks] == [(4, 4, 8)] * 3
    layers = model.network.bert.encoder.layer
    for block, layer in zip(blocks, layers, strict=True):
        assert torch.equal(block.projection, layer.attention.output.dense.weight)
        assert torch.equal(block.norm_weight, layer.attention.output.LayerNorm.weight)
        assert block.residual.shape == block.output.shape == (4, 32)


def test_a_model_without_head_has_nothing_to_differentiate():
    bare = load_model((tiny.build("bert"), tiny.word_piece()))
    with pytest.raises(ModelError, match="no head that predicts"):
        bare.run([bare.tokenize("the cat")], None, CaptureSpec(gradients=True))
