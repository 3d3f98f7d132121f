"""Pairs of texts that a model reads as one input."""

import numpy as np
import pytest
import torch
import transformers as tf
from rich.console import Console

import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.models.loading import load_model
from attnflow.views.terminal.pictures import strips

PAIR = ("the keys are here", "the cat plays")
OTHER = ("a key", "the old mat is red , of the cat")


@pytest.fixture(scope="module")
def model():
    built = tiny.build("bert", head=tf.BertForSequenceClassification)
    return load_model((built, tiny.pair_piece()))


def test_a_pair_is_what_the_tokenizer_makes_of_it(model):
    tokens = model.tokenize(PAIR)
    encoded = model.tokenizer(*PAIR)
    assert tokens.inputs["input_ids"] == encoded["input_ids"]
    assert tokens.inputs["token_type_ids"] == encoded["token_type_ids"]
    assert set(tokens.inputs["token_type_ids"]) == {0, 1}
    sides = {None: "special", 0: "first", 1: "second"}
    special = encoded.sequence_ids()
    assert tokens.segments == tuple(sides[side] for side in special)
    assert tokens.pair == PAIR
    assert tokens.text == "the keys are here / the cat plays"


def test_words_of_both_texts_are_known(model):
    tokens = model.tokenize(PAIR)
    words = [None if word is None else tokens.word_texts[word] for word in tokens.word_ids]
    pieces = ["the", "keys", "are", "here"], ["the", "cat", "plays", "plays"]
    assert words == [None, *pieces[0], None, *pieces[1], None]
    found = attnflow.explain(PAIR, model, words=True)
    assert found.tokens.count("plays") == 1
    assert found.segments == (
        *("special", *["first"] * 4, "special"),
        *(*["second"] * 3, "special"),
    )


def test_a_pair_explains_what_the_model_said_of_it(model):
    found = attnflow.explain(PAIR, model, method="rollout", layers="all")
    eager = tiny.build("bert", "eager", head=tf.BertForSequenceClassification)
    with torch.no_grad():
        encoded = model.tokenizer(*PAIR, return_tensors="pt")
        output = eager(**encoded, output_attentions=True)
    expected = attnflow.rollout(torch.stack(output.attentions)[:, 0].double().numpy())
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-5)
    assert found.prediction.probability == pytest.approx(float(output.logits.softmax(-1).max()))
    assert found.options["pair"] == list(PAIR)
    assert {"[CLS]", "[SEP]"}.isdisjoint(token for token, _ in found.top(9))


@pytest.mark.parametrize("method", ["rollout", "blank-out", "gradient-norm"])
def test_many_pairs_are_what_each_is_alone(model, method):
    together = attnflow.explain([PAIR, OTHER, PAIR[0]], model, method=method)
    for item, found in zip([PAIR, OTHER, PAIR[0]], together, strict=True):
        alone = attnflow.explain(item, model, method=method)
        np.testing.assert_allclose(found.values, alone.values, rtol=0, atol=1e-6)
        assert found.segments == alone.segments
    assert together[2].segments is None


def test_the_order_of_a_pair_matters(model):
    there, back = (attnflow.explain(each, model) for each in (PAIR, PAIR[::-1]))
    assert there.tokens != back.tokens
    assert there.prediction.probability != back.prediction.probability


def test_a_pair_that_is_too_long_is_cut_at_its_longer_text(model):
    long = ("the cat", "red " * 80)
    with pytest.raises(InputError, match="85 tokens"):
        attnflow.explain(long, model)
    found = attnflow.explain(long, model, truncate=True)
    assert found.segments.count("first") == 2
    assert len(found.tokens) == 64
    assert "only 64 of its 85 tokens" in found.warnings[0]


def test_a_slow_tokenizer_tells_the_texts_apart():
    core = tiny.word_piece()

    class Slow:
        """What transformers offers of a tokenizer without offsets."""

        is_fast = False
        model_input_names = ("input_ids", "attention_mask")

        def __getattr__(self, name):
            return getattr(core, name)

        def __call__(self, text, text_pair=None, add_special_tokens=True, **_):
            own = core(text, add_special_tokens=False)["input_ids"]
            if not add_special_tokens:
                return {"input_ids": own}
            other = core(text_pair, add_special_tokens=False)["input_ids"]
            special = [1, *[0] * len(own), 1, *[0] * len(other), 1]
            return {"input_ids": [2, *own, 3, *other, 3], "special_tokens_mask": special}

    slow = load_model((tiny.build("bert", head=tf.BertForSequenceClassification), Slow()))
    tokens = slow.tokenize(PAIR)
    assert tokens.segments == (
        *("special", *["first"] * 4, "special"),
        *(*["second"] * 4, "special"),
    )
    assert tokens.word_ids is None


def test_texts_that_nothing_parts_are_told(classifier):
    found = attnflow.explain(PAIR, classifier)
    assert "no special token between the two texts" in found.warnings[0]
    assert found.segments == ("first",) * 4 + ("second",) * 4


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (("the cat", " "), "no text"),
        (("the cat", 3), "takes text; this is int"),
        ([("the cat", "a key"), ["the cat", "a key"]], "a pair is a tuple of two texts"),
        ([("the cat", "a key", "the mat")], "takes text; this is tuple"),
        (("the cat", "\ud800"), "lone surrogate"),
    ],
)
def test_what_is_no_pair_is_refused(model, item, message):
    with pytest.raises(InputError, match=message):
        attnflow.explain(item, model)


def test_models_that_go_on_with_one_text_refuse_pairs(decoder):
    t5 = (tiny.build("t5"), tiny.plain())
    for given in (decoder, t5):
        with pytest.raises(InputError, match="takes one text, and a tuple of two texts is a pair"):
            attnflow.explain(PAIR, given)


def test_rows_of_pairs(model, tmp_path):
    rows = [{"a": PAIR[0], "b": PAIR[1]}, {"a": "the cat", "b": None}, {"a": "x", "b": "y"}]
    made = attnflow.run(rows, tmp_path / "one", model, text_column="a", pair_column="b")
    alone = attnflow.explain(PAIR, model)
    first = next(iter(made))
    np.testing.assert_allclose(first.values, alone.values, rtol=0, atol=1e-6)
    assert first.options["pair"] == list(PAIR)
    assert first.segments == alone.segments
    assert "b=None must be a text" in made.errors[0].error
    again = attnflow.run([PAIR], tmp_path / "two", model, pair_column="second")
    np.testing.assert_allclose(next(iter(again)).values, alone.values, rtol=0, atol=1e-6)
    refused = attnflow.run([PAIR], tmp_path / "three", model)
    assert "pair_column=" in refused.errors[0].error


def test_evaluation_of_pairs(model):
    found = attnflow.evaluate(
        [PAIR, OTHER], model, pair_column="second", methods="rollout", metrics="comprehensiveness"
    )
    assert found.texts == 2
    with pytest.raises(InputError, match="rationale_column is for single texts"):
        attnflow.evaluate([PAIR], model, pair_column="b", rationale_column="c")


def test_the_terminal_shows_the_texts_below_each_other(model):
    console = Console(width=70, no_color=True, record=True)
    console.print(strips([attnflow.explain(PAIR, model)], console))
    lines = console.export_text().splitlines()
    assert "first" in lines[0]
    assert "keys" in lines[0]
    assert "second" in lines[1]
    assert "cat" in lines[1]
