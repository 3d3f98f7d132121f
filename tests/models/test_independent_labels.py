"""Labels that are independent of each other (a sigmoid for each): no other label is in the way.

The definition: what is said of a label depends on its own logit alone. So nothing may change where
the other labels' weights do.
"""

import copy

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import talkers
import tiny
from attnflow.errors import ModelError
from attnflow.evaluation.blanking_check import BlankingCheck, Removal, check_by_blanking
from attnflow.models.loading import load_model
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.records import Prediction
from attnflow.views.wording.findings import find
from attnflow.views.wording.summaries import summarize

TEXT = "the keys to the old cabinet are here"
LABELS = {0: "rude", 1: "loud", 2: "late"}


def labelled(network, problem="multi_label_classification"):
    network.config.problem_type = problem
    network.config.id2label = dict(LABELS)
    return network


def bert(problem="multi_label_classification"):
    torch.manual_seed(0)
    config = tf.BertConfig(**tiny.USUAL, num_labels=3)
    network = talkers.seeded(tf.BertForSequenceClassification(config)).double()
    return labelled(network, problem), tiny.word_piece()


def llama():
    torch.manual_seed(0)
    config = tf.LlamaConfig(**tiny.DECODER, num_labels=3)
    network = talkers.seeded(tf.LlamaForSequenceClassification(config)).double()
    return labelled(network), tiny.plain()


def with_others_changed(network):
    """The same model, but for the weights of all labels except the first."""
    other = copy.deepcopy(network)
    last = other.classifier if hasattr(other, "classifier") else other.score
    with torch.no_grad():
        last.weight[1:] = 3 * last.weight[1:].flip(0) - 1
        if last.bias is not None:
            last.bias[1:] += torch.tensor([2.0, -5.0])
    return other


def logits_of(network, tokenizer, text=TEXT):
    with torch.no_grad():
        return network(**tokenizer(text, return_tensors="pt")).logits[0]


WAYS = [
    {"method": "lrp"},
    {"method": "gradient-norm"},
    {"method": "gradient-input"},
    {"method": "integrated", "steps": 8},
    {"method": "blank-out"},
    {"edges": "gradient", "method": "direct-all"},
    {"edges": "gradient", "method": "rollout"},
]


@pytest.mark.parametrize("build", [bert, llama])
@pytest.mark.parametrize("options", WAYS, ids=lambda each: "-".join(map(str, each.values())))
def test_scores_of_a_label_do_not_depend_on_the_others(build, options):
    network, tokenizer = build()
    found = attnflow.explain(TEXT, (network, tokenizer), target="rude", **options)
    other = with_others_changed(network)
    assert float((logits_of(network, tokenizer) - logits_of(other, tokenizer)).abs().max()) > 1
    same = attnflow.explain(TEXT, (other, tokenizer), target="rude", **options)
    np.testing.assert_allclose(found.scores, same.scores, rtol=1e-9, atol=1e-14)
    assert np.abs(found.scores).max() > 1e-6


def test_relevance_adds_up_to_the_labels_own_logit():
    network, tokenizer = bert()
    for index, name in LABELS.items():
        found = attnflow.explain(TEXT, (network, tokenizer), target=name, method="lrp")
        logit = float(logits_of(network, tokenizer)[index])
        assert found.statistics["value"] == pytest.approx(logit, abs=1e-9)
        total = float(found.values.sum()) + found.statistics["biases"]
        assert total == pytest.approx(logit, abs=1e-6)


def test_relevance_of_labels_that_exclude_each_other_is_as_before():
    network, tokenizer = bert(problem="single_label_classification")
    found = attnflow.explain(TEXT, (network, tokenizer), target="rude", method="lrp")
    logits = logits_of(network, tokenizer)
    assert found.statistics["value"] == pytest.approx(float(logits[0] - logits.mean()), abs=1e-9)


def test_a_contrast_is_the_difference_of_log_odds():
    network, tokenizer = bert()
    logits = logits_of(network, tokenizer)
    options = {"target": "rude", "contrast": "late", "method": "lrp"}
    found = attnflow.explain(TEXT, (network, tokenizer), **options)
    assert found.statistics["value"] == pytest.approx(float(logits[0] - logits[2]), abs=1e-9)


def test_a_logits_edges_are_those_of_the_label_alone():
    network, tokenizer = llama()
    options = {"source": "logit", "method": "rollout", "target": "rude"}
    found = attnflow.explain(TEXT, (network, tokenizer), **options)
    other = attnflow.explain(TEXT, (with_others_changed(network), tokenizer), **options)
    np.testing.assert_allclose(found.scores, other.scores, rtol=1e-9, atol=1e-14)


def test_batches_and_lists_are_what_each_is_alone():
    network, tokenizer = bert()
    texts, targets = [TEXT, "a cat", "the old red mat ."], ["rude", "late", "loud"]
    together = attnflow.explain(texts, (network, tokenizer), target=targets, method="lrp")
    for text, target, found in zip(texts, targets, together, strict=True):
        alone = attnflow.explain(text, (network, tokenizer), target=target, method="lrp")
        np.testing.assert_allclose(found.values, alone.values, rtol=1e-9, atol=1e-12)


def test_one_label_alone_is_no_regression():
    torch.manual_seed(0)
    config = tf.BertConfig(**tiny.USUAL, num_labels=1)
    network = talkers.seeded(tf.BertForSequenceClassification(config)).double()
    network.config.problem_type = "multi_label_classification"
    network.config.id2label = {0: "rude"}
    model = (network, tiny.word_piece())
    logit = float(logits_of(*model)[0])
    found = attnflow.explain(TEXT, model, method="lrp")
    assert found.prediction.label == "rude"
    assert found.prediction.probability == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-6)
    assert found.statistics["value"] == pytest.approx(logit, abs=1e-9)
    attnflow.explain(TEXT, model, edges="gradient", target="rude")


def test_several_numbers_are_no_probabilities():
    network, tokenizer = bert(problem="regression")
    model = (network, tokenizer)
    assert attnflow.explain(TEXT, model, edges="attention", method="rollout").prediction is None
    for options in ({"method": "blank-out"}, {"method": "lrp"}, {"edges": "gradient"}):
        with pytest.raises(ModelError):
            attnflow.explain(TEXT, model, target="rude", **options)


def moved(network, tokenizer, logits):
    """The model with biases that give these logits for the text."""
    with torch.no_grad():
        network.classifier.bias += torch.tensor(logits) - logits_of(network, tokenizer)
    return load_model((network, tokenizer))


def summary(model, **options):
    config = Request(edges="gradient", method="direct-all", **options)
    session = open_session(TEXT, model, config)
    return summarize(session, [session.attribution()], blank=True, tokens=100)


def test_an_input_that_has_no_label_is_not_said_to_have_one():
    model = moved(*bert(), [-2.0, -3.0, -6.0])
    said = summary(model).main.sentence
    assert said.startswith("none of the labels; ")
    assert "for “rude”" in said
    assert "because of" not in said
    had = summary(moved(*bert(), [2.0, 1.0, -6.0])).main.sentence
    assert had.startswith("rude")
    assert "none of" not in had
    other = summary(moved(*bert(), [2.0, 1.0, -6.0]), target="loud").main.sentence
    assert other.startswith("rude; ")
    assert "for “loud”" in other


def test_two_labels_are_not_said_to_exclude_each_other():
    both = moved(*bert(), [3.0, 2.0, -6.0])
    said = summary(both, contrast="loud").main.sentence
    assert said.startswith("rude; ")
    assert "for “rude” rather than “loud”" in said


@pytest.mark.parametrize("logits", [[0.1, -0.2, 0.05], [-0.1, -0.2, -0.3], [0.2, 0.25, -4.0]])
def test_without_a_word_a_label_is_lost_or_won_at_one_half(logits):
    """The other labels have nothing to do with it, however likely they become."""
    model = moved(*bert(), logits)
    ids = model.tokenizer(TEXT)["input_ids"]
    for target, name in LABELS.items():
        config = Request(method="blank-out", target=name)
        session = open_session(TEXT, model, config)
        check = check_by_blanking(session, 100)
        for at, removal in enumerate(check.removals):
            if at in (0, len(ids) - 1):
                continue
            blanked = [1 if place == at else each for place, each in enumerate(ids)]
            with torch.no_grad():
                share = model.network(torch.tensor([blanked])).logits[0, target].sigmoid()
            assert removal.label == (name if float(share) >= 0.5 else f"not {name}")
            assert removal.change == pytest.approx(float(share) - check.probability, abs=1e-9)
        own = float(torch.tensor(logits[target]).sigmoid())
        assert check.label == (name if own >= 0.5 else f"not {name}")
        turned = [each.label for each in check.removals if each and each.label != check.label]
        evidence = find(session.attribution(), check=check).evidence
        if turned and evidence and "becomes" in evidence:
            assert f"becomes “{turned[0]}”" in evidence


def test_words_for_a_contrast_of_labels_that_an_input_may_both_have():
    tokens = ("the", "keys", "here")
    given = {
        "tokens": tokens,
        "scores": np.array([[[0.1, 0.9, 0.1]]]),
        "layers": (3,),
        "queries": (0,),
        "layer": 3,
        "query": 0,
        "method": "direct-all",
        "options": {"contrast": "loud"},
        "prediction": Prediction("rude", 0.9),
    }
    said = {}
    for independent in (False, True):
        model = {"independent_labels": True} if independent else {}
        one = attnflow.Attribution(**given, statistics={"model": model})
        removals = (Removal(0.0, "rude"), Removal(-0.6, "loud"), Removal(0.0, "rude"))
        check = BlankingCheck(one, "rude", 0.9, "rude", removals, "loud")
        said[independent] = find(one, check=check).sentence
    assert said[False] == "rude rather than “loud”, because of “keys”."
    assert said[True] == "rude; what speaks for “rude” rather than “loud” is “keys”."
