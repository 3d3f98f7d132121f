"""Routes through a model: the flow that `explain` scores, as paths."""

import pytest

import attnflow
import tiny
from attnflow.errors import InputError


@pytest.fixture(scope="module")
def encoder():
    return attnflow.load_model((tiny.build("bert"), tiny.word_piece()))


@pytest.fixture(scope="module")
def decoder():
    return attnflow.load_model((tiny.build("gpt2"), tiny.plain()))


@pytest.mark.parametrize(("layer", "query"), [(-1, None), (2, "cabinet")])
def test_routes_carry_what_explain_scores(encoder, layer, query):
    chosen = {"method": "flow", "layer": layer, "query": query}
    found = attnflow.routes(tiny.TEXT, encoder, to="keys", **chosen)
    scored = attnflow.explain(tiny.TEXT, encoder, **chosen)
    at = scored.tokens.index("keys")
    assert found.tokens == scored.tokens
    assert found.value == pytest.approx(scored.values[at], abs=1e-9)
    assert sum(route.amount for route in found.routes) == pytest.approx(found.value)
    assert not found.causal
    for route in found.routes:
        assert (route.positions[0], route.positions[-1]) == (scored.query, at)


@pytest.mark.parametrize(
    ("correction", "scored"),
    [(None, None), ("uniform", None), ("sink", "sink")],
)
def test_corrections_that_change_edges_change_routes(decoder, correction, scored):
    found = attnflow.routes(tiny.TEXT, decoder, to=2, method="flow", correction=correction)
    expected = attnflow.explain(tiny.TEXT, decoder, method="flow", correction=scored)
    assert found.value == pytest.approx(expected.values[2], abs=1e-9)
    assert found.causal


def test_an_encoder_decoder_has_routes_from_its_target():
    tokenizer = tiny.word_piece()
    tokenizer.eos_token = "[SEP]"
    model = attnflow.load_model((tiny.build("t5"), tokenizer))
    found = attnflow.routes(tiny.TEXT, model, to=1, answer="the cat is")
    expected = attnflow.explain(tiny.TEXT, model, answer="the cat is")
    assert found.tokens == expected.tokens
    assert found.score == pytest.approx(expected.values[1], abs=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "dog"}, "to='dog' is not one of the tokens"),
        ({"to": 2, "heads": "each"}, "heads='each' does not apply to routes"),
        ({"to": 2, "correction": "sink"}, "is for causal decoders"),
        ({"to": 2, "layer": 9}, "layer=9 does not exist"),
    ],
)
def test_bad_options_are_refused(encoder, options, message):
    with pytest.raises(InputError, match=message):
        attnflow.routes(tiny.TEXT, encoder, **options)
