"""What each kind of model declares that it can do: all that the rest of the library asks it."""

import pytest
import transformers as tf
from transformers import ViTImageProcessorPil

import heard
import pictured
import tiny
from attnflow.models.loading import load_model

# Everything that a model may declare; what is not listed for a model is not so.
EVERYTHING = (
    *("reads_text", "reads_pairs", "reads_images", "reads_sound", "has_source", "has_grid"),
    *("erases", "edits_words", "estimates_memory", "finds_spans", "predicts", "labels_tokens"),
    "writes",
)
TEXT = {"reads_text", "erases", "edits_words", "estimates_memory"}
BERT = TEXT | {"reads_pairs"}
VIT = (tf.ViTForImageClassification, lambda: ViTImageProcessorPil(size={"height": 32, "width": 32}))


def bert(head):
    return lambda: (tiny.build("bert", head=head), tiny.pair_piece())


MODELS = {
    "encoder": (bert(tf.BertModel), BERT),
    "classifier": (bert(tf.BertForSequenceClassification), BERT | {"predicts"}),
    "masked": (bert(tf.BertForMaskedLM), BERT | {"predicts"}),
    "tagger": (bert(tf.BertForTokenClassification), BERT | {"predicts", "labels_tokens"}),
    "spans": (bert(tf.BertForQuestionAnswering), BERT | {"predicts", "finds_spans"}),
    "decoder": (lambda: (tiny.build("gpt2"), tiny.plain()), TEXT | {"predicts", "writes"}),
    "pair": (
        lambda: (tiny.build("t5"), tiny.word_piece()),
        {"reads_text", "has_source", "erases", "predicts", "writes"},
    ),
    "pair classifier": (
        lambda: (tiny.build("t5", head=tf.T5ForSequenceClassification), tiny.word_piece()),
        {"reads_text", "reads_pairs", "has_source", "erases", "predicts"},
    ),
    "image": (
        lambda: (tiny.build("vit", head=VIT[0]), VIT[1]()),
        {"reads_images", "has_grid", "erases", "predicts"},
    ),
    "audio": (lambda: heard.build("wav2vec2-label"), {"reads_sound", "has_grid", "predicts"}),
    "speech": (lambda: heard.build("whisper"), {"reads_sound", "has_source", "predicts"}),
    "image with text": (lambda: pictured.llava(), TEXT | {"reads_images", "predicts"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_declares_what_it_can_do(name):
    build, expected = MODELS[name]
    model = load_model(build())
    assert {each for each in EVERYTHING if getattr(model, each)} == expected


def test_an_encoder_decoder_has_two_steps_for_each_decoder_layer():
    model = load_model((tiny.build("t5"), tiny.word_piece()))
    assert model.steps == 3 * model.depth // 2
    assert load_model((tiny.build("gpt2"), tiny.plain())).steps == 3
