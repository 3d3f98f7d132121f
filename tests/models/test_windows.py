"""Longformer and BigBird: probabilities that times values are what the attention module gives."""

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import talkers
import tiny
from attnflow.errors import CaptureError
from attnflow.models.capture import run as network
from attnflow.models.capture import windows
from attnflow.models.capture.spec import CaptureSpec
from attnflow.records.sparse import SparseLayer

SIZES = {
    "vocab_size": talkers.SIZE,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 200,
    "pad_token_id": 0,
}
LONGFORMER = SIZES | {"attention_window": [8, 4]}
BIGBIRD = SIZES | {"block_size": 4, "num_random_blocks": 2, "sep_token_id": None}
TEXT = " ".join(["the keys to the old cabinet are red ."] * 9)


def build(network_class, config):
    torch.manual_seed(1)
    return talkers.seeded(network_class(config))


def longformer(head=tf.LongformerForMaskedLM):
    return build(head, tf.LongformerConfig(**LONGFORMER))


def bigbird():
    return build(tf.BigBirdForMaskedLM, tf.BigBirdConfig(**BIGBIRD))


def modules_of(model, inputs):
    """What every module gives, by its name."""
    seen = {}
    hooks = [
        module.register_forward_hook(lambda _, __, made, name=name: seen.update({name: made}))
        for name, module in model.named_modules()
    ]
    with torch.no_grad():
        output = model(**inputs)
    for hook in hooks:
        hook.remove()
    return output, seen


def heads(values, size):
    return values[:, :size].reshape(len(values), size, 4, 8)


@pytest.mark.parametrize("marked", [False, True])
def test_longformer_reads_windows_and_global_tokens(marked):
    model, size = longformer(), 43
    ids = torch.arange(2 * size).reshape(2, size) % (talkers.SIZE - 5) + 5
    mask, marks = torch.ones_like(ids), torch.zeros_like(ids)
    mask[1, 30:] = 0
    if marked:
        marks[0, [0, 7]] = marks[1, 3] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "global_attention_mask": marks}
    output, capture = network.run(model, inputs, CaptureSpec())
    expected, seen = modules_of(model, inputs)
    assert torch.equal(output.logits, expected.logits)
    assert not any(module._forward_hooks for module in model.modules())
    for number, site in enumerate(capture.sites):
        name = f"longformer.encoder.layer.{number}.attention.self"
        own = heads(seen[f"{name}.value"].transpose(0, 1), size)
        made = torch.einsum("bhqk,bkhd->bqhd", site.probabilities, own)
        if marked:  # whose own rows read other values
            other = heads(seen[f"{name}.value_global"].transpose(0, 1), size)
            rows = torch.einsum("bhqk,bkhd->bqhd", site.probabilities, other)
            made = torch.where(marks.bool()[..., None, None], rows, made)
        given = heads(seen[name][0], size)
        torch.testing.assert_close(made[mask.bool()], given[mask.bool()], atol=2e-6, rtol=0)
        reach = LONGFORMER["attention_window"][number] // 2
        assert site.probabilities[0, :, 20, 20 + reach].all()
        assert not site.probabilities[0, :, 20, 20 + reach + 1].any()
        torch.testing.assert_close(site.sums[0], torch.ones(4, size), atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [70, 128])
def test_bigbird_reads_blocks(size):
    model = bigbird()
    ids = torch.arange(size)[None] % (talkers.SIZE - 5) + 5
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    output, capture = network.run(model, inputs, CaptureSpec())
    expected, seen = modules_of(model, inputs)
    assert torch.equal(output.logits, expected.logits)
    for number, site in enumerate(capture.sites):
        name = f"bert.encoder.layer.{number}.attention.self"
        values = heads(seen[f"{name}.value"], size)
        made = torch.einsum("bhqk,bkhd->bqhd", site.probabilities, values)
        torch.testing.assert_close(made, heads(seen[name][0], size), atol=2e-6, rtol=0)
        assert not site.probabilities[0, :, 20, 40:60].any()


@pytest.mark.parametrize("make", [longformer, bigbird])
@pytest.mark.parametrize("method", ["rollout", "flow"])
def test_texts_in_windows_are_explained(make, method, monkeypatch):
    model = make(), tiny.plain()
    asked = {"method": method, "edges": "attention", "query": 30}
    dense = attnflow.explain(TEXT, model, **asked)
    assert dense.warnings == ()
    ids = torch.tensor([model[1].convert_tokens_to_ids(list(dense.tokens))])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    _, capture = network.run(model[0], inputs, CaptureSpec())
    edges = [0.5 * site.probabilities[0].double().mean(0).numpy() for site in capture.sites]
    if method == "rollout":
        rolled = np.eye(len(dense.tokens))
        for each in edges:
            rolled = (each + 0.5 * np.eye(len(each))) @ rolled
        np.testing.assert_allclose(dense.values, rolled[30], atol=1e-7)
    monkeypatch.setattr(windows, "LEAST_TOKENS", 1)
    _, capture = network.run(model[0], inputs, CaptureSpec(fuse=lambda each: each.mean(1)))
    assert all(isinstance(site.probabilities, SparseLayer) for site in capture.sites)
    sparse = attnflow.explain(TEXT, model, **asked)
    np.testing.assert_allclose(sparse.values, dense.values, rtol=1e-12, atol=1e-12)


def test_a_short_text_does_not_change_the_model():
    model, tokenizer = bigbird(), tiny.plain()
    attnflow.explain("the old keys", (model, tokenizer), edges="attention", query=1)
    assert model.bert.encoder.layer[0].attention.attention_type == "block_sparse"
    assert model.bert.attention_type == "block_sparse"


def test_a_classifier_decides_at_its_global_token():
    model = longformer(tf.LongformerForSequenceClassification)
    found = attnflow.explain(TEXT, (model, tiny.word_piece()), edges="attention")
    assert found.query == 0
    assert (np.asarray(found.values) > 0).sum() > 20  # it reads all positions


@pytest.mark.parametrize("make", [longformer, bigbird])
def test_more_than_probabilities_is_refused(make):
    for edges in ("gradient", "alti"):
        with pytest.raises(CaptureError, match=r"attends in windows.*edges='attention'"):
            attnflow.explain(TEXT, (make(), tiny.plain()), edges=edges, query=3)
    found = attnflow.explain(TEXT, (make(), tiny.plain()), query=3)
    assert (found.method, found.options["edges"]) == ("flow", "attention")
    assert "attends in windows" in found.warnings[0]
