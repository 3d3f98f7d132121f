"""The way to a session: inputs that can't be used are values, or errors where nobody skips them."""

import numpy as np
import pytest

import attnflow
from attnflow.errors import InputError, ModelError
from attnflow.models.text.model import TextModel
from attnflow.pipeline.prepare import Prepared, Refused, open_sessions, prepare, try_sessions
from attnflow.pipeline.request import Request
from attnflow.pipeline.session import Session

TEXTS = ["the keys to the cabinet", "", "a cat is here"]
CONFIG = Request(edges="attention", method="rollout")


@pytest.fixture
def runs(monkeypatch):
    """The texts of each batch that runs, and what is done with them."""
    seen, usual = [], TextModel.run

    def run(self, batch, *args):
        seen.append([tokens.text for tokens in batch])
        return usual(self, batch, *args)

    monkeypatch.setattr(TextModel, "run", run)
    return seen


def test_an_input_that_cannot_be_used_is_the_reason_why(classifier, runs):
    found = list(prepare(CONFIG, attnflow.load_model(classifier), TEXTS))
    assert [type(each) for each in found] == [Prepared, Refused, Prepared]
    assert [each.given.place for each in found] == [0, 1, 2]
    assert isinstance(found[1].error, InputError)
    assert not runs


def test_what_is_refused_is_an_error_before_anything_runs(classifier, runs):
    prepared = prepare(CONFIG, attnflow.load_model(classifier), TEXTS)
    with pytest.raises(InputError, match=r"^input 2 of 3, '': "):
        next(open_sessions(prepared))
    assert not runs


def test_the_only_input_has_no_number(classifier):
    (refused,) = prepare(CONFIG, attnflow.load_model(classifier), [""])
    with pytest.raises(InputError) as raised:
        next(open_sessions([refused]))
    assert raised.value is refused.error
    assert raised.value.__cause__ is None  # whoever follows causes comes to an end


def test_all_that_can_run_does_where_refusals_are_values(classifier):
    model = attnflow.load_model(classifier)
    opened = dict(try_sessions(prepare(CONFIG, model, TEXTS)))
    assert [type(opened[place]) for place in range(3)] == [Session, Refused, Session]
    alone = attnflow.explain(TEXTS[2], classifier, edges="attention", method="rollout")
    np.testing.assert_allclose(opened[2].attribution().scores, alone.scores, atol=1e-6)


def test_where_one_of_a_batch_cannot_run_the_others_do(classifier, monkeypatch):
    """A batch fails as a whole: then each of it runs alone."""
    model, usual, batches = attnflow.load_model(classifier), TextModel.run, []

    def run(self, batch, *args):
        batches.append(len(batch))
        if any(tokens.text == "a cat" for tokens in batch):
            msg = "no cats"
            raise ModelError(msg)
        return usual(self, batch, *args)

    monkeypatch.setattr(TextModel, "run", run)
    texts = ["the keys", "a cat", "a key"]
    opened = dict(try_sessions(prepare(CONFIG, model, texts)))
    assert batches == [3, 1, 1, 1]
    assert [type(opened[place]) for place in range(3)] == [Session, Refused, Session]
    assert str(opened[1].error) == "no cats"
    with pytest.raises(ModelError, match=r"^one of the inputs 1, 2, 3: no cats$"):
        list(open_sessions(prepare(CONFIG, model, texts)))


def test_a_check_sees_tokens_before_anything_is_chosen(classifier, monkeypatch):
    """A server refuses texts that are too long before the model runs on any of them."""
    monkeypatch.setattr("attnflow.pipeline.prepare.choose", None)

    def check(place, tokens):
        msg = f"{place}: {len(tokens)} tokens"
        raise InputError(msg)

    found = prepare(CONFIG, attnflow.load_model(classifier), ["the keys", "a cat is"], check=check)
    assert [str(each.error) for each in found] == ["0: 4 tokens", "1: 5 tokens"]


def test_a_target_without_effect_is_refused_or_noted(classifier):
    model, config = attnflow.load_model(classifier), Request(edges="attention", target=1)
    (refused,) = prepare(config, model, ["the keys"])
    assert "target=1 does not apply to edges='attention'" in str(refused.error)
    (noted,) = prepare(config, model, ["the keys"], refuse_unused=False)
    assert "the same for every target" in noted.chosen.notes[0]


def test_names_of_files_are_refused_among_rows(classifier):
    model = attnflow.load_model(classifier)
    (refused,) = prepare(CONFIG, model, ["keys.png"], files=False)
    assert "is the name of an image" in str(refused.error)
