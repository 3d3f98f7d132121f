"""Special tokens and the position explained set no scale, in any view."""

import numpy as np
import pytest

from attnflow.records import Attribution
from attnflow.views.colours import ordinary_positions
from attnflow.views.figures.maps import positions_off_scale


def attribution(word_ids, query=0, segments=None):
    size = len(word_ids) if word_ids is not None else len(segments)
    return Attribution(
        tuple("abcdefgh"[:size]),
        np.ones((1, 1, size)),
        (1,),
        (query,),
        1,
        query,
        "flow",
        word_ids=word_ids,
        word_texts=("x", "y", "z"),
        segments=segments,
    )


@pytest.mark.parametrize(
    ("word_ids", "query", "expected"),
    [
        ((None, 0, 1, 2, None), 0, [1, 2, 3]),
        ((None, 0, 1, 2, None), 2, [1, 3]),
        ((None, 0, 1, None), 1, [0, 1, 2, 3]),  # one word is left: its colours would say nothing
        ((None, None), 0, [0, 1]),
    ],
)
def test_which_tokens_set_the_scale(word_ids, query, expected):
    of = attribution(word_ids, query)
    assert ordinary_positions(of) == expected
    assert positions_off_scale(of) == [at for at in range(len(word_ids)) if at not in expected]


def test_tokens_that_a_vision_model_adds_are_special():
    of = attribution(None, 0, ("class", "register", "patch", "patch", "patch"))
    assert of.ordinary == ordinary_positions(of) == [2, 3, 4]


def test_source_and_target_are_both_ordinary():
    of = attribution((0, 1, None, 2), 3, ("source", "source", "source", "target"))
    assert ordinary_positions(of) == [0, 1]
    assert of.ordinary == [0, 1, 3]
