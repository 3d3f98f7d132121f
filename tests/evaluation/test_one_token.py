"""A Transformer made by hand that reads one token: every metric puts the truth first."""

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny

SIZE, KEY = 32, "key"
WORDS = ["the", "old", "red", "cat", "mat", "is", "on", "a", "to", "of", "here", "cabinet"]
TOKENS = 10
SHARES = [0.1, 0.1, 0.1, 0.2, 0.5]  # of ten tokens, one at least


def reader():
    """A BERT of one layer whose CLS attends to the word "key" if there is one, and reads it.

    Tokens are 1 and −1 in two places of their own, and LayerNorm's ε is large, so that it does next
    to nothing. CLS has a query, "key" the key that it meets and a value; other tokens have nothing.
    """
    tokenizer = tiny.word_piece()
    config = tf.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=SIZE,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4,
        layer_norm_eps=1.0,
        pad_token_id=tokenizer.pad_token_id,
        id2label={0: "without", 1: "with"},
        label2id={"without": 0, "with": 1},
    )
    model = tf.BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
        cls, key, value, other = (_plane(at) for at in range(4))
        words = model.bert.embeddings.word_embeddings.weight
        words[:] = other
        words[tokenizer.cls_token_id] = cls
        words[tokenizer.convert_tokens_to_ids(KEY)] = key
        attention = model.bert.encoder.layer[0].attention
        attention.self.query.weight[:] = 8 * torch.outer(key, cls)
        attention.self.key.weight[:] = torch.outer(key, key)
        attention.self.value.weight[:] = torch.outer(value, key)
        attention.output.dense.weight[:] = torch.eye(SIZE)
        model.bert.pooler.dense.weight[:] = torch.eye(SIZE)
        model.classifier.weight[1] = 4 * value
        model.classifier.bias[1] = -4.0
    return attnflow.load_model((model, tokenizer))


def _plane(at):
    found = torch.zeros(SIZE)
    found[2 * at], found[2 * at + 1] = 1.0, -1.0
    return found


@pytest.fixture(scope="module")
def found():
    chance = np.random.default_rng(4)
    rows = []
    for _ in range(150):
        words = [str(word) for word in chance.choice(WORDS, TOKENS)]
        at = int(chance.integers(TOKENS))
        words[at] = KEY
        rows.append({"text": " ".join(words), "marks": [float(n == at) for n in range(TOKENS)]})
    model = reader()
    options = {"methods": "raw", "edges": "attention", "rationale_column": "marks"}
    return attnflow.evaluate(rows, model, **options)


def by_name(found, column):
    at = found.columns.index(column)
    return {each.method: found.values[place, at] for place, each in enumerate(found.explainers)}


def test_it_reads_the_word_wherever_it_stands():
    model = reader()
    with_key = attnflow.explain("the old key is here", model, method="raw")
    without = attnflow.explain("the old cat is here", model, method="raw")
    assert (with_key.prediction.label, without.prediction.label) == ("with", "without")
    assert with_key.values[3] > 0.99
    assert with_key.prediction.probability > 0.9


def test_every_metric_puts_the_truth_first(found):
    assert {column.metric for column in found.columns} == set(attnflow.METRICS)
    for column in found.columns:
        if column.against == "gradient-norm":
            continue  # which is no truth: another token's embedding may move attention, too
        higher = attnflow.METRICS[column.metric].higher
        values = by_name(found, column)
        truth = values.pop("raw")
        for name, other in values.items():
            if np.isnan(other).all():
                continue  # the order of the text has nothing left that position does not explain
            gain = np.nanmean((truth - other) * (1 if higher else -1))
            assert gain >= -1e-6, (column, name)
            if name in ("random", "first", "last"):
                assert gain > 1e-3, (column, name)


def test_random_order_is_at_chance(found):
    """What a mean over all orders of ten tokens would be."""
    whole = by_name(found, found.columns[0])["raw"]
    drop = float(whole.mean())  # the truth's comprehensiveness: the word is always removed
    assert drop > 0.8
    share = np.mean(SHARES)
    ranks = np.arange(1, TOKENS + 1)
    expected = {
        "comprehensiveness": share * drop,
        "sufficiency": (1 - share) * drop,
        "aopc": np.mean(np.arange(11) / 10) * drop,
        "spearman": 0.0,
        "kendall": 0.0,
        "partial": 0.0,
        "top-k": 0.2,
        "token-f1": 1 / TOKENS,
        "auprc": np.mean(1 / ranks),
    }
    for column in found.columns:
        if column.metric in expected and column.against != "gradient-norm":
            values = by_name(found, column)["random"]
            error = np.std(values) / np.sqrt(len(values))
            assert np.mean(values) == pytest.approx(expected[column.metric], abs=3.5 * error), (
                column
            )
