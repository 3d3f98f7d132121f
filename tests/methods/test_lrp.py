"""Layer-wise relevance against rules that are written out, layer by layer, in float64."""

import threading

import numpy as np
import pytest
import torch

import attnflow
from attnflow.errors import ModelError
from relevance_oracle import ORACLES, TEXT, build, expected


@pytest.mark.parametrize("name", ORACLES)
def test_relevance_is_what_the_rules_say(name):
    model = build(name)
    found = attnflow.explain(TEXT, model, method="lrp", target=2)
    oracle = expected(name, model, TEXT, 2)
    # Norms of Llama are computed in float32, whatever the model is.
    np.testing.assert_allclose(found.values, oracle.inputs, rtol=1e-5, atol=1e-6)
    assert np.abs(found.values).max() > 1e-2


@pytest.mark.parametrize("name", ORACLES)
def test_relevance_is_conserved_and_the_model_is_left_alone(name):
    model = build(name)
    before = {key: value.clone() for key, value in model.network.state_dict().items()}
    found = attnflow.explain(TEXT, model, method="lrp", target=2, contrast=0)
    with torch.no_grad():
        inputs = model.tokenizer(TEXT, return_tensors="pt")
        logits = model.network(**inputs).logits[0]
    row = logits if name == "bert" else logits[-1]
    value = float(row[2] - row[0])
    said = found.statistics
    assert said["value"] == pytest.approx(value, abs=1e-9)
    assert found.values.sum() + said["biases"] == pytest.approx(value, abs=1e-6)
    assert (abs(said["biases"]) > 1e-3) == (name != "llama")  # which adds nothing
    assert all(parameter.grad is None for parameter in model.network.parameters())
    for key, tensor in model.network.state_dict().items():
        assert torch.equal(tensor, before[key])
    assert all(parameter.requires_grad for parameter in model.network.parameters())


def test_a_fused_kernel_gives_the_same():
    model = build("llama")
    eager = attnflow.explain(TEXT, model, method="lrp").values
    model.network.set_attn_implementation("sdpa")
    fused = attnflow.explain(TEXT, model, method="lrp").values
    np.testing.assert_allclose(fused, eager, rtol=1e-5, atol=1e-6)


def test_threads_do_not_see_each_other():
    model = build("gpt2")
    texts = [TEXT, "a cat is here", "the old red key is on the mat"]
    alone = [attnflow.explain(text, model, method="lrp").values for text in texts]
    slopes = [attnflow.explain(text, model, method="gradient-input").values for text in texts]
    found = {}

    def work(at, method):
        for _ in range(5):
            found[at, method] = attnflow.explain(texts[at], model, method=method).values

    threads = [
        threading.Thread(target=work, args=(at, method))
        for at in range(3)
        for method in ("lrp", "gradient-input")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for at in range(3):
        np.testing.assert_allclose(found[at, "lrp"], alone[at], atol=1e-12)
        np.testing.assert_allclose(found[at, "gradient-input"], slopes[at], atol=1e-12)


def test_a_model_that_does_something_else_is_refused():
    model = build("gpt2")

    class Exponential(torch.nn.Module):
        def forward(self, x):
            return torch.exp(x.clamp(-2, 2))

    for layer in model.network.transformer.h:
        layer.mlp.act = Exponential()
    with pytest.raises(
        ModelError, match=r"relevance can't be followed through GPT2LMHeadModel: .* the target"
    ):
        attnflow.explain(TEXT, model, method="lrp")
