"""What was explained: attributions, generations and traces say it with the same fields."""

from dataclasses import fields

import numpy as np
import pytest

import attnflow
import tiny
from attnflow import Attribution, FlowTrace, Generation
from attnflow.errors import InputError
from attnflow.records import Input, PatchGrid, Prediction
from attnflow.records.parts import Part

TEXT = "The story is slow."


def generation(**changes):
    about = {
        "tokens": ("what", "it", "is", "a", "key"),
        "text": "what it is",
        "word_ids": (0, 1, 2, 3, 4),
        "word_texts": ("what", "it", "is", "a", "key"),
        "segments": ("prompt",) * 3 + ("answer",) * 2,
    }
    return Generation(
        **{**about, **changes},
        answer=(3, 4),
        scores=np.tril(np.ones((2, 5)), 2),
        part_scores=np.ones((2, 2)),
        log_probabilities=-np.ones(2),
        predictions=(Prediction("a", 0.5), Prediction("key", 0.25)),
        parts=(Part("user", (0, 1, 2)), Part("answer", (3, 4), "answer")),
        method="rollout",
        layer=2,
        depth=2,
    )


def test_a_trace_says_of_its_input_what_the_scores_say():
    options = {"edges": "attention", "method": "flow"}
    scores = attnflow.explain(TEXT, **options)
    trace = attnflow.routes(TEXT, to="slow", **options)
    assert scores.word_ids
    assert scores.word_texts
    assert trace.about_input == scores.about_input


def test_a_logit_that_a_trace_starts_at_belongs_to_no_word():
    model = tiny.build("llama"), tiny.plain()
    text = "the keys to the cabinet"
    trace = attnflow.routes(text, model, to="keys", method="rollout", source="logit")
    assert trace.tokens[-1].startswith("logit of ")
    assert len(trace.word_ids) == len(trace.tokens)
    assert trace.word_ids[-1] is None
    assert trace.position("keys") == trace.key


def test_a_piece_of_an_answer_has_the_input_of_the_whole():
    found = generation()
    assert found.at(0).about_input == found.about_input
    assert [kind.__mro__.index(Input) > 0 for kind in (Attribution, Generation, FlowTrace)]


def test_a_saved_generation_is_read_with_a_grid_and_without_the_field_as_0_2_wrote_it():
    grid = PatchGrid(1, 2, (4, 8), (0.0, 0.0, 8.0, 4.0))
    assert Generation.from_dict(generation(grid=grid).to_dict()).grid == grid
    plain = generation().to_dict()
    assert {each.name for each in fields(Input)} <= plain.keys()
    del plain["grid"]
    assert Generation.from_dict(plain).about_input == generation().about_input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"word_ids": (0, 1, 2, 3, 9)}, r"word_ids\[4\]=9 must be an integer from 0 to 4"),
        ({"word_ids": (0, 1)}, "word_ids has 2 entries; there are 5 tokens"),
        ({"segments": ("prompt",)}, "segments has 1 entries; there are 5 tokens"),
        ({"segments": "prompt"}, "segments='prompt' must be a list of texts"),
        ({"word_texts": ("what", 2)}, r"word_texts\[1\]=2 must be a text"),
    ],
)
def test_a_saved_generation_whose_input_does_not_fit_is_refused_by_name(changes, message):
    with pytest.raises(InputError, match=message):
        Generation.from_dict({**generation().to_dict(), **changes})
