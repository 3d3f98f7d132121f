"""Answers of decoders with sliding windows, exact; attention in windows of its own is refused."""

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import talkers
import tiny
from attnflow.errors import CaptureError

WINDOW = 4
PARTS = {"keys": "the old keys", "cat": "the cat is red", "question": "what is here ?"}
OWN = {"vocab_size": talkers.SIZE, "eos_token_id": None, "sliding_window": WINDOW}
WINDOWED = {
    "mistral": (tf.MistralForCausalLM, tf.MistralConfig),
    "gemma2": (tf.Gemma2ForCausalLM, tf.Gemma2Config),
    "gemma3": (tf.Gemma3ForCausalLM, tf.Gemma3TextConfig),
}
SMALL = {
    "vocab_size": talkers.SIZE,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 200,
}


def build(name, attention):
    network_class, config = WINDOWED[name]
    torch.manual_seed(0)
    made = config(**tiny.DECODER | OWN)
    return talkers.seeded(network_class._from_config(made, attn_implementation=attention))


def eager_maps(name, found, tokenizer):
    """Attention as the model itself says it, heads averaged: ``[layer, query, key]``."""
    ids = torch.tensor([tokenizer.convert_tokens_to_ids(list(found.tokens))])
    with torch.no_grad():
        layers = build(name, "eager")(ids, output_attentions=True).attentions
    return np.stack([layer[0].double().mean(0).numpy() for layer in layers])


@pytest.mark.parametrize(
    ("name", "attention"),
    [("mistral", "sdpa"), ("gemma3", "sdpa"), *((name, "eager") for name in WINDOWED)],
)
def test_windows_are_read_exactly(name, attention):
    tokenizer = talkers.chatting()
    model = build(name, attention), tokenizer
    options = {"generate": 3, "edges": "attention", "correction": None}
    raw = attnflow.explain(PARTS, model, method="raw", layer=1, **options)
    maps = eager_maps(name, raw, tokenizer)
    queries = [at - 1 for at in raw.answer]
    np.testing.assert_allclose(raw.matrix(), maps[0][queries], atol=2e-6)
    first = [at - WINDOW for at in raw.answer]  # the first position that is seen
    assert min(first) > 0
    for row, at in zip(raw.matrix(), first, strict=True):
        assert not row[:at].any()
        assert row[at:].any()

    rolled = attnflow.explain(PARTS, model, method="rollout", **options)
    product = np.eye(maps.shape[-1])
    for layer in maps:
        product = (layer + np.eye(len(layer))) / 2 @ product
    np.testing.assert_allclose(rolled.matrix(), product[queries], atol=2e-6)
    for number, part in enumerate(rolled.parts):
        sums = product[queries][:, list(part.positions)].sum(-1)
        np.testing.assert_allclose(rolled.matrix("parts")[:, number], sums, atol=1e-5)


@pytest.mark.parametrize(
    ("network_class", "config"),
    [
        (tf.LongformerForMaskedLM, tf.LongformerConfig(**SMALL, attention_window=8)),
        (
            tf.BigBirdForMaskedLM,
            tf.BigBirdConfig(**SMALL, block_size=4, num_random_blocks=1, sep_token_id=None),
        ),
    ],
)
def test_attention_in_windows_of_its_own_is_refused(network_class, config):
    text = " ".join(["the keys to the old cabinet are red ."] * 5)
    model = network_class(config).eval(), tiny.plain()
    with pytest.raises(CaptureError, match=f"{network_class.__name__}.* window"):
        attnflow.explain(text, model, edges="attention")
