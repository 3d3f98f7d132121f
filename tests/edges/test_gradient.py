"""Gradients by attention against differences: every probability moved inside the model."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import attnflow.models.capture.mode  # before functions of torch are patched
import families
import parts
import tiny
from attnflow.errors import InputError, ModelError

TEXT = "the keys are here"
MASKED_TEXT = "the [MASK] are here"
CLASSIFIERS = {
    "bert": tf.BertForSequenceClassification,
    "roberta": tf.RobertaForSequenceClassification,
    "electra": tf.ElectraForSequenceClassification,
    "mpnet": tf.MPNetForSequenceClassification,
    "modernbert": tf.ModernBertForSequenceClassification,
    "deberta-v2": tf.DebertaV2ForSequenceClassification,
}
MASKED = {"distilbert": tf.DistilBertForMaskedLM, "albert": tf.AlbertForMaskedLM}
DECODERS = (
    *("gpt2", "llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "olmo2", "cohere"),
    *("gpt-neox", "gpt-j", "phi", "falcon", "bloom", "opt", "gpt-oss"),
)
HEADS = CLASSIFIERS | MASKED


def target(logits):
    """What is differentiated: the largest log-probability."""
    return logits.log_softmax(-1).max(-1).values


def case(name):
    """A text, its tokenizer, and the target of a batch's logits."""
    if name in CLASSIFIERS:
        return TEXT, tiny.word_piece(), target
    if name in MASKED:
        return MASKED_TEXT, tiny.word_piece(), lambda logits: target(logits[:, 2])
    return TEXT, tiny.plain(), lambda logits: target(logits[:, -1])


def maps_of(text, model, rule, **options):
    """The rule's maps, heads merged: what each layer adds to direct contributions."""
    options = {"query": "all", "layers": "all", "correction": None} | options
    found = attnflow.explain(text, model, method="direct", edges=rule, **options).scores
    return np.diff(found, axis=0, prepend=np.zeros_like(found[:1]))


@pytest.mark.parametrize("name", [*HEADS, *DECODERS])
def test_gradients_are_differences(name):
    single = name == "gpt-oss"  # whose experts know no float64
    text, tokenizer, objective = case(name)
    with nullcontext() if single else parts.in_double():
        eager = families.build(name, "eager", head=HEADS.get(name))
        inputs = dict(tokenizer(text, return_tensors="pt"))
        with torch.no_grad():
            attentions = eager(**inputs, output_attentions=True).attentions
        gradients = parts.gradients(eager, inputs, objective, 4, 1e-2 if single else 1e-5)
        model = families.build(name, head=HEADS.get(name)), tokenizer
        products, only = (maps_of(text, model, rule) for rule in ("gradient", "gradient-only"))
    pairs = [
        (attention[0].double().numpy(), gradient)
        for attention, gradient in zip(attentions, gradients, strict=True)
    ]
    tolerance = 2e-3 if single else 1e-8
    expected = [np.maximum(0, a * g).mean(0) for a, g in pairs]
    np.testing.assert_allclose(products, expected, rtol=0, atol=tolerance)
    expected = [np.maximum(0, g * (a > 0)).mean(0) for a, g in pairs]
    np.testing.assert_allclose(only, expected, rtol=0, atol=tolerance)
    assert max(each.max() for each in expected) > 1e-3


@pytest.mark.parametrize("name", ["bert", "modernbert", "gpt2", "gemma3"])
@pytest.mark.parametrize("rule", ["gradient", "gradient-only"])
def test_a_list_is_as_each_alone(name, rule):
    """Among much padding some positions see nothing: their gradients must not spread."""
    tokenizer = case(name)[1]
    model = families.build(name, head=HEADS.get(name)), tokenizer
    texts = ["the keys to the cabinet are here , the cats play on the mat .", "mat", TEXT]
    options = {"method": "direct", "edges": rule, "query": "all", "layers": "all"}
    for text, found in zip(texts, attnflow.explain(texts, model, **options), strict=True):
        alone = attnflow.explain(text, model, **options)
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-10)


def test_additive_relevance_is_that_of_chefers_script():
    model = families.build("bert", "eager", head=CLASSIFIERS["bert"])
    inputs = tiny.word_piece()(TEXT, return_tensors="pt")
    output = model(**inputs, output_attentions=True)
    gradients = torch.autograd.grad(target(output.logits[0]), output.attentions)
    size = inputs["input_ids"].shape[1]
    relevance = torch.eye(size, dtype=torch.float64)
    for attention, gradient in zip(output.attentions, gradients, strict=True):
        cam = (gradient[0] * attention[0]).clamp(min=0).mean(dim=0)
        relevance = relevance + torch.matmul(cam, relevance)
    expected = (relevance - torch.eye(size)).detach().numpy()
    options = {"method": "additive", "edges": "gradient", "query": "all"}
    found = attnflow.explain(TEXT, (model, tiny.word_piece()), **options)
    np.testing.assert_allclose(found.scores[0], expected, rtol=0, atol=1e-12)


def test_rows_of_gradients_sum_to_one_before_the_residual_is_added():
    model = families.build("bert", head=CLASSIFIERS["bert"]), tiny.word_piece()
    maps = maps_of(TEXT, model, "gradient")
    options = {"method": "raw", "edges": "gradient", "query": "all", "layers": "all"}
    found = attnflow.explain(TEXT, model, residual=0.3, **options).scores
    expected = parts.with_share(maps, 0.3)
    expected[maps.sum(-1) == 0] /= 0.3  # who reads nothing stays where it is
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads", [[1], [0, 2]])
def test_heads_are_fused_after_negative_parts_are_gone(heads):
    model = families.build("bert", "eager", head=CLASSIFIERS["bert"])
    output = model(**tiny.word_piece()(TEXT, return_tensors="pt"), output_attentions=True)
    gradients = torch.autograd.grad(target(output.logits[0]), output.attentions)
    found = maps_of(TEXT, (model, tiny.word_piece()), "gradient", heads=heads)
    for attention, gradient, maps in zip(output.attentions, gradients, found, strict=True):
        each = (attention[0] * gradient[0]).clamp(min=0).detach().numpy()
        expected = each[heads].mean(0)
        np.testing.assert_allclose(maps, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["vit", "deit", "dinov2", "dinov2-registers", "beit"])
def test_images_have_gradients_towards_a_label(name):
    picture = np.random.default_rng(0).integers(0, 255, (50, 80, 3), dtype=np.uint8)
    resizing = tf.ViTImageProcessorPil(size={"height": 32, "width": 32})
    pixels = resizing(images=picture, return_tensors="pt")["pixel_values"].double()
    eager = families.build(name, "eager")
    output = eager(pixels, output_attentions=True)
    value = output.logits[0].log_softmax(-1)[1]
    gradients = torch.autograd.grad(value, output.attentions)
    found = maps_of(picture, (families.build(name), resizing), "gradient", target="LABEL_1")
    for attention, gradient, maps in zip(output.attentions, gradients, found, strict=True):
        expected = (attention[0] * gradient[0]).clamp(min=0).mean(0).detach().numpy()
        np.testing.assert_allclose(maps, expected, rtol=0, atol=1e-7)
        assert expected.max() > 1e-5


def test_a_label_of_an_image_is_refused_by_name():
    picture = np.zeros((50, 80, 3), dtype=np.uint8)
    resizing = tf.ViTImageProcessorPil(size={"height": 32, "width": 32})
    with pytest.raises(InputError, match="target='cat' is not a label"):
        maps_of(picture, (families.build("vit"), resizing), "gradient", target="cat")


def test_a_model_that_predicts_nothing_has_no_gradients():
    with pytest.raises(ModelError, match="nothing to differentiate"):
        attnflow.explain(TEXT, (tiny.build("bert"), tiny.word_piece()), edges="gradient")
