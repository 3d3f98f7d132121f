"""One text or many: batches, limits, and whatever holds texts."""

import numpy as np
import pandas
import pytest
import transformers as tf

import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.models.sizes import limit

TEXTS = [tiny.TEXT, "the cat", "a key to the old red cabinet is on the mat .", "cat", "the keys"]


@pytest.mark.parametrize("name", [*tiny.ENCODERS, *tiny.DECODERS])
def test_batches_of_mixed_lengths_give_what_single_texts_give(name):
    tokenizer = tiny.word_piece() if name in tiny.ENCODERS else tiny.plain()
    model = (tiny.build(name), tokenizer)
    options = {"method": "rollout", "correction": None, "layers": "all"}
    together = attnflow.explain(TEXTS, model, batch_size=3, **options)
    for text, found in zip(TEXTS, together, strict=True):
        alone = attnflow.explain(text, model, **options)
        assert found.text == text
        assert found.tokens == alone.tokens
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-5)
        if alone.prediction is not None:
            assert found.prediction.probability == pytest.approx(
                alone.prediction.probability, abs=1e-5
            )


def test_texts_of_similar_length_run_together(encoder, monkeypatch):
    from attnflow.models.text.model import TextModel

    batches = []
    run = TextModel.run

    def spy(self, batch, *rest):
        batches.append([len(tokens) for tokens in batch])
        return run(self, batch, *rest)

    monkeypatch.setattr(TextModel, "run", spy)
    attnflow.explain(TEXTS, encoder, method="raw", batch_size=2)
    assert batches == [[14, 9], [4, 4], [3]]


def test_a_decoders_classifier_without_padding_token_runs_one_by_one():
    model = tiny.build("gpt2", head=tf.GPT2ForSequenceClassification)
    assert model.config.pad_token_id is None
    found = attnflow.explain(TEXTS, (model, tiny.plain()), method="raw")
    assert [a.query for a in found] == [len(a.tokens) - 1 for a in found]


def test_a_progress_bar_says_what_was_loaded(encoder, capsys):
    attnflow.explain(TEXTS, encoder, method="raw", progress=True)
    shown = capsys.readouterr()
    assert "BertModel" in shown.err
    assert f"{len(TEXTS)}/{len(TEXTS)}" in shown.err
    assert not shown.out


def test_too_long_a_text_is_an_error_and_cut_only_when_asked(encoder):
    text = " ".join(["cat"] * 100)
    with pytest.raises(InputError, match=r"102 tokens.*at most 64.*truncate=True"):
        attnflow.explain(text, encoder)
    found = attnflow.explain(text, encoder, method="raw", truncate=True)
    assert len(found.tokens) == 64
    assert found.tokens[-1] == "[SEP]"


def test_roberta_counts_positions_from_after_the_padding():
    config = tf.RobertaConfig(**(tiny.USUAL | {"pad_token_id": 1}))
    model = tf.RobertaModel(config).eval()
    tokenizer = tiny.word_piece()
    assert limit(model, tokenizer) == 62
    text = " ".join(["cat"] * 60)
    attnflow.explain(text, (model, tokenizer), method="raw")  # 62 tokens run
    with pytest.raises(InputError, match="at most 62"):
        attnflow.explain(text + " cat", (model, tokenizer), method="raw")


def test_texts_of_exactly_the_models_length_run():
    """Position tables of the RoBERTa family begin after the padding token, also if that is 0."""
    for padding in (0, 1):
        model = tf.RobertaModel(tf.RobertaConfig(**(tiny.USUAL | {"pad_token_id": padding}))).eval()
        most = limit(model, tiny.word_piece())
        assert most == 64 - padding - 1
        found = attnflow.explain(
            " ".join(["cat"] * (most - 2)), (model, tiny.word_piece()), method="raw"
        )
        assert len(found.tokens) == most
        with pytest.raises(InputError, match=f"at most {most}"):
            attnflow.explain(" ".join(["cat"] * (most - 1)), (model, tiny.word_piece()))


def test_a_pair_of_texts_is_not_taken_for_two(encoder, classifier):
    for function in (attnflow.explain, attnflow.blank_out, attnflow.gradients):
        found = function(("the cat", "a key"), classifier)
        assert found.segments == ("first", "first", "second", "second")
    assert len(attnflow.explain(["the cat", "a key"], encoder, method="raw")) == 2


@pytest.mark.parametrize("text", ["", " \n", ["the cat", ""]])
def test_an_empty_text_is_refused(text, encoder, decoder):
    for model in (encoder, decoder):
        with pytest.raises(InputError, match="no text; give one in quotes"):
            attnflow.explain(text, model)


def texts_as(kind):
    if kind == "Series":
        return pandas.Series(TEXTS[:3], index=[7, 8, 9])
    return {"array": np.array, "generator": iter, "tuple": tuple}[kind](TEXTS[:3])


@pytest.mark.parametrize("kind", ["Series", "array", "generator", "tuple"])
def test_whatever_holds_texts_is_many(kind, encoder):
    found = attnflow.explain(texts_as(kind), encoder, method="raw")
    assert [one.text for one in found] == TEXTS[:3]


@pytest.mark.parametrize("kind", ["Series", "array", "generator", "tuple"])
@pytest.mark.parametrize("function", [attnflow.blank_out, attnflow.gradients])
def test_importance_takes_what_explain_takes(kind, function, classifier):
    found = function(texts_as(kind), classifier)
    assert [one.text for one in found] == TEXTS[:3]


def test_no_texts_give_no_results(encoder):
    assert attnflow.explain([], encoder) == []


def test_text_must_be_text(encoder):
    for given, kind in (
        ([3.5], "float"),
        (3, "int"),
        ({"a": "b"}, "dict"),
        (np.ones(2), "ndarray"),
    ):
        with pytest.raises(InputError, match=f"takes text; this is {kind}: give a text, or a list"):
            attnflow.explain(given, encoder)


@pytest.mark.parametrize(("side", "kept"), [("right", "first"), ("left", "last")])
def test_a_text_that_is_cut_says_which_end_was_read(side, kept):
    tokenizer = tiny.word_piece()
    tokenizer.truncation_side = side
    words = ["red"] * 70 + ["cat"] * 20
    model = (tiny.build("bert", head=tf.BertForSequenceClassification), tokenizer)
    with pytest.raises(InputError, match=f"or explain its {kept} 64 with truncate=True"):
        attnflow.explain(" ".join(words), model)
    found = attnflow.explain(" ".join(words), model, truncate=True)
    expected = words[:62] if side == "right" else words[-62:]
    assert list(found.tokens[1:-1]) == expected
    assert found.warnings == (f"the text was cut: only the {kept} 64 of its 92 tokens were read",)


@pytest.mark.parametrize("side", ["right", "left"])
def test_an_answer_is_cut_at_its_end(side):
    tokenizer = tiny.word_piece()
    tokenizer.eos_token, tokenizer.truncation_side = "[SEP]", side
    answer = " ".join(["red"] * 70 + ["cat"] * 20)
    found = attnflow.explain(
        "the cat", (tiny.build("bart"), tokenizer), answer=answer, truncate=True
    )
    written = [t for t, part in zip(found.tokens, found.segments, strict=True) if part == "target"]
    assert len(written) == 64
    assert set(written[2:]) == {"red"}
    assert "only the first 64 of its" in found.warnings[0]
