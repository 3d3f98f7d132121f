"""Small models that many tests explain texts with."""

import pytest
import transformers as tf

import tiny


@pytest.fixture(scope="module")
def encoder():
    return tiny.build("bert"), tiny.word_piece()


@pytest.fixture(scope="module")
def decoder():
    return tiny.build("gpt2"), tiny.plain()


@pytest.fixture(scope="module")
def masked():
    return tiny.build("bert", head=tf.BertForMaskedLM), tiny.word_piece()


@pytest.fixture(scope="module")
def classifier():
    return tiny.build("bert", head=tf.BertForSequenceClassification), tiny.word_piece()
