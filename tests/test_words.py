"""Explanations in words: what is added up, what is solved anew, who may ask."""

import numpy as np
import pytest

import attnflow
import tiny
from attnflow.errors import InputError

TEXT = "the old cats playing on red mats"
WORDS = ("[CLS]", "the", "old", "cats", "playing", "on", "red", "mats", "[SEP]")


@pytest.fixture(scope="module")
def encoder():
    return attnflow.load_model((tiny.build("bert"), tiny.word_piece()))


@pytest.fixture(scope="module")
def decoder():
    return attnflow.load_model((tiny.build("gpt2"), tiny.word_piece()))


@pytest.mark.parametrize("method", ["raw", "rollout"])
def test_attention_to_a_word_is_the_sum_over_its_tokens(method, encoder):
    found = attnflow.explain(TEXT, encoder, method=method, words=True, layers="all")
    assert found.tokens == WORDS
    assert found.options["words"]
    expected = attnflow.explain(TEXT, encoder, method=method, layers="all").words()
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12)
    assert found.word_texts == expected.word_texts


def test_flow_to_a_word_lies_between_its_best_token_and_their_sum(encoder):
    tokens = attnflow.explain(TEXT, encoder, method="flow", layers="all")
    found = attnflow.explain(TEXT, encoder, method="flow", words=True, layers="all")
    assert found.tokens == WORDS
    home = [0 if word is None else word + 1 for word in tokens.word_ids[:-1]]
    for layer in tokens.layers:
        row = tokens.row(layer)
        for number, value in enumerate(found.row(layer)[:-1]):
            pieces = [row[token] for token, word in enumerate(home) if word == number]
            assert max(pieces) - 1e-9 <= value <= min(sum(pieces), 1) + 1e-9
    summed = tokens.words().values
    assert summed[3] > found.values[3] + 1e-3  # "cats" and its two tokens share their way


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_a_words_ratio_to_chance_is_that_of_the_whole_word(method, decoder):
    plain = {"method": method, "words": True, "correction": None}
    found = attnflow.explain(TEXT, decoder, method=method, words=True)
    assert found.options["correction"] == "uniform"
    attention = attnflow.explain(TEXT, decoder, **plain)
    assert found.tokens == attention.tokens == WORDS
    size = len(attnflow.explain(TEXT, decoder, method="raw").tokens)
    even = np.tril(np.ones((3, size, size))) / np.arange(1, size + 1)[:, None]
    if method != "flow":  # whose chance is solved as well
        chance = getattr(attnflow, method)(even)[-1, -1]
        groups = np.split(chance, [1, 2, 3, 5, 7, 8, 9, 11])
        expected = attention.values / [group.sum() for group in groups]
        np.testing.assert_allclose(found.values, expected, rtol=1e-5)
    assert (found.values[1:] > 0).all()


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_a_word_is_explained_with_all_its_tokens(method, encoder):
    everywhere = attnflow.explain(TEXT, encoder, method=method, words=True, query="all")
    at = WORDS.index("cats")
    for piece in ("cat", 4):
        found = attnflow.explain(TEXT, encoder, method=method, words=True, query=piece)
        assert found.query == at
        np.testing.assert_allclose(found.values, everywhere.row(query=at), atol=1e-12)


def test_normalized_words_sum_to_one(encoder):
    found = attnflow.explain(TEXT, encoder, words=True, normalize=True)
    assert found.values.sum() == pytest.approx(1)


def test_single_heads_and_every_position(encoder):
    found = attnflow.explain(TEXT, encoder, words=True, heads="each", query="all", layers="all")
    assert found.scores.shape == (3, 4, len(WORDS), len(WORDS))


def test_images_have_no_words():
    from transformers import ViTImageProcessor

    picture = np.zeros((32, 32, 3), np.uint8)
    model = (tiny.build("vit"), ViTImageProcessor(size={"height": 32, "width": 32}))
    with pytest.raises(InputError, match="has no words"):
        attnflow.explain(picture, model, words=True)
