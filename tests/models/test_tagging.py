"""Token classifiers: the label of one token, named or found."""

import copy

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.checks.deciding import ALL_OUTSIDE
from attnflow.views.wording.findings import find

TEXT = "the keys to the old cabinet are here"
SHORT = "a red cat"
LABELS = {0: "O", 1: "B-THING", 2: "I-THING"}


def labelled(head, family="bert", labels=LABELS):
    """A model whose labels have names, and whose head is not even."""
    model = tiny.build(family, head=head)
    model.config.id2label = dict(labels)
    model.config.label2id = {name: number for number, name in labels.items()}
    return model


def logits_of(model, text):
    with torch.no_grad():
        return model.network(**model.tokenizer(text, return_tensors="pt")).logits[0].double()


@pytest.fixture(scope="module")
def tagger():
    torch.manual_seed(3)
    _, config = tiny.ENCODERS["bert"]()
    config.num_labels = 3
    model = tf.BertForTokenClassification._from_config(config, attn_implementation="sdpa")
    model.config.id2label = dict(LABELS)
    with torch.no_grad():
        model.classifier.weight.mul_(60)
    return attnflow.load_model((model.eval(), tiny.word_piece()))


def inclined(model, bias):
    """The same model with another readiness to say O."""
    network = copy.deepcopy(model.network)
    with torch.no_grad():
        network.classifier.bias[0] = bias
    return attnflow.load_model((network, model.tokenizer))


def test_the_token_with_the_surest_label_is_explained(tagger):
    logits = logits_of(tagger, TEXT)[1:-1]
    between = float((logits[:, 1:].max(-1).values - logits[:, 0]).median())
    model = inclined(tagger, tagger.network.classifier.bias[0].item() + between)
    shares = logits_of(model, TEXT).softmax(-1)
    inner = range(1, len(shares) - 1)
    sure = [at for at in inner if int(shares[at].argmax()) != 0]
    assert 0 < len(sure) < len(shares) - 2, "some tokens have a label, and others have none"
    expected = max(sure, key=lambda at: float(shares[at].max()))
    found = attnflow.explain(TEXT, model)
    assert found.query == found.prediction.position == expected
    assert found.prediction.label == LABELS[int(shares[expected].argmax())]
    assert found.prediction.probability == pytest.approx(float(shares[expected].max()))
    assert ALL_OUTSIDE not in found.warnings
    sentence = find(found).sentence
    assert sentence.startswith(f"“{found.tokens[expected]}” is {found.prediction.label}; ")


def test_where_all_are_outside_the_closest_is_explained_and_said(tagger):
    model = inclined(tagger, 60.0)
    shares = logits_of(model, TEXT).softmax(-1)[1:-1]
    found = attnflow.explain(TEXT, model)
    assert found.prediction.label == "O"
    assert found.query == 1 + int(shares[:, 1:].max(-1).values.argmax())
    assert ALL_OUTSIDE in found.warnings
    assert ALL_OUTSIDE not in attnflow.explain(TEXT, model, query=2).warnings


@pytest.mark.parametrize("query", [2, "cabinet", -2])
def test_any_token_can_be_asked_about(tagger, query):
    found = attnflow.explain(TEXT, tagger, query=query, method="rollout")
    at = found.position(query)
    shares = logits_of(tagger, TEXT).softmax(-1)[at]
    assert found.prediction.position == found.query == at
    assert found.prediction.label == LABELS[int(shares.argmax())]
    whole = attnflow.explain(TEXT, tagger, method="rollout", query="all")
    np.testing.assert_allclose(found.values, whole.row(query=at), atol=1e-6)


def test_a_target_chooses_where_it_is_likeliest(tagger):
    shares = logits_of(tagger, TEXT).softmax(-1)
    for number, name in LABELS.items():
        expected = 1 + int(shares[1:-1, number].argmax())
        for options in ({}, {"method": "gradient-norm"}, {"method": "blank-out"}):
            found = attnflow.explain(TEXT, tagger, target=name, **options)
            assert found.query == expected
            assert found.options["target"] == name
    with pytest.raises(InputError, match=r"allowed: O, B-THING, I-THING"):
        attnflow.explain(TEXT, tagger, target="B-PERSON")


def test_gradient_edges_are_towards_the_label_at_the_token(tagger):
    found = tagger.run([tagger.tokenize(TEXT)], 3, CaptureSpec(gradients=True))[0]
    with Capture(CaptureSpec(gradients=True)) as capture:
        encoded = tagger.tokenizer(TEXT, return_tensors="pt")
        logits = tagger.network(**encoded).logits[0, 3].double()
    expected = capture.gradients(logits.log_softmax(-1).max())
    for ours, theirs in zip(found.activations.gradients, expected, strict=True):
        torch.testing.assert_close(ours, theirs[0], rtol=1e-4, atol=1e-6)


def test_blanking_asks_the_same_token_again(tagger):
    found = attnflow.explain(TEXT, tagger, method="blank-out", query=4)
    ids = tagger.tokenizer(TEXT, return_tensors="pt")
    label = int(logits_of(tagger, TEXT)[4].argmax())
    before = float(logits_of(tagger, TEXT).softmax(-1)[4, label])
    for at in (1, 4, 6):
        changed = {name: values.clone() for name, values in ids.items()}
        changed["input_ids"][0, at] = tagger.tokenizer.unk_token_id
        with torch.no_grad():
            after = tagger.network(**changed).logits[0, 4].double().softmax(-1)[label]
        assert found.values[at] == pytest.approx(abs(before - float(after)), abs=1e-6)
    with pytest.raises(InputError, match="can't be deleted"):
        attnflow.blank_out(TEXT, tagger, replacement="delete")


def test_a_list_is_what_each_is_alone(tagger):
    for method in ("rollout", "direct", "gradient-input"):
        together = attnflow.explain([SHORT, TEXT], tagger, method=method)
        for text, found in zip([SHORT, TEXT], together, strict=True):
            alone = attnflow.explain(text, tagger, method=method)
            assert found.query == alone.query
            np.testing.assert_allclose(found.values, alone.values, rtol=0, atol=1e-5)


def test_labels_without_an_outside():
    model = labelled(tf.BertForTokenClassification, labels={0: "NOUN", 1: "VERB"})
    shares = logits_of(attnflow.load_model((model, tiny.word_piece())), TEXT).softmax(-1)
    found = attnflow.explain(TEXT, (model, tiny.word_piece()))
    assert found.query == 1 + int(shares[1:-1].max(-1).values.argmax())
