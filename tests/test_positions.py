"""Which position is explained: where the model decides, or the one that is asked for."""

import numpy as np
import pytest

import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.records.selection import find_position


def test_the_default_position_is_where_the_model_decides(encoder, decoder, masked, classifier):
    assert attnflow.explain("the cat", encoder, method="raw").query == 0
    assert attnflow.explain("the cat", classifier, method="raw").query == 0
    assert attnflow.explain("the cat is", decoder, method="raw").query == 2
    assert attnflow.explain("the [MASK] is", masked, method="raw").query == 2
    assert attnflow.explain("the cat is", masked, method="raw").query == 0


@pytest.mark.parametrize(
    ("query", "place"),
    [(3, 3), (-1, 8), ("cabinet", 5), ("Cabinet", 5), ("the:4", 4), ("1:The", 1), ("cls", 0)],
)
def test_a_position_is_an_index_or_a_token(query, place, encoder):
    found = attnflow.explain(tiny.TEXT, encoder, query=query, method="raw")
    assert found.query == place
    assert attnflow.explain(tiny.TEXT, encoder, query=query, method="flow").queries == (place,)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("dog", r"'dog' is not one of the tokens.*5:cabinet"),
        ("the", r"'the' occurs at 1, 4; give the position, or 'the:1': 0:\[CLS\]"),
        ("the:2", r"'the:2' is not one of the tokens"),
        (9, r"query=9 does not exist; there are 9 tokens"),
        (-10, r"query=-10 does not exist"),
    ],
)
def test_a_wrong_position_is_an_error_that_lists_the_tokens(query, message, encoder):
    with pytest.raises(InputError, match=message):
        attnflow.explain(tiny.TEXT, encoder, query=query)


def test_a_long_text_is_listed_in_part():
    tokens = ["[CLS]", *["the"] * 500, "end"]
    with pytest.raises(InputError, match=r"occurs at 1, 2.* 62, …, 500; .* 61:the … 501:end$"):
        find_position("the", tokens)


def test_a_word_in_pieces_is_an_error_that_lists_them(encoder):
    message = r"query='Playing' is split into 2:play 3:##ing; give one of these"
    with pytest.raises(InputError, match=message):
        attnflow.explain("the Playing cat", encoder, query="Playing")


def test_a_special_token_needs_no_brackets():
    assert find_position("CLS", ["[CLS]", "a"]) == 0
    assert find_position("endoftext", ["a", "<|endoftext|>"]) == 1
    assert find_position("s", ["<s>", "a"]) == 0
    assert find_position("CLS", ["[CLS]", "CLS"]) == 1
    with pytest.raises(InputError, match="'SEP' occurs at 1, 2"):
        find_position("SEP", ["a", "[SEP]", "[SEP]"])


def test_a_token_that_looks_like_a_label_is_itself():
    assert find_position("the:0", ["the", "the:0"]) == 1
    assert find_position("4:4", ["a", "4", "4", "b", "4"]) == 4


def test_two_masks_are_ambiguous(masked):
    with pytest.raises(InputError, match=r"occurs at 1, 2"):
        attnflow.explain("[MASK] [MASK]", masked)


def test_all_positions_at_once_are_the_single_ones(encoder):
    everything = attnflow.explain("the keys are here", encoder, query="all")
    assert everything.queries == tuple(range(6))
    for query in (0, 2, 5):
        one = attnflow.explain("the keys are here", encoder, query=query)
        np.testing.assert_allclose(everything.row(query=query), one.values, atol=1e-12)
