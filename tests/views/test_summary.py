"""What several methods come to together."""

import attnflow
import tiny
from attnflow.pipeline.config import ExplainConfig
from attnflow.pipeline.sessions import open_session
from attnflow.views.summary import summarize


def test_blankings_own_answer_is_said_where_it_is_another(classifier):
    model = attnflow.load_model(classifier)
    blanked = attnflow.explain(tiny.TEXT, model, method="blank-out").top(1)[0][0]
    said = set()
    for method in ("raw", "rollout", "flow", "widest"):
        session = open_session(tiny.TEXT, model, ExplainConfig(edges="attention", method=method))
        found = session.attribution()
        agreement = summarize(session, [found], blank=True).agreement
        same = found.top(1)[0][0] == blanked
        assert ("the answer changes most" in agreement) is not same
        assert same or f"Without “{blanked}" in agreement
        said.add(same)
    assert said
