"""An answer rather than another one: the choice between the two, and what deletions do to both."""

import json

import numpy as np
import pytest
import torch

import attnflow
from attnflow.errors import InputError
from attnflow.models.text.answers import plain_ids
from attnflow.views.explorer.generation import generation_document
from attnflow.views.wording.answers import judge
from talkers import answer_log_probabilities

DOCUMENTS = {"first": "the old keys", "second": "a red cat is here", "question": "keys to"}
ANSWER, OTHER = " the cat is old", " the cat on a red mat"


def ids_of(adapter, found):
    ids = adapter.tokenizer.convert_tokens_to_ids(list(found.tokens))
    return ids[: found.answer[0]], ids[found.answer[0] :]


def test_both_answers_are_measured_as_wholes(llama):
    found = attnflow.explain_answer(DOCUMENTS, llama, answer=ANSWER, contrast=OTHER)
    prompt, answer = ids_of(llama, found)
    other = plain_ids(llama.tokenizer, OTHER)
    assert (found.contrast.shared, len(other)) == (2, 6)
    assert found.contrast.tokens == ("the", "cat", "on", "a", "red", "mat")
    known = answer_log_probabilities(llama, prompt, other)
    np.testing.assert_allclose(found.contrast.log_probabilities, known, atol=1e-5)
    assert found.contrast.probability == pytest.approx(np.exp(known.sum()), abs=1e-9)
    sums = [answer_log_probabilities(llama, prompt, each).sum() for each in (answer, other)]
    margin = sums[0] - sums[1]
    for row, part in zip(found.table(), found.named, strict=False):
        kept = [each for at, each in enumerate(prompt) if at not in part.positions]
        left = [answer_log_probabilities(llama, kept, each).sum() for each in (answer, other)]
        assert row.drop == pytest.approx(margin - (left[0] - left[1]), abs=1e-5)
    kept = prompt[found.named[2].positions[0] :]
    left = [answer_log_probabilities(llama, kept, each).sum() for each in (answer, other)]
    joint = found.without_sources.sum() - found.contrast.without_sources
    assert joint == pytest.approx(margin - (left[0] - left[1]), abs=1e-5)


def test_scores_are_of_the_choice_where_the_answers_part(llama):
    options = {"edges": "relevance", "method": "rollout", "correction": None}
    found = attnflow.explain_answer(DOCUMENTS, llama, answer=ANSWER, contrast=OTHER, **options)
    size = found.answer[2]
    text = f"{found.text} the cat"
    alone = attnflow.explain(text, llama, target="is", contrast="on", **options)
    assert len(alone.tokens) == size
    np.testing.assert_allclose(found.matrix()[0, :size], alone.values, atol=1e-5)
    assert not found.matrix()[0, size:].any()
    # The other way round the same speaks against it.
    turned = attnflow.explain_answer(DOCUMENTS, llama, answer=OTHER, contrast=ANSWER, **options)
    np.testing.assert_allclose(turned.matrix()[0, :size], -found.matrix()[0, :size], atol=1e-5)
    assert turned.table()[0].drop == pytest.approx(-found.table()[0].drop, abs=1e-5)


def test_encoder_decoders_have_contrasts(t5):
    found = attnflow.explain_answer(DOCUMENTS, t5, answer="the cat", contrast="the mat is")
    ids = t5.tokenizer.convert_tokens_to_ids(list(found.tokens))
    source = ids[: found.answer[0] - 1]
    other = [0, *plain_ids(t5.tokenizer, "the mat is")]
    known = answer_log_probabilities(t5, source, other)
    np.testing.assert_allclose(found.contrast.log_probabilities, known, atol=1e-5)
    assert found.contrast.shared == 1


def test_a_contrast_is_kept_said_and_shown(llama, tmp_path):
    found = attnflow.explain_answer(DOCUMENTS, llama, generate=3, contrast=OTHER)
    again = attnflow.Generation.load(found.save(tmp_path / "a.json"))
    assert again.contrast == found.contrast
    said = judge(found).text
    assert f"“{found.answer_text.strip()}” rather than “{OTHER.strip()}” rests" in said
    assert f"The model gives “{OTHER.strip()}” a probability of " in said
    other = json.loads(json.dumps(generation_document(found)))["generation"]["contrast"]
    assert other["drops"] == pytest.approx(found.contrast.drops)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contrast": ANSWER}, "is the answer itself"),
        ({"contrast": ANSWER + " cat"}, "only continues it"),
        ({"contrast": " the cat"}, "is how the answer begins"),
        ({"contrast": " "}, "must be a text"),
        ({"contrast": OTHER, "edges": "attention", "method": "flow"}, "leave one out"),
        ({"contrast": OTHER, "through": "prompt", "method": "rollout"}, "explains one choice"),
    ],
)
def test_contrasts_that_are_none_are_refused(options, message, llama):
    with pytest.raises(InputError, match=message), torch.no_grad():
        attnflow.explain_answer(DOCUMENTS, llama, answer=ANSWER, **options)
