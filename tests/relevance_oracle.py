"""Layer-wise relevance written out, layer by layer, in float64: every rule as a formula of its own.

No gradient is taken here. From the relevance of what came out of a step each rule makes that of
what went in; on the way, what passed over every edge and what every residual stream has is kept.
"""

import torch
import transformers as tf

import tiny
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


class Handed:
    """What was handed down: ``edges`` [layer, query, key], ``streams`` [layer + 1, position]."""

    def __init__(self, relevance):
        self._edges, self._streams = [], [relevance.sum(-1)]

    def layer(self, edges, relevance):
        """Another layer, from the top: what passed over its edges, and what is left below it."""
        self._edges.insert(0, edges)
        self._streams.insert(0, relevance.sum(-1))

    def words(self, relevance):
        """At the word embeddings."""
        self.inputs = relevance.sum(-1)
        self.edges, self.streams = torch.stack(self._edges), torch.stack(self._streams)
        return self


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
    """``attention`` [head, query, key], ``values`` [head, key, dimension]; relevance alike.

    Beside the relevance of the values, what passed over each edge [query, key], heads added.
    """
    out = attention @ values
    share = relevance / out
    passed = torch.einsum("hij,hjd,hid->ij", attention, values, share)
    return values * (attention.transpose(-1, -2) @ share), passed


def heads_of(x, count):
    return x.reshape(x.shape[0], count, -1).transpose(0, 1)


def merged(x):
    return x.transpose(0, 1).reshape(x.shape[1], -1)


def norm(x, gamma, beta, eps, *, centred):
    spread = x - x.mean(-1, keepdim=True) if centred else x
    out = spread * (spread.square().mean(-1, keepdim=True) + eps).rsqrt() * gamma
    return out if beta is None else out + beta


def llama(network, ids, target):
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
    found = Handed(relevance)
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
        to_values, passed = through_attention(attention, shared, heads_of(to_read, 4))
        to_values = merged(to_values.reshape(2, 2, *to_values.shape[1:]).sum(1))
        relevance = to_x + through_linear(inner, a.v_proj.weight.T, None, to_values)
        found.layer(passed, relevance)
    return found.words(relevance)


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
    found = Handed(relevance)
    for layer, attention, x, one, w, b, values, read, out, y, two, inner, down in reversed(tape):
        to_y, to_down = through_sum(y, down, relevance)
        to_inner = through_linear(inner, layer.mlp.c_proj.weight, layer.mlp.c_proj.bias, to_down)
        to_two = through_linear(two, layer.mlp.c_fc.weight, layer.mlp.c_fc.bias, to_inner)
        norm_2, norm_1 = layer.ln_2, layer.ln_1
        to_y = to_y + through_norm(y, norm_2.weight, norm_2.bias, eps, to_two, centred=True)
        to_x, to_out = through_sum(x, out, to_y)
        projection = layer.attn.c_proj
        to_read = through_linear(read, projection.weight, projection.bias, to_out)
        to_values, passed = through_attention(attention, values, heads_of(to_read, 4))
        to_one = through_linear(one, w, b, merged(to_values))
        relevance = to_x + through_norm(x, norm_1.weight, norm_1.bias, eps, to_one, centred=True)
        found.layer(passed, relevance)
    return found.words(through_sum(words, places, relevance)[0])


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
    found = Handed(relevance)
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
        to_values, passed = through_attention(attention, values, heads_of(to_read, 4))
        relevance = to_x + back(layer.attention.self.value, x, merged(to_values))
        found.layer(passed, relevance)
    start = table.LayerNorm
    relevance = through_norm(first, start.weight, start.bias, eps, relevance, centred=True)
    return found.words(through_sum(words, rest, relevance)[0])


ORACLES = {"bert": bert, "gpt2": gpt2, "llama": llama}


def expected(name, model, text, target):
    """What an oracle says of a model that `build` made."""
    ids = torch.tensor([model.tokenizer(text).input_ids])
    with torch.no_grad():
        return ORACLES[name](model.network, ids, target)
