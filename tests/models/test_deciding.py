"""Where a model decides is measured: pooling differs between models and configurations."""

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.models.loading import load_model

TEXT = tiny.TEXT


def classifier(model_class, config):
    torch.manual_seed(0)
    return model_class(config).eval()


def modernbert(pooling):
    config = tf.ModernBertConfig(
        **tiny.USUAL, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3,
        classifier_pooling=pooling, global_attn_every_n_layers=1,
    )  # fmt: skip
    return classifier(tf.ModernBertForSequenceClassification, config)


def xlnet():
    config = tf.XLNetConfig(vocab_size=100, d_model=32, n_layer=3, n_head=4, d_inner=64)
    return classifier(tf.XLNetForSequenceClassification, config)


def rollout(model, tokenizer):
    """All rows of the last layer, by the arrays' function on eager attention."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**tokenizer(TEXT, return_tensors="pt"), output_attentions=True)
    model.set_attn_implementation("sdpa")
    return attnflow.rollout(torch.stack(output.attentions)[:, 0].double().numpy())[-1]


def test_the_mean_of_all_tokens_is_explained_where_the_head_takes_it():
    model, tokenizer = modernbert("mean"), tiny.word_piece()
    rows = rollout(model, tokenizer)
    found = attnflow.explain(TEXT, (model, tokenizer), method="rollout")
    np.testing.assert_allclose(found.values, rows.mean(0), rtol=0, atol=1e-6)
    assert found.pooled == tuple(range(len(found.tokens)))
    assert found.explained == "the mean of 9 positions"
    one = attnflow.explain(TEXT, (model, tokenizer), method="rollout", query=0)
    np.testing.assert_allclose(one.values, rows[0], rtol=0, atol=1e-6)
    assert (one.pooled, one.explained) == ((), "[CLS]")


def test_the_same_model_that_pools_the_first_token_is_explained_there():
    found = attnflow.explain(TEXT, (modernbert("cls"), tiny.word_piece()), method="rollout")
    assert (found.query, found.pooled) == (0, ())


def test_flow_to_the_mean_is_the_mean_of_flows():
    model = (modernbert("mean"), tiny.word_piece())
    options = {"edges": "attention", "method": "flow"}
    pooled = attnflow.explain(TEXT, model, **options)
    every = attnflow.explain(TEXT, model, **options, query="all")
    np.testing.assert_allclose(pooled.values, every.scores[0].mean(0), rtol=0, atol=1e-12)


def test_words_keep_the_mean_over_tokens():
    text = "the keys playing to the cabinet"  # "playing" is two tokens
    model = (modernbert("mean"), tiny.word_piece())
    tokens = attnflow.explain(text, model, method="rollout")
    words = attnflow.explain(text, model, method="rollout", words=True)
    assert len(words.tokens) < len(tokens.tokens)
    assert words.values.sum() == pytest.approx(tokens.values.sum())
    at = tokens.tokens.index("cabinet")
    assert words.values[words.tokens.index("cabinet")] == pytest.approx(tokens.values[at])
    np.testing.assert_allclose(tokens.words().values, words.values, atol=1e-12)


def test_what_reads_the_last_token_is_explained_there():
    model = xlnet()
    found = attnflow.explain(TEXT, (model, tiny.word_piece()), method="raw")
    assert found.query == len(found.tokens) - 1


def test_a_decoders_classifier_decides_before_padding_that_is_part_of_the_text():
    model = tiny.build("gpt2", head=tf.GPT2ForSequenceClassification)
    tokenizer = tiny.plain()
    tokenizer.pad_token = "here"
    model.config.pad_token_id = tokenizer.pad_token_id
    found = attnflow.explain("the cat is here", (model, tokenizer), method="raw")
    assert found.tokens[-1] == "here"
    assert found.query == len(found.tokens) - 2


def test_importance_is_asked_where_the_model_decides():
    model = load_model((tiny.build("gpt2", head=tf.GPT2ForSequenceClassification), tiny.plain()))
    explained = attnflow.explain(TEXT, model)
    assert attnflow.blank_out(TEXT, model).query == explained.query == len(explained.tokens) - 1


def test_routes_start_at_one_position():
    model = (modernbert("mean"), tiny.word_piece())
    with pytest.raises(InputError, match=r"read at all 9 positions, and routes start .*query="):
        attnflow.routes(TEXT, model, to="keys")
    with pytest.raises(InputError, match=r"mean of 9 positions, and routes start at one.*query="):
        attnflow.routes(TEXT, model, to="keys", edges="attention")
    assert attnflow.routes(TEXT, model, to="keys", query=0, edges="attention").value > 0


def test_a_mean_survives_files_and_figures(tmp_path):
    found = attnflow.explain(TEXT, (modernbert("mean"), tiny.word_piece()), layers="all")
    path = found.save(tmp_path / "it.json")
    loaded = attnflow.Attribution.load(path)
    assert loaded.pooled == found.pooled
    np.testing.assert_array_equal(loaded.values, found.values)
    assert loaded.at(query="keys").pooled == ()
    for kind in ("heatmap", "graph"):
        assert "9 positions" in found.figure(kind).get_xlabel() or kind == "graph"
    assert "mean of 9 positions" in found._repr_html_()
