"""The shipped sentiment model: it reads ordinary words, and says what a person would expect."""

import json
import re
from pathlib import Path

import pytest
import torch

import attnflow
from attnflow.shipped import folder_of
from attnflow.views.wording.findings import find

ROOT = Path(__file__).parents[2]
POSITIVE = [
    "I love this film.",
    "A wonderful and moving story.",
    "The food was great and the staff was friendly.",
    "What a beautiful day!",
    "It is one of the best books that I have read.",
    "Thank you, this was very helpful.",
]
NEGATIVE = [
    "I hate this film.",
    "A boring and stupid story.",
    "The food was terrible and the staff was rude.",
    "What a waste of time!",
    "It is one of the worst books that I have read.",
    "The music is too loud, and I want my money back.",
]
SURE = 0.7


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    return attnflow.load_model("sentiment")


def unknown(model, words):
    pieces = model.tokenizer(list(words), add_special_tokens=False).input_ids
    return [
        word for word, ids in zip(words, pieces, strict=True) if model.tokenizer.unk_token_id in ids
    ]


def test_no_ordinary_word_is_unknown(model):
    """The ten thousand words of Wikipedia that the other shipped model knows, and its nouns."""
    known = json.loads((folder_of("verbs") / "tokenizer.json").read_text(encoding="utf-8"))
    words = [word for word in known["model"]["vocab"] if not word.startswith("[")]
    nouns = (folder_of("verbs") / "nouns.tsv").read_text(encoding="utf-8").splitlines()
    words += [noun.split("\t")[0] for noun in nouns]
    assert len(words) > 14_000
    assert unknown(model, words) == []


def test_no_word_of_a_sentence_on_our_pages_is_unknown(model):
    """Names, accents, quotation marks, dashes: what people write."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"```text\n.*?```", "", page, flags=re.DOTALL)  # what the program prints has bars
    text += "Zoë's café in Malmö – “naïve”, isn't it? – costs 3.50 € … Dvořák, Łódź, jalapeño; "
    text += "#1 & 50% @ 8 p.m."
    assert unknown(model, re.split(r"\s+", text)) == []


@pytest.mark.parametrize(
    ("text", "label"),
    [*((each, "positive") for each in POSITIVE), *((each, "negative") for each in NEGATIVE)],
)
def test_plain_words_are_read_as_a_person_reads_them(model, text, label):
    said = attnflow.explain(text, model, method="raw").prediction
    assert (said.label, said.probability > SURE) == (label, True)


def test_it_says_what_it_decides_and_warns_of_nothing(model):
    found = attnflow.explain("The food was not good.", model)
    assert found.warnings == ()
    assert (found.options["edges"], found.method) == ("relevance", "flow")
    said = find(found).sentence
    assert (
        said == "Whether a text is positive or negative: negative; relevance flow points to “not”."
    )


def test_batches_with_padding_equal_single_inputs(model):
    texts = [NEGATIVE[-1], "Fine.", POSITIVE[2]]
    together = attnflow.explain(texts, model)
    for text, one in zip(texts, together, strict=True):
        alone = attnflow.explain(text, model)
        assert one.prediction.probability == pytest.approx(alone.prediction.probability, abs=1e-5)
        assert one.values == pytest.approx(alone.values, abs=1e-5)


def test_its_card_has_its_size(model):
    count = sum(each.numel() for each in model.network.parameters())
    card = (ROOT / "docs" / "shipped-models.md").read_text(encoding="utf-8")
    assert f"{count / 1e6:.1f} million parameters" in card
