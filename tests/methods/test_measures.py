"""Methods that read no edges: the same numbers as their functions, and only what they have."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import InputError, ModelError
from attnflow.methods import METHODS, Method, Scores, integrated
from attnflow.methods.question import batches_by_length
from attnflow.models.loading import load_model
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.views.explorer.document import STANDALONE, make_view

TEXT = "the keys to the cabinet are playing"  # playing is two tokens
FUNCTIONS = {
    "gradient-norm": lambda *args, **more: attnflow.gradients(*args, kind="norm", **more),
    "gradient-input": lambda *args, **more: attnflow.gradients(*args, kind="input", **more),
    "integrated": lambda *args, **more: attnflow.gradients(*args, kind="integrated", **more),
    "blank-out": attnflow.blank_out,
}


@pytest.fixture(scope="module")
def classifier():
    torch.manual_seed(0)
    config = tf.BertConfig(**tiny.USUAL, initializer_range=0.5, num_labels=3)
    return load_model((tf.BertForSequenceClassification(config).eval(), tiny.word_piece()))


@pytest.fixture(scope="module")
def causal():
    torch.manual_seed(0)
    network = tf.LlamaForCausalLM(tf.LlamaConfig(**tiny.DECODER, initializer_range=0.5)).eval()
    return load_model((network, tiny.plain()))


@pytest.mark.parametrize("method", FUNCTIONS)
@pytest.mark.parametrize("target", [{}, {"target": 2}, {"target": 2, "contrast": 0}])
def test_a_method_has_its_functions_numbers(classifier, method, target):
    found = attnflow.explain(TEXT, classifier, method=method, **target)
    expected = FUNCTIONS[method](TEXT, classifier, **target)
    np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-9)
    assert found.method == expected.method == method
    assert found.options["target"] == expected.options["target"]
    assert found.options.get("contrast") == expected.options.get("contrast")
    assert np.ptp(found.values) > 1e-4


@pytest.mark.parametrize("method", FUNCTIONS)
def test_many_texts_have_what_each_has_alone(classifier, method):
    texts, targets = [TEXT, "a cat", "the old red key is on the mat"], [2, 0, 1]
    together = attnflow.explain(texts, classifier, method=method, target=targets, batch_size=2)
    for text, target, found in zip(texts, targets, together, strict=True):
        alone = attnflow.explain(text, classifier, method=method, target=target)
        np.testing.assert_allclose(found.values, alone.values, rtol=0, atol=1e-6)


def test_a_causal_model_is_asked_at_any_position(causal):
    place = 2
    found = attnflow.explain(TEXT, causal, method="gradient-input", query=place, target="is")
    assert found.queries == (place,)
    network, tokenizer = causal.network, causal.tokenizer
    ids = torch.tensor([tokenizer(TEXT).input_ids])
    words = network.get_input_embeddings()(ids).detach().requires_grad_()
    logits = network(inputs_embeds=words).logits[0, place].double()
    chance = logits.softmax(-1)[tokenizer.convert_tokens_to_ids("is")]
    (slope,) = torch.autograd.grad(chance, words)
    expected = (slope * words)[0].double().sum(-1)
    np.testing.assert_allclose(found.values, expected.detach(), rtol=0, atol=1e-6)
    assert abs(found.values[place + 1 :]).max() == 0  # it has not read them yet


def test_words_are_measured_whole(classifier):
    network, tokenizer = classifier.network, classifier.tokenizer
    word = attnflow.explain(TEXT, classifier, method="blank-out", words=True)
    ids = tokenizer(TEXT).input_ids
    place = word.tokens.index("playing")
    blanked = list(ids)
    for at in (7, 8):
        blanked[at] = tokenizer.unk_token_id

    def chance(row):
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([row])).logits[0].double()
        return float(logits.softmax(-1)[network.config.label2id[word.options["target"]]])

    assert word.values[place] == pytest.approx(abs(chance(ids) - chance(blanked)), abs=1e-6)
    norm = attnflow.explain(TEXT, classifier, method="gradient-norm")
    whole = attnflow.explain(TEXT, classifier, method="gradient-norm", words=True)
    assert whole.values[place] == pytest.approx(np.linalg.norm(norm.values[7:9]), rel=1e-6)
    product = attnflow.explain(TEXT, classifier, method="gradient-input")
    summed = attnflow.explain(TEXT, classifier, method="gradient-input", words=True)
    assert summed.values[place] == pytest.approx(product.values[7:9].sum(), abs=1e-9)


def test_steps_and_batches_are_obeyed(classifier, monkeypatch):
    sizes = []
    logits = type(classifier).logits

    def counted(self, batch, *rest):
        sizes.append(len(batch))
        return logits(self, batch, *rest)

    monkeypatch.setattr(type(classifier), "logits", counted)
    found = attnflow.explain(TEXT, classifier, method="integrated", steps=7, batch_size=3)
    assert found.statistics["steps"] == 7
    assert max(sizes) == 3
    assert sum(sizes) == 7 + 3  # beside the points: the prediction, and both ends of the line
    shares = []
    session = open_session(TEXT, classifier, Request(method="blank-out", batch_size=4))
    session.attribution(advance=shares.append)
    assert shares == sorted(shares)
    assert len(shares) >= 3
    assert shares[-1] == 1


@pytest.mark.parametrize(
    "options",
    [
        {"edges": "alti"},
        {"layer": 2},
        {"layers": [1, 2]},
        {"heads": [0]},
        {"heads": "each"},
        {"residual": 0.2},
        {"discard": 0.5},
        {"correction": "sink"},
        {"steps": 3},
    ],
)
def test_what_a_method_has_not_is_refused(classifier, options):
    (name,) = options
    with pytest.raises(InputError, match=rf"{name}=.*gradient-norm"):
        attnflow.explain(TEXT, classifier, method="gradient-norm", **options)


def test_other_questions_are_refused_by_name(classifier, causal):
    with pytest.raises(InputError, match="reads no edges"):
        attnflow.routes(TEXT, classifier, to=2, method="blank-out")
    with pytest.raises(InputError, match="decided at position 0"):
        attnflow.explain(TEXT, classifier, method="blank-out", query=3)
    with pytest.raises(InputError, match="normalize=True does not apply to method='integrated'"):
        attnflow.explain(TEXT, classifier, method="integrated", normalize=True)
    with pytest.raises(InputError, match="target and contrast are the same"):
        attnflow.explain(TEXT, causal, method="blank-out", target="is", contrast="is")
    with pytest.raises(ModelError, match="no probability"):
        attnflow.explain(TEXT, (tiny.build("bert", "eager"), tiny.word_piece()), method="blank-out")


def test_agreement_and_documents_have_them(classifier):
    flow = attnflow.explain(TEXT, classifier, method="flow", layers="all")
    norm = attnflow.explain(TEXT, classifier, method="gradient-norm")
    assert -1 <= attnflow.agreement(flow, norm, layer=1) <= 1
    config = Request(method="gradient-input", methods=("gradient-input", "flow"))
    view = make_view(open_session(TEXT, classifier, config, all_heads=True), STANDALONE)
    assert {m["name"] for m in view["methods"]} == {"raw", "rollout", "flow", "gradient-input"}
    (own,) = [s for s in view["scores"] if s["method"] == "gradient-input"]
    assert own["layers"] == [3]
    assert own["queries"] == [0]
    json.dumps(view)


def test_a_measure_of_ones_own_works_by_its_name(classifier):
    def length(question):
        return Scores(np.array([float(len(group)) for group in question.groups]))

    METHODS.register(Method("length", "Length", measure=length))
    try:
        found = attnflow.explain(TEXT, classifier, method="length", words=True)
        assert dict(found.top(1)) == {"playing": 2.0}
    finally:
        METHODS.unregister("length")


@pytest.mark.parametrize(
    ("name", "cost", "signed", "steps"),
    [
        ("blank-out", "passes", False, False),
        ("gradient-input", "pass", True, False),
        ("gradient-norm", "pass", False, False),
        ("integrated", "passes", True, True),
        ("lrp", "pass", True, False),
    ],
)
def test_what_others_need_to_know_of_a_measure(name, cost, signed, steps):
    """Its cost to a server, whether signs mean something, whether a page shows it at first."""
    of = METHODS[name]
    assert (of.cost, of.signed, of.uses_steps, of.shown_by_default) == (cost, signed, steps, False)
    assert of.summary


def test_pieces_are_halved_until_their_parts_add_up(classifier, monkeypatch, caplog):
    exact = attnflow.explain(TEXT, classifier, method="integrated", steps=256)
    found = attnflow.explain(TEXT, classifier, method="integrated")
    np.testing.assert_allclose(found.values, exact.values, rtol=0, atol=1e-4)
    assert found.statistics["steps"] < 256
    monkeypatch.setattr(integrated, "OF_PIECE", np.inf)
    assert attnflow.explain(TEXT, classifier, method="integrated").statistics["steps"] == 16
    assert not caplog.text
    for name in ("OF_PIECE", "TOLERANCE"):
        monkeypatch.setattr(integrated, name, 0.0)
    found = attnflow.explain(TEXT, classifier, method="integrated")
    np.testing.assert_allclose(found.values, exact.values, rtol=0, atol=1e-4)
    assert found.statistics["steps"] == 256  # at most; what is missing then is told
    assert "integrated gradients miss the change" in caplog.text


def test_a_jump_costs_points_only_where_it_is(monkeypatch):
    """One token, whose value is the logistic function of 200 · (x − 0.3)."""
    seen = []

    class Jump:
        def __init__(self, *_):
            self.known = {}

        def run_at(self, ends):
            self.known |= {end: 1 / (1 + np.exp(-200 * (end - 0.3))) for end in ends}

        def products(self, points):
            seen.extend(points)
            value = 1 / (1 + np.exp(-200 * (points - 0.3)))
            return torch.tensor(200 * value * (1 - value))[:, None]

    monkeypatch.setattr(integrated, "_Line", Jump)
    scores, statistics = integrated.integrate(None, [None], None, None, 1)
    assert float(scores[0]) == pytest.approx(1, abs=2e-4)
    assert statistics["steps"] == len(seen) <= 100
    near = [point for point in seen if abs(point - 0.3) < 0.1]
    assert len(near) > len(seen) / 2


def test_texts_that_run_together_are_of_similar_length():
    """Otherwise most of a batch would be padding."""
    inputs = [SimpleNamespace(names="a" * size) for size in (5, 1, 9, 2, 7)]
    assert list(batches_by_length(inputs, 2)) == [[1, 3], [0, 4], [2]]
