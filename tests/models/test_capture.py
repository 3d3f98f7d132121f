"""Capture: what it sees, what it costs, and that the model never notices."""

import threading

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

import tiny
from attnflow.errors import CaptureError, ModelError
from attnflow.models.capture import run as network
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.spec import CaptureSpec, Site


def modes():
    return len(torch.overrides._get_current_function_mode_stack())


def state_of(model):
    hooks = [
        len(module._forward_hooks) + len(module._forward_pre_hooks) + len(module._backward_hooks)
        for module in model.modules()
    ]
    training = [module.training for module in model.modules()]
    return hooks, training, model.config.to_dict(), model.config._attn_implementation


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "modernbert"])
def test_a_fused_kernel_gives_the_very_same_output(name):
    model, inputs = tiny.build(name), tiny.ids()
    with torch.no_grad():
        plain = model(**inputs)[0]
        with Capture():
            seen = model(**inputs)[0]
    assert torch.equal(plain, seen)


@pytest.mark.parametrize("raises", [False, True])
def test_model_and_process_are_left_as_they_were(raises):
    model = tiny.build("bert")
    model.encoder.layer[1].train()  # a mixture of modes must come back too
    before = state_of(model)
    inputs = tiny.ids() if not raises else {"input_ids": torch.full((1, 3), 10**6)}
    if raises:
        with pytest.raises(ModelError, match=r"BertModel can't be run.*IndexError"):
            network.run(model, inputs, CaptureSpec())
    else:
        network.run(model, inputs, CaptureSpec())
    assert state_of(model) == before
    assert modes() == 0


def test_hooks_that_transformers_adds_to_a_copy_stay_there():
    model, inputs = tiny.build("bert"), tiny.ids()
    model.train()
    with torch.no_grad():
        network.called(network.in_eval_mode(model), {**inputs, "output_hidden_states": True})
        shown = model(**inputs, output_hidden_states=True).hidden_states
    assert len(shown) == model.config.num_hidden_layers + 1


def test_dropout_is_off_while_a_model_in_training_is_read():
    model, inputs = tiny.build("bert"), tiny.ids()
    expected, _ = network.run(model, inputs, CaptureSpec())
    model.train()
    found, _ = network.run(model, inputs, CaptureSpec())
    torch.testing.assert_close(found[0], expected[0])
    assert model.training


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_gradients_are_those_of_finite_differences(attention, frozen):
    model = tiny.build("bert", attention).double().requires_grad_(not frozen)
    inputs = {name: tensor[:1] for name, tensor in tiny.ids().items()}
    with Capture(CaptureSpec(gradients=True)) as capture:
        output = model(**inputs)[0]
    gradients = capture.gradients(output[0, 0].sin().sum())
    assert [g.shape for g in gradients] == [(1, 4, 7, 7)] * 3
    # The last layer's output is linear in its attention up to what follows: nudge one entry of it.
    step, place = 1e-6, (0, 2, 0, 3)
    values = []
    for sign in (1, -1):
        with torch.no_grad(), _Nudged(3, place, sign * step):
            values.append(model(**inputs)[0][0, 0].sin().sum())
    slope = (values[0] - values[1]) / (2 * step)
    torch.testing.assert_close(gradients[2][place], slope, rtol=1e-5, atol=1e-8)


class _Nudged(torch.overrides.TorchFunctionMode):
    """Attention computed in the open, with one probability of one layer changed."""

    def __init__(self, layer, place, by):
        super().__init__()
        self.left, self.place, self.by = layer, place, by

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            query, key, value = args[:3]
            scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
            mask = kwargs.get("attn_mask")
            if mask is not None:
                scores = (
                    scores.masked_fill(~mask, -torch.inf)
                    if mask.dtype == torch.bool
                    else scores + mask
                )
            return self.nudge(scores.softmax(-1)) @ value
        result = func(*args, **kwargs)
        return self.nudge(result) if func is F.softmax else result

    def nudge(self, probabilities):
        self.left -= 1
        if self.left == 0:
            probabilities[self.place] += self.by
        return probabilities


def test_gradients_need_to_be_asked_for():
    with Capture() as capture:
        out = tiny.build("bert")(**tiny.ids())[0]
    with pytest.raises(CaptureError, match="gradients=True"):
        capture.gradients(out.sum())


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_values_and_output_projection_rebuild_the_output(name, attention):
    model = tiny.build(name, attention)
    with torch.no_grad(), Capture(CaptureSpec(blocks=True)) as capture:
        model(**tiny.ids())
    first = capture.sites[0]
    mixed = first.probabilities @ first.values
    torch.testing.assert_close(mixed[0], _heads_first(first.output, mixed)[0], atol=1e-5, rtol=0)
    block = (model.base_model if name != "bert" else model).get_submodule(
        {
            "bert": "encoder.layer.0.attention.output.dense",
            "gpt2": "h.0.attn.c_proj",
            "llama": "layers.0.self_attn.o_proj",
        }[name]
    )
    weight = block.weight.T if name == "gpt2" else block.weight
    assert torch.equal(first.projection, weight)


def _heads_first(output, like):
    return output if output.shape == like.shape else output.transpose(1, 2)


def test_chosen_layers_rows_and_fused_heads_are_parts_of_the_whole():
    model, inputs = tiny.build("bert"), tiny.ids()
    with torch.no_grad():
        with Capture() as whole:
            model(**inputs)
        with Capture(CaptureSpec(layers={2}, queries=[3, 0], fuse=lambda a: a.mean(1))) as part:
            model(**inputs)
    assert len(part.sites) == 1
    expected = whole.sites[1].probabilities[:, :, [3, 0]].mean(1)
    torch.testing.assert_close(part.sites[0].probabilities, expected)


def test_rows_in_blocks_are_the_rows_at_once(monkeypatch):
    model, inputs = tiny.build("gpt2"), tiny.ids()
    whole = CaptureSpec(fuse=lambda a: a.amax(1))
    with torch.no_grad():
        with Capture(whole) as at_once:
            model(**inputs)
        monkeypatch.setattr(
            "attnflow.models.capture.mode.BLOCK", 2 * 4 * 7 * 2
        )  # two rows at a time
        with Capture(whole) as in_blocks:
            model(**inputs)
    for one, other in zip(at_once.sites, in_blocks.sites, strict=True):
        torch.testing.assert_close(one.probabilities, other.probabilities)
        torch.testing.assert_close(one.sums, other.sums)


@pytest.mark.parametrize("grad", [False, True])
def test_a_plain_transformer_encoder_is_seen(grad):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    inputs = torch.randn(2, 6, 32)
    hidden = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    with torch.no_grad():
        plain = encoder(inputs, src_key_padding_mask=hidden)
        _, expected = encoder.layers[0].self_attn(
            inputs, inputs, inputs, key_padding_mask=hidden, average_attn_weights=False
        )
    with torch.set_grad_enabled(grad), Capture(CaptureSpec(gradients=grad)) as capture:
        seen = encoder(inputs, src_key_padding_mask=hidden)
    torch.testing.assert_close(seen, plain, atol=1e-5, rtol=0)
    assert len(capture.sites) == 2
    torch.testing.assert_close(capture.sites[0].probabilities, expected, atol=1e-6, rtol=0)
    if grad:
        assert all(bool(g.abs().sum() > 0) for g in capture.gradients(seen[:, 0].sin().sum()))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_multihead_attention_still_returns_its_weights(average, batched):
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 16) if batched else torch.randn(5, 16)
    plain = attention(x, x, x, average_attn_weights=average)
    with Capture(CaptureSpec(blocks=True)) as capture:
        seen = attention(x, x, x, average_attn_weights=average)
    for one, other in zip(plain, seen, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
    assert torch.equal(capture.sites[0].projection, attention.out_proj.weight)


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize(
    "name", ["bert", "llama"]
)  # llama's own softmax is in float32, BERT's is not
def test_half_precision_rows_sum_to_one(name, precision, attention):
    model = tiny.build(name, attention).to(precision)
    _, capture = network.run(model, tiny.ids(), CaptureSpec())
    for site in capture.sites:
        rows = network.cut(site, 0, 7, 7).double().sum(-1)
        torch.testing.assert_close(rows, torch.ones_like(rows), atol=1e-6, rtol=0)


def test_what_a_sink_took_stays_with_the_position():
    import transformers as tf

    config = tf.GptOssConfig(
        **tiny.DECODER, num_local_experts=2, num_experts_per_tok=1, sliding_window=64,
        layer_types=["full_attention"] * 3,
    )  # fmt: skip
    torch.manual_seed(0)
    model = tf.GptOssForCausalLM._from_config(config, attn_implementation="eager").eval()
    _, capture = network.run(model, tiny.ids(), CaptureSpec())
    with torch.no_grad():
        expected = model(**tiny.ids(), output_attentions=True).attentions
    for site, attention in zip(capture.sites, expected, strict=True):
        assert site.sink
        assert float(site.sums.max()) < 0.99
        missing = torch.diag_embed(1 - attention.sum(-1))
        found = network.cut(site, 0, 7, 7)
        torch.testing.assert_close(found, (attention + missing)[0], atol=1e-6, rtol=0)


def test_nothing_captured_is_an_error():
    with pytest.raises(CaptureError, match="no attention was seen"):
        network.expect([], 3, (7, 7))


def test_wrong_shapes_and_counts_are_errors():
    site = Site(torch.ones(1, 2, 4, 4) / 4, torch.ones(1, 2, 4), torch.float32)
    with pytest.raises(CaptureError, match=r"shapes \[\(4, 4\)\]; 7 × 7"):
        network.expect([site], 1, (7, 7))
    with pytest.raises(CaptureError, match=r"1 attention maps were seen.* 3 layers"):
        network.expect([site], 3, (4, 4))


@pytest.mark.parametrize("total", [0.5, 1.2, float("nan")])
def test_rows_that_are_no_probabilities_are_an_error(total):
    site = Site(torch.ones(1, 2, 4, 4) / 4, torch.full((1, 2, 4), total), torch.float32)
    with pytest.raises(CaptureError, match=f"rows sum to {total:g}"):
        network.cut(site, 0, 4, 4)


def test_threads_capture_their_own_run_of_one_model():
    model = tiny.build("bert")
    texts = [{"input_ids": torch.randint(5, 26, (1, n))} for n in (3, 5, 8, 13)]
    alone = [network.run(model, text, CaptureSpec())[1] for text in texts]
    together: list = [None] * len(texts)

    def work(place):
        for _ in range(5):
            together[place] = network.run(model, texts[place], CaptureSpec())[1]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(alone, together, strict=True):
        assert len(other.sites) == 3
        for a, b in zip(one.sites, other.sites, strict=True):
            assert torch.equal(a.probabilities, b.probabilities)
