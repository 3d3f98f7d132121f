"""Why one answer rather than another: what is claimed is what blanking measures."""

import math

import numpy as np
import pytest
import torch

import attnflow
import tiny
from attnflow.evaluation.blanking_check import check_by_blanking
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.views.wording.summaries import summarize

TEXT = "The story is slow, but the unforgettable music is wonderful."


def asked(text, model, method="gradient-norm", **options):
    return open_session(text, model, Request(method=method, **options))


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("text", [TEXT, "No one could call this boring."])
def test_of_two_labels_the_choice_is_the_probability(text, words):
    """Where there are but two answers, one rather than the other is the one itself."""
    model = attnflow.load_model("sentiment")
    plain = check_by_blanking(asked(text, model, words=words))
    other = {"positive": "negative", "negative": "positive"}[plain.label]
    found = check_by_blanking(asked(text, model, contrast=other, words=words))
    assert (found.target, found.contrast, found.label) == (plain.target, other, plain.label)
    assert found.probability == pytest.approx(plain.probability, abs=1e-6)
    changes = [[each.change for each in check.removals] for check in (found, plain)]
    np.testing.assert_allclose(*changes, atol=1e-6)
    assert [r.label for r in found.removals] == [r.label for r in plain.removals]


def test_of_many_tokens_it_is_the_difference_of_two_logits():
    network, tokenizer = tiny.build("llama"), tiny.plain()
    model = attnflow.load_model((network, tokenizer))
    text = "the keys to the cabinet"
    found = check_by_blanking(asked(text, model, target="are", contrast="is"))
    ids = tokenizer(text)["input_ids"]
    are, other = tokenizer.convert_tokens_to_ids(["are", "is"])

    def share(numbers):
        with torch.no_grad():
            logits = network(torch.tensor([numbers])).logits[0, -1].double()
        return 1 / (1 + math.exp(logits[other] - logits[are]))

    before = share(ids)
    unknown = tokenizer.unk_token_id
    without = [share([unknown if o == at else i for o, i in enumerate(ids)]) for at in range(5)]
    assert found.probability == pytest.approx(before, abs=1e-6)
    changes = [each.change for each in found.removals]
    np.testing.assert_allclose(changes, np.array(without) - before, atol=1e-6)
    assert [each.label for each in found.removals] == [
        "are" if each > 0.5 else "is" for each in without
    ]
    assert min(without) < 0.5 < max(without)  # both happen here


def test_what_the_sentence_says():
    text = "The story is slow, but the music is wonderful."
    model = attnflow.load_model("sentiment")

    def said(**options):
        session = asked(text, model, "lrp", **options)
        found = summarize(session, [session.attribution()], blank=True).main
        return found.sentence.partition(": ")[2], found.evidence

    sentence, evidence = said(contrast="negative")
    assert sentence == "positive rather than “negative”, because of “wonderful”."
    assert evidence.startswith(
        "Without “wonderful”: positive against negative 99.9 % → 46.0 % (−53.9"
    )
    assert evidence.endswith(", and “negative” becomes the more likely one.")
    sentence, evidence = said(target="negative", contrast="positive")
    assert sentence.startswith("positive; for “negative” rather than “positive”, lrp points to “")
    assert "because" not in sentence
    assert "negative against positive 0.1 % →" in evidence


def test_without_the_check_nothing_is_claimed():
    session = asked(TEXT, attnflow.load_model("sentiment"), "lrp", contrast="negative")
    found = summarize(session, [session.attribution()], blank=False).main
    assert "; for “positive” rather than “negative”, lrp points to “" in found.sentence
    assert "because" not in found.sentence
    assert not found.evidence
