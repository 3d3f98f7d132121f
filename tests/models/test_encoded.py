"""Inputs that are tokens already are read as their text is, and checked as it is."""

import numpy as np
import pytest
import torch
import transformers as tf

import spellers
import tiny
from attnflow.errors import InputError
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.loading import load_model

FORMS = {
    "list": lambda encoded: list(encoded["input_ids"]),
    "array": lambda encoded: np.array(encoded["input_ids"]),
    "tensor": lambda encoded: torch.tensor([encoded["input_ids"]]),
    "encoding": lambda encoded: encoded,
    "dict": dict,
}


@pytest.fixture(scope="module")
def classifier():
    return load_model(
        (tiny.build("bert", head=tf.BertForSequenceClassification), tiny.pair_piece())
    )


@pytest.fixture(scope="module")
def decoder():
    return load_model((tiny.build("gpt2"), tiny.plain()))


def same(first, second):
    """Whether two inputs are the same to the model, and to whoever reads the explanation."""
    return all(
        getattr(first, name) == getattr(second, name)
        for name in ("names", "text", "inputs", "word_ids", "word_texts", "segments", "spans")
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_ids_are_read_as_their_text_is(name, form):
    reader = tiny.plain() if name == "gpt2" else tiny.word_piece()
    model = load_model((tiny.build(name), reader))
    expected = model.tokenize(tiny.TEXT)
    found = model.tokenize(FORMS[form](reader(tiny.TEXT)))
    assert same(found, expected)
    assert found.notices == expected.notices


def test_a_run_on_ids_gives_the_very_numbers_of_a_run_on_the_text(classifier):
    ids = classifier.tokenizer(tiny.TEXT)["input_ids"]
    runs = [
        classifier.run([classifier.tokenize(item)], None, CaptureSpec())[0]
        for item in (tiny.TEXT, ids)
    ]
    assert runs[0].prediction == runs[1].prediction
    for one, other in zip(*(each.activations.attention for each in runs), strict=True):
        assert torch.equal(one, other)


def test_an_encoding_of_a_pair_has_both_texts(classifier):
    encoded = classifier.tokenizer("the keys", "are here")
    expected = classifier.tokenize(("the keys", "are here"))
    found = classifier.tokenize(encoded)
    assert same(found, expected)
    assert found.pair == ("the keys", "are here")
    assert found.inputs["token_type_ids"] == list(encoded["token_type_ids"])


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("texts", [("the keys",), ("the keys", "are here")])
def test_padding_is_left_out(classifier, texts, side):
    padded = classifier.tokenizer(*texts, padding="max_length", max_length=12, padding_side=side)
    assert 0 in padded["attention_mask"]
    assert same(classifier.tokenize(padded), classifier.tokenize(classifier.tokenizer(*texts)))


def test_a_question_needs_the_encoding_of_a_pair():
    torch.manual_seed(0)
    sizes = {key: value for key, value in tiny.USUAL.items() if key != "num_labels"}
    model = load_model(
        (tf.BertForQuestionAnswering(tf.BertConfig(**sizes)).eval(), tiny.pair_piece())
    )
    found = model.tokenize(model.tokenizer("the keys", "are here"))
    assert "second" in found.segments
    with pytest.raises(InputError, match="needs the encoding of a pair"):
        model.tokenize(model.tokenizer("the keys"))


@pytest.mark.parametrize("name", spellers.KINDS)
def test_ids_stay_as_they_are_whatever_the_tokenizer(name):
    reader = spellers.build(name)
    config = tf.LlamaConfig(**tiny.DECODER | {"vocab_size": len(reader)})
    model = load_model((tf.LlamaForCausalLM(config).eval(), reader))
    for text in spellers.SENTENCES:
        ids = reader(text)["input_ids"]
        # Cut anywhere, so that the ids may be none that the tokenizer would make of their text.
        for end in range(1, len(ids) + 1):
            part = ids[:end]
            if reader.decode(part, skip_special_tokens=True).strip():
                assert model.tokenize(part).inputs["input_ids"] == part


def test_a_mask_among_the_ids_is_what_is_predicted():
    model = load_model((tiny.build("bert", head=tf.BertForMaskedLM), tiny.word_piece()))
    text = "the [MASK] are here"
    ids = model.tokenizer(text)["input_ids"]
    assert same(model.tokenize(ids), model.tokenize(text))
    assert model.decision(model.tokenize(ids)) == ids.index(model.tokenizer.mask_token_id)


def test_ids_without_the_usual_special_tokens_say_so(classifier):
    ids = classifier.tokenizer(tiny.TEXT, add_special_tokens=False)["input_ids"]
    found = classifier.tokenize(ids)
    assert found.inputs["input_ids"] == ids
    assert None not in found.word_ids
    (notice,) = found.notices
    assert "lack what the tokenizer adds to a text ([CLS], [SEP]); they are read" in notice


def test_special_tokens_are_part_of_no_word(classifier):
    found = classifier.tokenize(classifier.tokenizer(tiny.TEXT)["input_ids"])
    assert [at for at, word in enumerate(found.word_ids) if word is None] == [0, len(found) - 1]


@pytest.mark.parametrize("side", ["right", "left"])
def test_ids_that_are_too_long_are_cut_as_their_text_is(side):
    reader = tiny.pair_piece()
    reader.truncation_side = side
    reader.model_max_length = 5
    model = load_model((tiny.build("bert", head=tf.BertForSequenceClassification), reader))
    ids = reader(tiny.TEXT)["input_ids"]
    with pytest.raises(InputError, match=r"there are 9 token ids, special ones included.*most 5"):
        model.tokenize(ids)
    expected = model.tokenize(tiny.TEXT, truncate=True)
    found = model.tokenize(ids, truncate=True)
    assert found.inputs["input_ids"] == expected.inputs["input_ids"]
    assert found.names == expected.names
    assert found.notices == expected.notices


def test_an_encoding_of_a_pair_is_not_cut():
    reader = tiny.pair_piece()
    model = load_model((tiny.build("bert", head=tf.BertForSequenceClassification), reader))
    encoded = reader("the keys", "are here")
    reader.model_max_length = 5
    with pytest.raises(InputError, match=r"at most 5\. Give fewer$"):
        model.tokenize(encoded, truncate=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([5, 100], "token id 100 does not exist; allowed: 0 to 99"),
        ([5, -1], "token id -1 does not exist"),
        (np.array([[5, 6], [7, 8]]), "takes text; this is ndarray"),
        ({"input_ids": [[5, 6], [7, 8]]}, "input_ids has 2 rows; give one input at a time"),
        ({"input_ids": [5.5]}, "must be a list of integers"),
        ({"input_ids": [5, 6], "attention_mask": [1]}, "2 input_ids and 1 attention_mask"),
        ({"input_ids": [5, 0, 6], "attention_mask": [1, 0, 1]}, "hides 1 of 3 tokens"),
        ({"input_ids": [0, 5, 0], "attention_mask": [0, 1, 0]}, "not padding at one end"),
        ({"input_ids": [0], "attention_mask": [0]}, "no text; give one"),
        ({"input_ids": [5], "position_ids": [3]}, "'position_ids', which its tokenizer"),
        ([2, 3], "no text; give one"),
        ([True, False], "takes text; this is list"),
        ([], "takes text; this is list"),
    ],
)
def test_what_can_not_be_read_is_named(classifier, given, message):
    with pytest.raises(InputError, match=message):
        classifier.tokenize(given)


def test_a_decoder_takes_one_text(decoder):
    pair = load_model((tiny.build("gpt2"), tiny.pair_piece()))
    with pytest.raises(InputError, match="takes one text"):
        pair.tokenize(pair.tokenizer("the keys", "are here"))
