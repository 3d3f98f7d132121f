"""Models that accelerate spreads over devices, or offloads to a disk, give what they give whole."""

import numpy as np
import pytest
import transformers

import attnflow
import talkers
from attnflow.models.weights import weights_digest

TEXT = "the keys to the old cabinet"
OPTIONS = [
    {"edges": "attention", "method": "flow"},
    {"edges": "gradient", "method": "direct"},
    {"edges": "alti", "method": "rollout"},
    {"edges": "value-zeroing", "method": "rollout"},
    {"edges": "relevance", "method": "rollout"},
    {"edges": "removal", "method": "direct"},
    {"method": "lrp"},
    {"method": "gradient-norm"},
    {"method": "blank-out"},
    {"parts": {"keys": "the keys"}, "deletions": True},
]


@pytest.fixture(scope="module")
def whole():
    return attnflow.load_model(talkers.llama())


@pytest.fixture(scope="module")
def spread(tmp_path_factory):
    """The embedding and two of three layers on a disk, the rest in memory."""
    folder = tmp_path_factory.mktemp("spread")
    for part in talkers.llama():
        part.save_pretrained(folder / "model")
    blocks = {f"model.layers.{number}": "disk" if number else "cpu" for number in range(3)}
    rest = dict.fromkeys(["model.norm", "model.rotary_emb", "lm_head"], "cpu")
    network = transformers.AutoModelForCausalLM.from_pretrained(
        folder / "model",
        device_map={"model.embed_tokens": "disk", **blocks, **rest},
        offload_folder=folder / "offloaded",
    )
    assert next(network.parameters()).device.type == "meta"
    return network


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: "-".join(map(str, each.values())))
def test_it_answers_as_in_one_piece(options, spread, whole):
    found = attnflow.explain_answer(TEXT, (spread, whole.tokenizer), generate=3, **options)
    expected = attnflow.explain_answer(TEXT, whole, generate=3, **options)
    assert found.answer_text == expected.answer_text
    assert abs(expected.matrix()).max() > 1e-3
    np.testing.assert_allclose(found.matrix(), expected.matrix(), atol=1e-7)
    if expected.drops is not None:
        np.testing.assert_allclose(found.drops, expected.drops, atol=1e-5)


def test_training_mode_is_left_alone(spread, whole):
    options = {"edges": "attention", "method": "rollout"}
    expected = attnflow.explain(TEXT, whole, **options)
    spread.train()
    try:
        found = attnflow.explain(TEXT, (spread, whole.tokenizer), **options)
        assert all(module.training for module in spread.modules())
    finally:
        spread.eval()
    np.testing.assert_allclose(found.values, expected.values, atol=1e-7)


def test_a_batch_is_what_each_text_gives_alone(spread, whole):
    texts = [TEXT, "the cat is old"]
    found = attnflow.explain(texts, (spread, whole.tokenizer), batch_size=2)
    for each, text in zip(found, texts, strict=True):
        np.testing.assert_allclose(
            each.values, attnflow.explain(text, whole).values, rtol=1e-4, atol=1e-7
        )


def test_its_weights_are_those_of_the_whole_model(spread, whole):
    assert weights_digest(attnflow.load_model((spread, whole.tokenizer))) == weights_digest(whole)
