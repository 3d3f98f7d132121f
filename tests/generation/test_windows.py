"""Answers of decoders with sliding windows, exact, as dense layers and as sparse ones."""

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import talkers
import tiny
from attnflow.methods import flow
from attnflow.models.capture import windows
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.records.sparse import SparseLayer, SparseLayers

WINDOW = 4
PARTS = {"keys": "the old keys", "cat": "the cat is red", "question": "what is here ?"}
OWN = {"vocab_size": talkers.SIZE, "eos_token_id": None, "sliding_window": WINDOW}
WINDOWED = {
    "mistral": (tf.MistralForCausalLM, tf.MistralConfig),
    "gemma2": (tf.Gemma2ForCausalLM, tf.Gemma2Config),
    "gemma3": (tf.Gemma3ForCausalLM, tf.Gemma3TextConfig),
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
    options = {"generate": 3, "edges": "attention", "correction": None, "each": "tokens"}
    raw = attnflow.explain_answer(PARTS, model, method="raw", layer=1, **options)
    maps = eager_maps(name, raw, tokenizer)
    queries = [at - 1 for at in raw.answer]
    np.testing.assert_allclose(raw.matrix(), maps[0][queries], atol=2e-6)
    first = [at - WINDOW for at in raw.answer]  # the first position that is seen
    assert min(first) > 0
    for row, at in zip(raw.matrix(), first, strict=True):
        assert not row[:at].any()
        assert row[at:].any()

    rolled = attnflow.explain_answer(PARTS, model, method="rollout", **options)
    product = np.eye(maps.shape[-1])
    for layer in maps:
        product = (layer + np.eye(len(layer))) / 2 @ product
    np.testing.assert_allclose(rolled.matrix(), product[queries], atol=2e-6)
    for number, part in enumerate(rolled.parts):
        sums = product[queries][:, list(part.positions)].sum(-1)
        np.testing.assert_allclose(rolled.matrix("parts")[:, number], sums, atol=1e-5)


WAYS = [
    {"method": "flow"},
    {"method": "flow", "correction": None},
    {"method": "flow", "through": "prompt"},
    {"method": "rollout"},
    {"method": "rollout", "through": "prompt"},
    {"method": "rollout", "correction": "sink"},
    {"method": "rollout", "residual": 0.0, "correction": "sink"},
    {"method": "raw", "layer": 1},
    {"method": "direct"},
    {"method": "direct", "correction": None},
    {"method": "additive"},
    {"method": "widest"},
    {"method": "rollout", "discard": 0.1, "correction": None},
    {"method": "rollout", "heads": [1], "correction": None},
]


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("name", ["mistral", "gemma3"])
def test_sparse_layers_give_what_dense_ones_give(name, options, monkeypatch):
    model = build(name, "sdpa"), talkers.chatting()
    asked = {"generate": 3, "edges": "attention", **options}
    dense = attnflow.explain_answer(PARTS, model, **asked)
    sparse_from(monkeypatch, tokens=1)
    sparse = attnflow.explain_answer(PARTS, model, **asked)
    assert sparse.answer_text == dense.answer_text
    np.testing.assert_allclose(sparse.matrix(), dense.matrix(), rtol=1e-12, atol=1e-12)
    found, expected = sparse.matrix("parts"), dense.matrix("parts")
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def sparse_from(monkeypatch, tokens):
    """Small inputs are sparse, too, whatever is not 0."""
    monkeypatch.setattr(windows, "LEAST_TOKENS", tokens)
    monkeypatch.setattr(windows, "MOST_FILLED", 0.9)


@pytest.mark.parametrize("layers", ["all", [1, 3]])
@pytest.mark.parametrize("method", ["raw", "rollout", "flow", "direct", "direct-all", "additive"])
@pytest.mark.parametrize("few", [0, 10**9])
def test_all_layers_positions_and_words_of_sparse_layers(method, layers, few, monkeypatch):
    monkeypatch.setattr(flow, "FEW_PAIRS", few)  # more go through the dense solver
    model = build("mistral", "sdpa"), talkers.chatting()
    text = "the old keys are here the cat is red what is here ?"
    for options in ({"query": "all"}, {"words": True}):
        asked = {"method": method, "edges": "attention", "layers": layers, **options}
        dense = attnflow.explain(text, model, **asked)
        with monkeypatch.context() as patched:
            sparse_from(patched, tokens=1)
            sparse = attnflow.explain(text, model, **asked)
        np.testing.assert_allclose(sparse.scores, dense.scores, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["raw", "rollout", "flow", "widest", "additive", "direct"])
def test_routes_through_sparse_layers(method, monkeypatch):
    dense = session(method).trace(method, 2, 8, 5)
    sparse_from(monkeypatch, tokens=1)
    opened = session(method)
    assert isinstance(opened.graph(method).weights, SparseLayers)
    sparse = opened.trace(method, 2, 8, 5)
    np.testing.assert_allclose(sparse.edges, dense.edges, rtol=1e-12, atol=1e-12)
    assert sparse.value == pytest.approx(dense.value, rel=1e-12)


def session(method, text="the old keys are here the cat is red"):
    model = attnflow.load_model((build("mistral", "sdpa"), talkers.chatting()))
    return open_session(text, model, Request(edges="attention", method=method))


def test_what_is_held_grows_with_the_window_alone(monkeypatch):
    monkeypatch.setattr(windows, "LEAST_TOKENS", 16)
    few, many = (session("rollout", " ".join(["the keys"] * n)) for n in (8, 24))
    sizes = [each.graph("rollout").weights.nbytes for each in (few, many)]
    assert all(isinstance(each.activations.attention[0], SparseLayer) for each in (few, many))
    assert sizes[1] < 3.5 * sizes[0]  # and not nine times as much
    short = session("rollout", "the keys to the cabinet")
    assert isinstance(short.activations.attention[0], torch.Tensor)


def test_chance_is_even_within_the_window():
    model, tokenizer = build("mistral", "sdpa"), talkers.chatting()
    text = "the old keys are here the cat is red what is here ?"
    options = {"method": "rollout", "edges": "attention", "query": "all"}
    plain = attnflow.explain(text, (model, tokenizer), correction=None, **options).scores[0]
    found = attnflow.explain(text, (model, tokenizer), **options).scores[0]
    size = len(plain)
    even = np.zeros((size, size))
    for i in range(size):
        for j in range(max(0, i - WINDOW + 1), i + 1):
            even[i, j] = 0.5 / min(i + 1, WINDOW)
        even[i, i] += 0.5
    chance = np.linalg.matrix_power(even, model.config.num_hidden_layers)
    expected = np.divide(plain, chance, out=np.zeros_like(plain), where=chance > 0)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found[-1].max() > 1
