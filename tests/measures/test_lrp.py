"""Layer-wise relevance against rules that are written out, layer by layer, in float64."""

import threading
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import ModelError
from attnflow.measures import lrp
from attnflow.models.loading import load_model

TEXT = "the keys to the cabinet are here"
SMALL = tiny.USUAL | {"initializer_range": 0.4}


def build(name):
    torch.manual_seed(1)
    if name == "bert":
        config = tf.BertConfig(**SMALL, num_labels=3, attn_implementation="eager")
        network, tokenizer = tf.BertForSequenceClassification(config), tiny.word_piece()
    elif name == "gpt2":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
        config = tf.GPT2Config(
            vocab_size=100,
            **sizes,
            bos_token_id=2,
            eos_token_id=3,
            initializer_range=0.4,
            attn_implementation="eager",
        )
        network, tokenizer = tf.GPT2LMHeadModel(config), tiny.plain()
    else:
        config = tf.LlamaConfig(
            **(tiny.DECODER | {"initializer_range": 0.4}), attn_implementation="eager"
        )
        network, tokenizer = tf.LlamaForCausalLM(config), tiny.plain()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1:  # biases of zero would hide what becomes of them
                parameter.add_(0.1 * torch.randn_like(parameter))
    return load_model((network.double().eval(), tokenizer))


# The rules: from the relevance of what came out, that of what went in.


def through_linear(x, weight, bias, relevance):
    """``weight`` is [in, out]: input i has the share x_i · w_ij of output j."""
    out = x @ weight + (0 if bias is None else bias)
    return x * ((relevance / out) @ weight.T)


def through_norm(x, gamma, beta, eps, relevance, *, centred):
    size = x.shape[-1]
    spread = x - x.mean(-1, keepdim=True) if centred else x
    scale = (spread.square().mean(-1, keepdim=True) + eps).rsqrt()
    matrix = torch.eye(size, dtype=x.dtype) - (1 / size if centred else 0)
    out = spread * scale * gamma + (0 if beta is None else beta)
    return x * (((relevance / out) * gamma * scale) @ matrix)


def through_sum(first, second, relevance):
    share = relevance / (first + second)
    return first * share, second * share


def through_attention(attention, values, relevance):
    """``attention`` [head, query, key], ``values`` [head, key, dimension]; relevance alike."""
    out = attention @ values
    return values * (attention.transpose(-1, -2) @ (relevance / out))


def heads_of(x, count):
    return x.reshape(x.shape[0], count, -1).transpose(0, 1)


def merged(x):
    return x.transpose(0, 1).reshape(x.shape[1], -1)


def norm(x, gamma, beta, eps, *, centred):
    spread = x - x.mean(-1, keepdim=True) if centred else x
    out = spread * (spread.square().mean(-1, keepdim=True) + eps).rsqrt() * gamma
    return out if beta is None else out + beta


def llama(network, ids, target):
    """Relevance of the word embeddings, [position]."""
    body, eps = network.model, network.config.rms_norm_eps
    attentions = network(ids, output_attentions=True).attentions
    x = body.embed_tokens(ids)[0]
    tape = []
    for layer, attention in zip(body.layers, attentions, strict=True):
        a, m = layer.self_attn, layer.mlp
        inner = norm(x, layer.input_layernorm.weight, None, eps, centred=False)
        values = heads_of(inner @ a.v_proj.weight.T, 2)
        shared = values.repeat_interleave(2, 0)
        read = merged(attention[0] @ shared)
        out = read @ a.o_proj.weight.T
        y = x + out
        after = norm(y, layer.post_attention_layernorm.weight, None, eps, centred=False)
        gate = torch.nn.functional.silu(after @ m.gate_proj.weight.T)
        up = after @ m.up_proj.weight.T
        down = (gate * up) @ m.down_proj.weight.T
        tape.append((layer, attention[0], x, inner, shared, read, out, y, after, gate * up, down))
        x = y + down
    last = norm(x, body.norm.weight, None, eps, centred=False)
    head = network.lm_head.weight
    relevance = torch.zeros_like(last)
    relevance[-1] = last[-1] * (head[target] - head.mean(0))
    # A norm without a mean multiplies each entry: its relevance stays where it is.
    for layer, attention, x, inner, shared, read, out, y, after, gated, down in reversed(tape):
        a, m = layer.self_attn, layer.mlp
        to_y, to_down = through_sum(y, down, relevance)
        to_gated = through_linear(gated, m.down_proj.weight.T, None, to_down)
        half = to_gated / 2
        to_after = through_linear(after, m.gate_proj.weight.T, None, half)
        to_after = to_after + through_linear(after, m.up_proj.weight.T, None, half)
        to_x, to_out = through_sum(x, out, to_y + to_after)
        to_read = through_linear(read, a.o_proj.weight.T, None, to_out)
        to_values = through_attention(attention, shared, heads_of(to_read, 4))
        to_values = merged(to_values.reshape(2, 2, *to_values.shape[1:]).sum(1))
        relevance = to_x + through_linear(inner, a.v_proj.weight.T, None, to_values)
    return relevance.sum(-1)


def gpt2(network, ids, target):
    body, eps = network.transformer, network.config.layer_norm_epsilon
    attentions = network(ids, output_attentions=True).attentions
    words, places = body.wte(ids)[0], body.wpe.weight[: ids.shape[1]]
    x = words + places
    tape = []
    for layer, attention in zip(body.h, attentions, strict=True):
        one = norm(x, layer.ln_1.weight, layer.ln_1.bias, eps, centred=True)
        w, b = layer.attn.c_attn.weight[:, 64:], layer.attn.c_attn.bias[64:]
        values = heads_of(one @ w + b, 4)
        read = merged(attention[0] @ values)
        out = read @ layer.attn.c_proj.weight + layer.attn.c_proj.bias
        y = x + out
        two = norm(y, layer.ln_2.weight, layer.ln_2.bias, eps, centred=True)
        inner = layer.mlp.act(two @ layer.mlp.c_fc.weight + layer.mlp.c_fc.bias)
        down = inner @ layer.mlp.c_proj.weight + layer.mlp.c_proj.bias
        tape.append((layer, attention[0], x, one, w, b, values, read, out, y, two, inner, down))
        x = y + down
    final = body.ln_f
    last = norm(x, final.weight, final.bias, eps, centred=True)
    head = network.lm_head.weight
    relevance = torch.zeros_like(last)
    relevance[-1] = last[-1] * (head[target] - head.mean(0))
    relevance = through_norm(x, final.weight, final.bias, eps, relevance, centred=True)
    for layer, attention, x, one, w, b, values, read, out, y, two, inner, down in reversed(tape):
        to_y, to_down = through_sum(y, down, relevance)
        to_inner = through_linear(inner, layer.mlp.c_proj.weight, layer.mlp.c_proj.bias, to_down)
        to_two = through_linear(two, layer.mlp.c_fc.weight, layer.mlp.c_fc.bias, to_inner)
        norm_2, norm_1 = layer.ln_2, layer.ln_1
        to_y = to_y + through_norm(y, norm_2.weight, norm_2.bias, eps, to_two, centred=True)
        to_x, to_out = through_sum(x, out, to_y)
        projection = layer.attn.c_proj
        to_read = through_linear(read, projection.weight, projection.bias, to_out)
        to_values = merged(through_attention(attention, values, heads_of(to_read, 4)))
        to_one = through_linear(one, w, b, to_values)
        relevance = to_x + through_norm(x, norm_1.weight, norm_1.bias, eps, to_one, centred=True)
    return through_sum(words, places, relevance)[0].sum(-1)


def bert(network, ids, target):
    body, eps = network.bert, network.config.layer_norm_eps
    attentions = network(ids, output_attentions=True).attentions
    table = body.embeddings
    words = table.word_embeddings(ids)[0]
    rest = table.position_embeddings.weight[: ids.shape[1]] + table.token_type_embeddings.weight[0]
    first = words + rest
    x = norm(first, table.LayerNorm.weight, table.LayerNorm.bias, eps, centred=True)
    tape = []

    def affine(module, x):
        return x @ module.weight.T + module.bias

    for layer, attention in zip(body.encoder.layer, attentions, strict=True):
        own, up, down = layer.attention.self, layer.intermediate, layer.output
        values = heads_of(affine(own.value, x), 4)
        read = merged(attention[0] @ values)
        out = affine(layer.attention.output.dense, read)
        y = x + out
        after = layer.attention.output.LayerNorm
        two = norm(y, after.weight, after.bias, eps, centred=True)
        inner = torch.nn.functional.gelu(affine(up.dense, two))
        last = affine(down.dense, inner)
        z = two + last
        tape.append((layer, attention[0], x, values, read, out, y, two, inner, last, z))
        x = norm(z, down.LayerNorm.weight, down.LayerNorm.bias, eps, centred=True)
    pooled = torch.tanh(affine(body.pooler.dense, x[:1]))
    head = network.classifier
    weight = (head.weight[target] - head.weight.mean(0))[:, None]
    to_pooled = pooled * weight.T  # the share of the head's bias stays there

    def back(module, x, relevance):
        return through_linear(x, module.weight.T, module.bias, relevance)

    relevance = torch.zeros_like(x)
    relevance[:1] = back(body.pooler.dense, x[:1], to_pooled)
    for layer, attention, x, values, read, out, y, two, inner, last, z in reversed(tape):
        down, after = layer.output, layer.attention.output.LayerNorm
        own = down.LayerNorm
        relevance = through_norm(z, own.weight, own.bias, eps, relevance, centred=True)
        to_two, to_last = through_sum(two, last, relevance)
        to_inner = back(down.dense, inner, to_last)
        to_two = to_two + back(layer.intermediate.dense, two, to_inner)
        to_y = through_norm(y, after.weight, after.bias, eps, to_two, centred=True)
        to_x, to_out = through_sum(x, out, to_y)
        to_read = back(layer.attention.output.dense, read, to_out)
        to_values = merged(through_attention(attention, values, heads_of(to_read, 4)))
        relevance = to_x + back(layer.attention.self.value, x, to_values)
    start = table.LayerNorm
    relevance = through_norm(first, start.weight, start.bias, eps, relevance, centred=True)
    return through_sum(words, rest, relevance)[0].sum(-1)


ORACLES = {"bert": bert, "gpt2": gpt2, "llama": llama}


@pytest.mark.parametrize("name", ORACLES)
def test_relevance_is_what_the_rules_say(name):
    model = build(name)
    found = attnflow.explain(TEXT, model, method="lrp", target=2)
    ids = torch.tensor([model.tokenizer(TEXT).input_ids])
    with torch.no_grad():
        expected = ORACLES[name](model.network, ids, 2)
    # Norms of Llama are computed in float32, whatever the model is.
    np.testing.assert_allclose(found.values, expected, rtol=1e-5, atol=1e-6)
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
    with pytest.raises(ModelError, match=r"method='lrp' can't be used with .*: the relevance"):
        attnflow.explain(TEXT, model, method="lrp")


@pytest.mark.parametrize(("dtype", "refused"), [(torch.float32, True), (torch.bfloat16, False)])
def test_half_precision_has_a_tolerance_of_its_own(monkeypatch, dtype, refused):
    """A value that is off by a hundredth is an error of a rule in float32, and rounding in half."""
    network = tiny.build("bert", head=tf.BertForSequenceClassification).to(dtype)
    model = attnflow.load_model((network, tiny.word_piece()))
    whole = attnflow.explain(tiny.TEXT, model, method="lrp")
    of = whole.statistics
    size = max(abs(of["value"]), abs(of["biases"]), float(np.abs(whole.scores).sum()))
    value, calls = lrp._value, []

    def off(logits, question):
        calls.append(logits)
        return value(logits, question) + (0.01 * size if len(calls) == 2 else 0)

    monkeypatch.setattr(lrp, "_value", off)
    with pytest.raises(ModelError, match="can't be used with") if refused else nullcontext():
        attnflow.explain(tiny.TEXT, model, method="lrp")
    assert len(calls) == 2
