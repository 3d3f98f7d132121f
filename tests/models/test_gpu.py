"""A model on a GPU gives what it gives on the CPU."""

import numpy as np
import pytest
import torch
import transformers

import attnflow
import talkers
import tiny
from attnflow.methods import relevance_flow

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["bert", "llama"])
@pytest.mark.parametrize("method", ["rollout", "flow"])
def test_text_models(method, name, attention, precision):
    tokenizer = tiny.word_piece() if name == "bert" else tiny.plain()
    texts = [tiny.TEXT, "the cat"]
    model = tiny.build(name, attention).to(precision)
    options = {"method": method, "layers": "all"}
    expected = attnflow.explain(texts, (model, tokenizer), **options)
    found = attnflow.explain(texts, (model.to("cuda"), tokenizer), **options)
    tolerance = 1e-5 if precision == torch.float32 else 2e-2
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=tolerance, atol=tolerance)
        assert one.statistics["model"]["device"] == "cuda:0"


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["bert", "llama", "t5"])
def test_edges_are_removed_as_on_the_cpu(name, attention, precision):
    """A token hidden, a layer and a head gone, a row that loses all its edges."""
    head = transformers.BertForSequenceClassification if name == "bert" else None
    tokenizer = tiny.word_piece() if name == "bert" else tiny.plain()
    sets = {
        "token": "cabinet",
        "layer": attnflow.Edges(layers=2),
        "head": attnflow.Edges(layers=1, heads=2),
        "row": attnflow.Edges(layers=-1, queries=-1, own=True),
    }
    options = {"edges": sets, **({"answer": "a cat"} if name == "t5" else {})}
    model = tiny.build(name, attention, head=head).to(precision)
    expected = attnflow.knockout(tiny.TEXT, (model, tokenizer), **options)
    found = attnflow.knockout(tiny.TEXT, (model.to("cuda"), tokenizer), **options)
    tolerance = 1e-4 if precision == torch.float32 else 0.3
    for kind, other in expected.items():
        one = found[kind]
        assert (one.removed, one.total) == (other.removed, other.total)
        pairs = zip((one.after, *one.random), (other.after, *other.random), strict=True)
        for here, there in pairs:
            apart = abs(here.log_probability - there.log_probability)
            assert apart <= tolerance * max(1.0, abs(there.log_probability))


def test_encoder_decoders():
    tokenizer = tiny.word_piece()
    tokenizer.eos_token = "[SEP]"
    model = tiny.build("t5")
    options = {"answer": "the cat is", "method": "rollout", "layers": "all"}
    expected = attnflow.explain(tiny.TEXT, (model, tokenizer), **options)
    found = attnflow.explain(tiny.TEXT, (model.to("cuda"), tokenizer), **options)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-5)


def test_images():
    from transformers import ViTImageProcessorPil

    picture = np.random.default_rng(0).integers(0, 255, (50, 80, 3), dtype=np.uint8)
    processor = ViTImageProcessorPil(size={"height": 32, "width": 32})
    model = tiny.build("vit")
    options = {"method": "rollout", "layers": "all"}
    expected = attnflow.explain(picture, (model, processor), **options)
    found = attnflow.explain(picture, (model.to("cuda"), processor), **options)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "llama"])
@pytest.mark.parametrize("rule", attnflow.EDGE_RULES)
def test_every_rule(rule, name):
    head = transformers.BertForMaskedLM if name == "bert" else None
    tokenizer = tiny.word_piece() if name == "bert" else tiny.plain()
    model = tiny.build(name, head=head)
    text = "the keys [MASK] the cabinet" if name == "bert" else tiny.TEXT
    method = "direct" if attnflow.EDGE_RULES[rule].amounts else "rollout"
    options = {"edges": rule, "method": method, "correction": None}
    expected = attnflow.explain(text, (model, tokenizer), **options)
    found = attnflow.explain(text, (model.to("cuda"), tokenizer), **options)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "method", [each.name for each in attnflow.METHODS.members() if not each.reads_edges]
)
def test_every_measure(method):
    model = tiny.build("llama")
    expected = attnflow.explain(tiny.TEXT, (model, tiny.plain()), method=method)
    found = attnflow.explain(tiny.TEXT, (model.to("cuda"), tiny.plain()), method=method)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-3, atol=1e-4)


def test_from_the_logit():
    model = tiny.build("llama")
    options = {"source": "logit", "edges": "alti", "method": "flow"}
    expected = attnflow.explain(tiny.TEXT, (model, tiny.plain()), **options)
    found = attnflow.explain(tiny.TEXT, (model.to("cuda"), tiny.plain()), **options)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("large", [0, relevance_flow.LARGE])
def test_flow_on_relevance(large, monkeypatch):
    """Exact where it is small, and bounded on the device where it is large."""
    monkeypatch.setattr(relevance_flow, "LARGE", large)
    network, tokenizer = talkers.llama()
    options = {"answer": " is here", "deletions": False}
    prompt = {"first": "the keys to the cabinet", "second": "an old cat is on the mat"}
    expected = attnflow.explain_answer(prompt, (network, tokenizer), **options)
    found = attnflow.explain_answer(prompt, (network.to("cuda"), tokenizer), **options)
    assert ("searched" in found.statistics) == (large == 0)
    for name in ("scores", "part_scores"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-4 * np.abs(other).max())
