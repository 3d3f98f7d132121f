"""What corrects a causal decoder where nothing is named depends on the method alone."""

import numpy as np
import pytest

import attnflow
import tiny
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request

USUAL = {
    ("attention", "rollout"): "uniform",
    ("attention", "flow"): "uniform",
    ("attention", "direct"): "sink",
    ("gradient", "direct"): "sink",
    ("gradient", "direct-all"): "sink",
    ("gradient", "rollout"): None,
    ("alti", "rollout"): None,
}


@pytest.mark.parametrize(("edges", "method"), USUAL)
def test_the_usual_correction(decoder, edges, method):
    found = attnflow.explain(tiny.TEXT, decoder, edges=edges, method=method)
    assert found.options["correction"] == USUAL[edges, method]
    named = attnflow.explain(
        tiny.TEXT, decoder, edges=edges, method=method, correction=USUAL[edges, method]
    )
    np.testing.assert_array_equal(found.scores, named.scores)


def test_methods_of_one_session_are_as_alone(decoder):
    config = Request(method="direct", edges="gradient")
    session = open_session(tiny.TEXT, attnflow.load_model(decoder), config)
    for method in ("direct", "rollout", "direct", "additive"):
        alone = attnflow.explain(tiny.TEXT, decoder, edges="gradient", method=method)
        np.testing.assert_array_equal(session.attribution(method).scores, alone.scores)


def test_encoders_have_none(classifier):
    found = attnflow.explain(tiny.TEXT, classifier, edges="gradient", method="direct")
    assert found.options["correction"] is None


def test_the_first_token_is_left_out_and_that_is_said(decoder):
    from attnflow.views.wording.findings import find

    found = attnflow.explain(tiny.TEXT, decoder)
    assert (found.options["edges"], found.method) == ("relevance", "flow")
    assert found.values[0] == 0
    assert any("the first token, is left out" in note for note in find(found).notes)
