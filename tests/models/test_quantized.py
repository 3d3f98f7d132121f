"""Quantised models: their own attention is read; gradients that a layer cuts off are refused."""

import numpy as np
import pytest
import torch
import transformers
from torch import nn

import attnflow
import talkers
import tiny
from attnflow.errors import ModelError
from attnflow.models.capture.differentiable import NoGradientError, watched

TEXT = "the keys to the old cabinet"
pytestmark = [  # torch's own quantised layers are to be replaced by those of another package
    pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
]


def quantized(*names):
    """A model that writes, with the layers of these names in 8 bits; all without a name."""
    network, tokenizer = talkers.llama(attn_implementation="eager")
    layers = {
        name
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear) and (not names or name.endswith(names))
    }
    made = torch.ao.quantization.quantize_dynamic(network, layers, dtype=torch.qint8)
    return made, tokenizer


def test_attention_is_that_of_the_quantised_model():
    network, tokenizer = quantized()
    found = attnflow.explain_answer(
        *(TEXT, (network, tokenizer)),
        generate=3,
        method="raw",
        edges="attention",
        correction=None,
        each="tokens",
    )
    ids = torch.tensor([tokenizer.convert_tokens_to_ids(list(found.tokens))])
    with torch.no_grad():
        maps = network(ids, output_attentions=True).attentions[-1][0].mean(0).double().numpy()
    rows = np.stack([maps[at - 1] for at in found.answer])
    np.testing.assert_allclose(found.matrix(), rows, atol=1e-6)


@pytest.mark.parametrize("names", [(), ("mlp.down_proj",), ("layers.1.self_attn.v_proj",)])
@pytest.mark.parametrize("options", [{"edges": "gradient"}, {"method": "gradient-norm"}])
def test_gradients_that_a_layer_cuts_off_are_refused(names, options):
    with pytest.raises(ModelError, match=rf"its layer '.*{names[0] if names else 'q_proj'}'"):
        attnflow.explain_answer(TEXT, quantized(*names), generate=2, **options)
    with pytest.raises(ModelError, match="passes on no gradient"):
        attnflow.explain(TEXT, quantized(*names), **options)


def test_the_default_says_why_gradients_are_not_used():
    found = attnflow.explain_answer(TEXT, quantized("mlp.up_proj"), generate=2)
    assert (found.options["edges"], found.method) == ("attention", "flow")
    (note,) = [each for each in found.warnings if "passes on no gradient" in each]
    assert note.startswith("attention and flow are used")
    assert "edges=" not in note  # no advice to use what is used


def test_a_classifier_asks_for_its_position():
    network = tiny.build("bert", head=transformers.BertForSequenceClassification)
    model = torch.ao.quantization.quantize_dynamic(network, {nn.Linear}, dtype=torch.qint8)
    with pytest.raises(ModelError, match=r"where it decides is not known: .* with query=") as found:
        attnflow.explain(TEXT, (model, tiny.word_piece()), edges="attention")
    assert "edges=" not in str(found.value)  # which would not help
    found = attnflow.explain(TEXT, (model, tiny.word_piece()), edges="attention", query=0)
    assert found.query == 0


class WeightsIn8Bits(nn.Module):
    """Weights in 8 bits, with a scale for each row, multiplied as floats."""

    def __init__(self, linear):
        super().__init__()
        scale = linear.weight.detach().abs().amax(-1, keepdim=True) / 127
        self.register_buffer("scale", scale)
        self.register_buffer("rounded", (linear.weight.detach() / scale).round().to(torch.int8))

    @property
    def weight(self):
        return self.rounded * self.scale

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


class Packed(WeightsIn8Bits):
    """The same by a kernel that no call of torch shows, as bitsandbytes and GPTQ have them."""

    def __init__(self, linear):
        super().__init__(linear)
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, x):
        with torch._C.DisableTorchFunction():
            return super().forward(x)


class RoundingInputs(Packed):
    """It rounds what it reads to 8 bits as well, position by position, as LLM.int8 does."""

    def forward(self, x):
        with torch._C.DisableTorchFunction():
            scale = x.detach().abs().amax(-1, keepdim=True).clamp_min(1e-9) / 127
            return super().forward(x + ((x / scale).round() * scale - x).detach())


class Bent(Packed):
    """No linear layer, whatever it says of its features."""

    def forward(self, x):
        with torch._C.DisableTorchFunction():
            return super().forward(x).relu()


def with_layers(kind, ending=""):
    """A model with these layers packed, and one that has the same weights as floats."""
    network, tokenizer = talkers.llama()
    plain, _ = talkers.llama()
    for path, module in list(plain.named_modules()):
        if isinstance(module, nn.Linear) and "head" not in path and path.endswith(ending):
            packed = kind(module)
            module.weight = nn.Parameter(packed.weight.clone())
            above, _, name = path.rpartition(".")
            setattr(network.get_submodule(above), name, packed)
    return (network, tokenizer), (plain, tokenizer)


@pytest.mark.parametrize("kind", [WeightsIn8Bits, Packed])
@pytest.mark.parametrize(
    ("edges", "method"),
    [
        ("attention", "flow"),
        ("gradient", "direct"),
        ("alti", "rollout"),
        ("norms", "direct"),
        ("norms-residual", "rollout"),
        ("effective", "direct"),
        ("value-zeroing", "rollout"),
        (None, "integrated"),
    ],
)
def test_weights_in_8_bits_give_what_the_same_weights_give_as_floats(kind, edges, method):
    packed, plain = with_layers(kind)
    assert sum(isinstance(each, kind) for each in packed[0].modules()) == 7 * 3
    options = {"generate": 3, "method": method, **({"edges": edges} if edges else {})}
    found = attnflow.explain_answer(TEXT, packed, **options)
    expected = attnflow.explain_answer(TEXT, plain, **options)
    assert found.answer_text == expected.answer_text
    np.testing.assert_allclose(found.matrix(), expected.matrix(), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("edges", ["alti", "norms", "norms-residual", "effective"])
def test_blocks_are_taken_apart_where_a_projection_rounds_what_it_reads(edges):
    """What the first layer reads is the same, and so are its parts, whatever rounds their sum."""
    options = {"edges": edges, "method": "raw", "layers": 1}
    rounded, plain = with_layers(RoundingInputs, "o_proj")
    found = attnflow.explain(TEXT, rounded, **options)
    expected = attnflow.explain(TEXT, plain, **options)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-5, atol=1e-7)
    last = [attnflow.explain(TEXT, each, edges=edges, method="raw") for each in (rounded, plain)]
    assert 0 < abs(last[0].values - last[1].values).max() < 0.05


def test_what_only_looks_like_a_linear_layer_is_refused():
    bent, _ = with_layers(Bent, "o_proj")
    with pytest.raises(ModelError, match="do not add up to its output"):
        attnflow.explain(TEXT, bent, edges="alti")


class Adapted(nn.Module):
    """A layer with what was learned beside it, as LoRA has it: a sum of two products."""

    def __init__(self, linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        torch.manual_seed(1)
        self.base, self.down = linear, nn.Linear(linear.in_features, 2, bias=False)
        self.up = nn.Linear(2, linear.out_features, bias=False)

    @property
    def weight(self):
        return (self.base.weight + self.up.weight @ self.down.weight).detach()

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


@pytest.mark.parametrize("edges", ["alti", "norms-residual"])
def test_a_projection_of_several_products_is_one_linear_layer(edges):
    network, tokenizer = talkers.llama()
    plain, _ = talkers.llama()
    for path, module in list(network.named_modules()):
        if path.endswith("o_proj"):
            adapted = Adapted(module)
            plain.get_submodule(path).weight = nn.Parameter(adapted.weight)
            network.get_submodule(path.rpartition(".")[0]).o_proj = adapted
    found = attnflow.explain(TEXT, (network.eval(), tokenizer), edges=edges, method="rollout")
    expected = attnflow.explain(TEXT, (plain, tokenizer), edges=edges, method="rollout")
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-4, atol=1e-7)


def test_torchs_own_layers_are_read_as_well():
    network, tokenizer = quantized("o_proj")
    plain, _ = talkers.llama(attn_implementation="eager")
    for path, module in network.named_modules():
        if path.endswith("o_proj"):
            plain.get_submodule(path).weight.data.copy_(module.weight().dequantize())
    options = {"edges": "alti", "method": "raw", "layers": 1}
    found = attnflow.explain(TEXT, (network, tokenizer), **options)
    expected = attnflow.explain(TEXT, (plain, tokenizer), **options)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-2)


class Shape(nn.Module):
    """Positions, which ask their input for its shape alone."""

    def forward(self, x):
        return torch.ones(x.shape)


class Constant(nn.Module):
    """Reads its input, and passes on no gradient."""

    def forward(self, x):
        return x.detach() * 2


class Sum(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.first, self.inner = nn.Linear(3, 3), inner

    def forward(self, x):
        x = self.first(x)
        return x + self.inner(x)


@pytest.mark.parametrize("copyable", [True, False])
def test_what_reads_a_shape_alone_is_no_cut(copyable):
    network, cut = Sum(Shape()), Sum(Constant())
    if not copyable:  # a module beside the tree: then the networks themselves are watched
        network.beside, cut.beside = [nn.Linear(1, 1)], [nn.Linear(1, 1)]
    with watched(network) as running:
        assert (running is network) == (not copyable)
        running(torch.ones(2, 3))
    with watched(network) as running:
        assert running is network
    with (
        pytest.raises(NoGradientError, match=r"its layer 'inner' \(Constant\)"),
        watched(cut) as running,
    ):
        running(torch.ones(2, 3))
    with torch.no_grad(), watched(cut) as running:
        running(torch.ones(2, 3))
    assert not any(module._forward_hooks for module in [*network.modules(), *cut.modules()])
