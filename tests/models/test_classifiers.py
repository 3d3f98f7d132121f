"""Classifiers on decoders and on encoder–decoders."""

import copy

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import InputError, ModelError
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.spec import CaptureSpec

TEXT = "the keys to the old cabinet are here"
SHORT = "a red cat"


def labelled(head, family):
    """A model whose labels have names."""
    model = tiny.build(family, head=head)
    names = ["no", "maybe", "yes"][: model.config.num_labels]
    model.config.id2label = dict(enumerate(names))
    return model


def logits_of(model, text):
    with torch.no_grad():
        return model.network(**model.tokenizer(text, return_tensors="pt")).logits[0].double()


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_classifiers_on_decoders_decide_at_the_last_token(family):
    head = {
        "gpt2": tf.GPT2ForSequenceClassification,
        "llama": tf.LlamaForSequenceClassification,
    }
    network = labelled(head[family], family)
    network.config.pad_token_id = 0
    model = attnflow.load_model((network, tiny.plain()))
    found = attnflow.explain([TEXT, SHORT], model)
    for text, one in zip([TEXT, SHORT], found, strict=True):
        assert one.query == len(one.tokens) - 1
        assert one.prediction.position is None
        shares = logits_of(model, text).softmax(-1)
        assert one.prediction.probability == pytest.approx(float(shares.max()), rel=1e-5)
        alone = attnflow.explain(text, model)
        np.testing.assert_allclose(one.values, alone.values, atol=1e-5)
    pair = attnflow.explain((TEXT, SHORT), model)
    assert pair.segments[-1] == "second"


@pytest.fixture(
    scope="module",
    params=[("bart", tf.BartForSequenceClassification), ("t5", tf.T5ForSequenceClassification)],
    ids=["bart", "t5"],
)
def model(request):
    family, head = request.param
    network = labelled(head, family)
    network.config.eos_token_id = 3
    tokenizer = tiny.pair_piece()
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    return attnflow.load_model((network, tokenizer))


def test_it_says_what_the_model_says(model):
    for item in (TEXT, (SHORT, TEXT)):
        given = (item,) if isinstance(item, str) else item
        with torch.no_grad():
            logits = model.network(**model.tokenizer(*given, return_tensors="pt")).logits[0]
        found = attnflow.explain(item, model)
        assert found.prediction.position is None
        shares = logits.double().softmax(-1)
        assert found.prediction.label == model.output_name(int(shares.argmax()))
        assert found.prediction.probability == pytest.approx(float(shares.max()), rel=1e-5)


def test_the_decoder_reads_the_text_and_decides_at_its_end(model):
    found = attnflow.explain(TEXT, model)
    source = found.segments.count("source")
    assert found.tokens[source + 1 :] == found.tokens[: source - 1]
    assert found.query == len(found.tokens) - 1
    pair = attnflow.explain((SHORT, TEXT), model)
    assert pair.query == len(pair.tokens) - 1
    assert pair.segments.count("target") == len(pair.tokens) / 2


def test_the_graph_is_that_of_the_models_own_attention(model):
    found = attnflow.explain(TEXT, model, method="rollout", edges="attention", layers="all")
    eager = copy.deepcopy(model.network)
    eager.set_attn_implementation("eager")
    with torch.no_grad():
        encoded = model.tokenizer(TEXT, return_tensors="pt")
        output = eager(**encoded, output_attentions=True)
    n = encoded["input_ids"].shape[1]
    half = np.eye(2 * n)
    state = np.eye(2 * n)

    def step(rows, columns, attention):
        moved = half.copy()
        moved[rows] = 0
        moved[rows, columns] = attention[0].double().mean(0)
        return 0.5 * moved + 0.5 * half

    left, right = slice(0, n), slice(n, 2 * n)
    for each in output.encoder_attentions:
        state = step(left, left, each) @ state
    for own, cross in zip(output.decoder_attentions, output.cross_attentions, strict=True):
        state = step(right, left, cross) @ step(right, right, own) @ state
    np.testing.assert_allclose(found.values, state[found.query], rtol=0, atol=1e-5)


def test_gradients_are_towards_the_label(model):
    spec = CaptureSpec(gradients=True)
    (found,) = model.run([model.tokenize(TEXT)], None, spec)
    with Capture(spec) as capture:
        logits = model.network(**model.tokenizer(TEXT, return_tensors="pt")).logits[0]
    expected = capture.gradients(logits.double().log_softmax(-1).max())
    n = len(found.tokens) // 2
    first, last = found.activations.gradients[0], found.activations.gradients[-1]
    torch.testing.assert_close(first[:, :n, :n], expected[0][0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(last[:, n:, :n], expected[-1][0], rtol=1e-4, atol=1e-6)
    named = attnflow.explain(TEXT, model, target="maybe", edges="gradient")
    assert named.options["target"] == "maybe"


def test_a_list_is_what_each_is_alone(model):
    items = [TEXT, SHORT, (SHORT, TEXT)]
    together = attnflow.explain(items, model)
    for item, found in zip(items, together, strict=True):
        alone = attnflow.explain(item, model)
        np.testing.assert_allclose(found.values, alone.values, rtol=0, atol=1e-5)
        assert found.prediction.probability == pytest.approx(alone.prediction.probability)


def test_a_blanked_token_is_blanked_on_both_sides(model):
    tokens = model.tokenize(TEXT)
    filler = model.filler()
    blanked = model.blank(tokens, [2], filler)
    assert blanked.inputs["input_ids"][2] == filler.token
    assert blanked.inputs["decoder_input_ids"][3] == filler.token
    ids = torch.tensor([blanked.inputs["input_ids"]])
    with torch.no_grad():
        expected = model.network(input_ids=ids).logits[0].double().softmax(-1)
    (said,) = model.predict([blanked], [0])
    assert said.probability == pytest.approx(float(expected.max()), rel=1e-5)


def test_what_makes_no_sense_is_refused(model):
    with pytest.raises(InputError, match="target='perhaps' is not a label"):
        attnflow.explain(TEXT, model, target="perhaps", edges="gradient")
    with pytest.raises((InputError, ModelError), match="answer"):
        attnflow.explain(TEXT, model, answer="the cat")
    with pytest.raises(ModelError, match="puts no end there"):
        attnflow.explain(TEXT, (model.network, tiny.plain()))
    with pytest.raises(ModelError, match="no probability to measure"):
        attnflow.explain(TEXT, model, method="blank-out")
