"""One run without each token serves the agreement line and the page alike."""

import numpy as np
import pytest

import attnflow
import tiny
from attnflow.evaluation.blanking_check import check_by_blanking
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request


def opened(model, **options):
    config = Request(edges="attention", method="rollout", **options)
    return open_session(tiny.TEXT, attnflow.load_model(model), config)


@pytest.mark.parametrize("kind", ["classifier", "decoder"])
def test_the_check_is_blank_out_itself(kind, request):
    session = opened(request.getfixturevalue(kind))
    found = check_by_blanking(session)
    alone = attnflow.explain(tiny.TEXT, session.adapter, method="blank-out")
    np.testing.assert_allclose(found.scores.values, alone.values, atol=1e-7)
    assert found.scores.values.max() > 0


@pytest.mark.parametrize("kind", ["classifier", "decoder"])
def test_predictions_without_a_token_are_those_of_a_run_of_their_own(kind, request):
    session, fresh = (opened(request.getfixturevalue(kind)) for _ in range(2))
    session.blanking.without(tuple((at,) for at in range(session.size)))
    sets = [[at] for at in session.blanking.positions]
    for found, expected in zip(
        session.blanking.predict(sets), fresh.blanking.predict(sets), strict=True
    ):
        assert found.label == expected.label
        assert found.position == expected.position
        known = dict(expected.alternatives)
        for label, probability in found.alternatives:
            assert probability == pytest.approx(known[label], abs=1e-6)


def test_a_pair_of_tokens_is_run_anew(classifier):
    session, fresh = opened(classifier), opened(classifier)
    session.blanking.without(tuple((at,) for at in range(session.size)))
    pair = [list(session.blanking.positions[:2])]
    assert list(session.blanking.predict(pair)) == list(fresh.blanking.predict(pair))
