"""Extractive question answering: the ends of a span, asked about together or alone."""

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import InputError, ModelError
from attnflow.models.adapter import Objective
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.spec import CaptureSpec
from attnflow.views.wording.findings import find

QUESTION, PASSAGE = "the red cat is on", "the old cat is on the mat , the keys are here"
PAIR = (QUESTION, PASSAGE)


@pytest.fixture(scope="module")
def answerer():
    model = tiny.build("bert", head=tf.BertForQuestionAnswering)
    return attnflow.load_model((model, tiny.pair_piece()))


def shares(model, pair):
    with torch.no_grad():
        output = model.network(**model.tokenizer(*pair, return_tensors="pt"))
    return [each[0].double().softmax(-1) for each in (output.start_logits, output.end_logits)]


def best(model, pair):
    """All spans of the passage, written out."""
    start, end = shares(model, pair)
    sides = model.tokenizer(*pair).sequence_ids()
    spans = [
        (float(start[s] * end[e]), s, e)
        for s in range(len(sides))
        for e in range(s, len(sides))
        if sides[s] == sides[e] == 1
    ]
    return max(spans)


def test_the_answer_is_the_likeliest_span_of_the_passage(answerer):
    for pair in (PAIR, (PASSAGE, "a key"), ("a", PASSAGE)):
        probability, start, end = best(answerer, pair)
        found = attnflow.explain(pair, answerer)
        assert found.prediction.probability == pytest.approx(probability, rel=1e-5)
        words = answerer.tokenizer.convert_ids_to_tokens(
            answerer.tokenizer(*pair)["input_ids"][start : end + 1]
        )
        said = " ".join(words).replace(" ##", "").replace(" ,", " ,")
        assert found.prediction.label == said
        assert set(found.pooled or (found.query,)) == {start, end}
        assert find(found).sentence.startswith(f"The answer: {found.prediction.label}")


def test_both_ends_are_explained_by_their_mean(answerer):
    _, start, end = best(answerer, PAIR)
    assert start != end
    found = attnflow.explain(PAIR, answerer, method="rollout")
    whole = attnflow.explain(PAIR, answerer, method="rollout", query="all")
    expected = (whole.row(query=start) + whole.row(query=end)) / 2
    np.testing.assert_allclose(found.values, expected, atol=1e-9)


@pytest.mark.parametrize("edges", ["attention", "alti"])
def test_one_end_alone_can_be_asked_about(answerer, edges):
    _, start, end = best(answerer, PAIR)
    for target, at in (("start", start), ("end", end)):
        found = attnflow.explain(PAIR, answerer, target=target, edges=edges, method="rollout")
        alone = attnflow.explain(PAIR, answerer, query=at, edges=edges, method="rollout")
        assert found.query == at
        assert not found.pooled
        assert found.options["target"] == target
        np.testing.assert_allclose(found.values, alone.values, atol=1e-9)
    both = attnflow.explain(PAIR, answerer, target="span", edges=edges, method="rollout")
    default = attnflow.explain(PAIR, answerer, edges=edges, method="rollout")
    np.testing.assert_array_equal(both.values, default.values)


@pytest.mark.parametrize("target", [None, "start", "end", "span"])
def test_gradient_edges_are_towards_the_ends(answerer, target):
    _, start, end = best(answerer, PAIR)
    objective = Objective(target)
    spec = CaptureSpec(gradients=True)
    (found,) = answerer.run([answerer.tokenize(PAIR)], None, spec, [objective])
    with Capture(spec) as capture:
        output = answerer.network(**answerer.tokenizer(*PAIR, return_tensors="pt"))
    first = output.start_logits[0].double().log_softmax(-1)[start]
    last = output.end_logits[0].double().log_softmax(-1)[end]
    value = {"start": first, "end": last}.get(target, first + last)
    expected = capture.gradients(value)
    for ours, theirs in zip(found.activations.gradients, expected, strict=True):
        torch.testing.assert_close(ours, theirs[0], rtol=1e-4, atol=1e-6)


def test_a_list_is_what_each_is_alone(answerer):
    pairs = [PAIR, ("a", "the cat is here"), ("the mat", PASSAGE)]
    for options in ({}, {"edges": "gradient"}, {"target": ["start", "end", "span"]}):
        together = attnflow.explain(pairs, answerer, **options)
        for number, (pair, found) in enumerate(zip(pairs, together, strict=True)):
            own = {
                name: value[number] if isinstance(value, list) else value
                for name, value in options.items()
            }
            alone = attnflow.explain(pair, answerer, **own)
            assert found.prediction.label == alone.prediction.label
            assert found.prediction.probability == pytest.approx(alone.prediction.probability)
            np.testing.assert_allclose(found.values, alone.values, rtol=0, atol=1e-5)


def test_it_is_said_where_no_answer_is_likelier(answerer):
    start, end = shares(answerer, PAIR)
    probability, *_ = best(answerer, PAIR)
    warned = any("no answer" in each for each in attnflow.explain(PAIR, answerer).warnings)
    assert warned == bool(float(start[0] * end[0]) > probability)


@pytest.mark.parametrize(
    ("item", "options", "message"),
    [
        (PASSAGE, {}, "(question, passage)"),
        (PAIR, {"target": "middle"}, "allowed: 'start', 'end', 'span'"),
        (PAIR, {"target": "start", "contrast": "end"}, "has no other label"),
        (PAIR, {"contrast": "end"}, "has no other label"),
    ],
)
def test_what_makes_no_sense_is_refused(answerer, item, options, message):
    with pytest.raises(InputError) as caught:
        attnflow.explain(item, answerer, **options)
    assert message in str(caught.value)


def test_measures_and_routes_are_refused_by_name(answerer):
    with pytest.raises(ModelError, match="no probability to measure importance by"):
        attnflow.explain(PAIR, answerer, method="blank-out")
    with pytest.raises(InputError, match="routes start at one"):
        attnflow.routes(PAIR, answerer, to=3, edges="attention")
    assert attnflow.routes(PAIR, answerer, to=3, target="start", edges="attention").value > 0


def test_the_explorer_shows_answers_without_a_token(answerer):
    view = attnflow.explore(PAIR, answerer).document["views"][0]
    assert view["said"][0]["label"] == attnflow.explain(PAIR, answerer).prediction.label
