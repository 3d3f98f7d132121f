"""A small classifier in a folder, for all tests of runs."""

import pytest
import transformers

import tiny


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    tiny.build("bert", head=transformers.BertForSequenceClassification).save_pretrained(place)
    tiny.word_piece().save_pretrained(place)
    return str(place)
