"""Decoders that are halves of encoder–decoders, and heads that do not predict what follows."""

import copy

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import ModelError

SIDES = {
    "d_model": 32,
    "decoder_layers": 3,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 64,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "decoder_start_token_id": 3,
}
HALVES = {
    "bart": (tf.BartForCausalLM, tf.BartConfig(**tiny.SIZES, **SIDES)),
    "marian": (tf.MarianForCausalLM, tf.MarianConfig(**tiny.SIZES, **SIDES)),
    "trocr": (tf.TrOCRForCausalLM, tf.TrOCRConfig(**tiny.SIZES, **SIDES)),
}


def half(name, attention):
    model_class, config = HALVES[name]
    torch.manual_seed(0)
    model = model_class._from_config(copy.deepcopy(config), attn_implementation=attention)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    return model.eval()


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_a_decoder_alone_has_the_scores_of_eager_attention(name, method):
    tokenizer = tiny.plain()
    eager = half(name, "eager")
    inputs = tokenizer(tiny.TEXT, return_tensors="pt")
    with torch.no_grad():
        output = eager(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            output_attentions=True,
            use_cache=False,
        )
    maps = torch.stack(output.attentions)[:, 0].double().numpy()
    assert maps[0, 0, 0, 1:].max() == 0  # no token sees what follows
    expected = getattr(attnflow, method)(maps)[-1, -1]
    for attention in ("eager",) if name == "trocr" else ("eager", "sdpa"):  # what it has
        model = (half(name, attention), tokenizer)
        found = attnflow.explain(
            tiny.TEXT, model, method=method, edges="attention", correction=None
        )
        np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-5)
        assert found.query == len(found.tokens) - 1
        said = output.logits[0, -1].double().softmax(-1)
        assert found.prediction.probability == pytest.approx(float(said.max()), abs=1e-5)


def xlnet():
    config = tf.XLNetConfig(vocab_size=100, d_model=32, n_layer=2, n_head=4, d_inner=64)
    return tf.XLNetLMHeadModel(config)


def bert():
    return tf.BertLMHeadModel(tf.BertConfig(**tiny.USUAL))


@pytest.mark.parametrize("build", [xlnet, bert])
def test_a_head_for_what_follows_on_a_model_that_sees_it_is_refused(build):
    torch.manual_seed(0)
    model = (build().eval(), tiny.word_piece())
    with pytest.raises(ModelError, match=f"{type(model[0]).__name__} has the head of a causal"):
        attnflow.explain(tiny.TEXT, model)
    with pytest.raises(ModelError, match="not the next token"):
        attnflow.blank_out(tiny.TEXT, model)
    with pytest.raises(ModelError, match="not the next token"):
        attnflow.gradients(tiny.TEXT, model)


def test_the_same_model_as_a_decoder_or_without_its_head_is_explained():
    torch.manual_seed(0)
    decoder = tf.BertLMHeadModel(tf.BertConfig(**tiny.USUAL, is_decoder=True)).eval()
    found = attnflow.explain(tiny.TEXT, (decoder, tiny.word_piece()), method="raw")
    assert found.query == len(found.tokens) - 1
    bare = attnflow.explain(tiny.TEXT, (decoder.bert, tiny.word_piece()), method="raw")
    np.testing.assert_array_equal(bare.row(query=len(bare.tokens) - 1), found.values)
