"""Every family: what is captured is what eager attention says, and one call explains a text."""

import numpy as np
import pytest
import torch

import attnflow
import tiny
from attnflow.models.capture.mode import Capture

ONE_SEQUENCE = [*tiny.ENCODERS, *tiny.DECODERS]


def inputs_of(name):
    if name in tiny.VISION:
        generator = torch.Generator().manual_seed(1)
        return {"pixel_values": torch.randn(2, 3, 32, 32, generator=generator)}
    if name in tiny.PAIRS:
        return tiny.ids() | {"decoder_input_ids": tiny.ids(length=5)["input_ids"]}
    return tiny.ids()


def eager_attention(name, inputs):
    with torch.no_grad():
        output = tiny.build(name, "eager")(**inputs, output_attentions=True)
    if name not in tiny.PAIRS:
        return output.attentions
    decoder = zip(output.decoder_attentions, output.cross_attentions, strict=True)
    return [*output.encoder_attentions, *(part for layer in decoder for part in layer)]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", tiny.FAMILIES)
def test_captured_probabilities_are_those_of_eager_attention(name, attention):
    inputs = inputs_of(name)
    model = tiny.build(name, attention)
    with torch.no_grad():
        plain = model(**inputs)
        with Capture(batch=2) as capture:
            seen = model(**inputs)
    torch.testing.assert_close(seen[0], plain[0], rtol=0, atol=1e-5)
    expected = eager_attention(name, inputs)
    assert len(capture.sites) == len(expected)
    rows = inputs.get("attention_mask", torch.ones(2, expected[0].shape[-1])).bool()
    for site, probabilities in zip(capture.sites, expected, strict=True):
        assert site.probabilities.shape == probabilities.shape
        real = rows if rows.shape[1] == probabilities.shape[-2] else torch.ones_like(rows[:, :5])
        for item in range(2):
            torch.testing.assert_close(
                site.probabilities[item][:, real[item]],
                probabilities[item][:, real[item]],
                rtol=0,
                atol=1e-5,
            )


@pytest.mark.parametrize("name", ONE_SEQUENCE)
@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_one_call_explains_a_sentence(name, method):
    tokenizer = tiny.word_piece() if name in tiny.ENCODERS else tiny.plain()
    model = tiny.build(name)
    options = {"method": method, "correction": None, "layers": "all"}
    found = attnflow.explain(tiny.TEXT, (model, tokenizer), **options)
    encoded = tokenizer(tiny.TEXT, return_tensors="pt")
    attentions = eager_attention(name, encoded)
    stacked = torch.stack(attentions)[:, 0].double().numpy()
    function = getattr(attnflow, method)
    expected = function(stacked)
    np.testing.assert_allclose(
        found.values, expected[-1, found.query], rtol=0, atol=1e-6, err_msg=name
    )
    assert found.query == (0 if name in tiny.ENCODERS else len(found.tokens) - 1)
    assert found.layers == (1, 2, 3)
