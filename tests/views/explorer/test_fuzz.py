"""The server keeps to its own description, whatever is sent to it."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import talkers
from attnflow.models.loading import load_model
from attnflow.views.explorer.server.access import LOOPBACK, Access
from attnflow.views.explorer.server.app import make_app
from attnflow.views.explorer.server.limits import Limits

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
OPERATIONS = [
    *[("GET", path) for path in ("/health", "/api/models")],
    *[("POST", f"/api/{name}") for name in ("explain", "scores", "heads", "trace", "blank")],
    *[("POST", f"/api/{name}") for name in ("answer", "knockout")],
]


@pytest.fixture(scope="module")
def description(classifier):
    # Schemathesis calls an application in this process by that name.
    access = Access((*LOOPBACK, "testserver"))
    models = {"tiny/verbs": classifier, "tiny/talker": load_model(talkers.llama())}
    app = make_app(models, Limits(seconds=30), access)
    return schemathesis.openapi.from_asgi("/api/openapi.json", app)


def test_every_operation_is_tried(description):
    found = {
        (each.ok().method.upper(), each.ok().path) for each in description.get_all_operations()
    }
    assert found == set(OPERATIONS)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_answers_are_as_described(description, method, path, mode):
    operation = description[path][method]
    if mode is schemathesis.GenerationMode.NEGATIVE and method == "GET":
        return  # nothing can be wrong with a question that has no parts

    @settings(
        max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        case.call_and_validate(checks=CHECKS)

    ask()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(text=st.text(max_size=40), query=st.integers(0, 12), key=st.integers(0, 12))
def test_any_text_is_answered(description, text, query, key):
    """Texts of all scripts, and positions that exist or do not."""
    case = description["/api/trace"]["POST"].Case(
        body={"text": text, "method": "flow", "layer": 2, "query": query, "key": key},
        media_type="application/json",
    )
    answer = case.call_and_validate(checks=CHECKS)
    assert answer.status_code in (200, 422)


SPANS = st.none() | st.dictionaries(
    st.text(max_size=8), st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=3
)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    text=st.text(max_size=30) | st.just("the keys are here"),
    answer=st.none() | st.just("a cat") | st.text(max_size=12),
    parts=SPANS,
)
def test_any_prompt_is_answered(description, text, answer, parts):
    """Prompts and answers of all scripts, and parts that exist or do not."""
    body = {"model": "tiny/talker", "text": text, "answer": answer, "generate": 2, "parts": parts}
    case = description["/api/answer"]["POST"].Case(body=body, media_type="application/json")
    assert case.call_and_validate(checks=CHECKS).status_code in (200, 422)
