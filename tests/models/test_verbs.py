"""The shipped verb-number model: right, and read like any other."""

import pytest
import torch

import attnflow
from attnflow_experiments.training.tokenizer import SPECIAL, build_tokenizer


@pytest.fixture(scope="module")
def shipped():
    torch.set_num_threads(1)
    return attnflow.load_model("verbs")


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("the key to the cabinets", "the keys to the cabinet"),
        ("the author of the books", "the authors of the book"),
        ("the man with the cats", "the men with the cat"),
        ("the house near the rivers", "the houses near the river"),
        ("this problem with the articles", "these problems with the article"),
        ("The List of Songs", "The Lists of Songs"),
        ("a NN of the NNS", "the NNS of the NN"),
    ],
)
def test_changing_the_subjects_number_flips_the_answer(shipped, singular, plural):
    said = attnflow.explain([singular, plural], shipped, method="raw")
    assert [a.prediction.label for a in said] == ["singular", "plural"]


def test_its_sizes_are_the_papers(shipped):
    config = shipped.network.config
    sizes = (config.num_hidden_layers, config.num_attention_heads, config.hidden_size)
    assert sizes == (6, 8, 128)
    assert next(shipped.network.parameters()).dtype == torch.float32


def test_batches_with_padding_equal_single_inputs(shipped):
    texts = ["the keys", "the keys to the old cabinet near the door of the house"]
    inputs = shipped.tokenizer(texts, padding=True, return_tensors="pt")
    together = shipped.network(**inputs, output_attentions=True)
    for i, text in enumerate(texts):
        one = shipped.tokenizer(text, return_tensors="pt")
        alone = shipped.network(**one, output_attentions=True)
        size = one["input_ids"].shape[1]
        torch.testing.assert_close(together.logits[i], alone.logits[0], atol=1e-5, rtol=0)
        for both, single in zip(together.attentions, alone.attentions, strict=True):
            torch.testing.assert_close(both[i, :, :size, :size], single[0], atol=1e-5, rtol=0)


def test_word_embeddings_can_be_given_instead_of_ids(shipped):
    ids = shipped.tokenizer("the keys to the cabinet", return_tensors="pt").input_ids
    words = shipped.network.get_input_embeddings()(ids)
    torch.testing.assert_close(
        shipped.network(inputs_embeds=words).logits, shipped.network(ids).logits
    )


def test_every_position_attends_to_every_position(shipped):
    ids = shipped.tokenizer("the keys to the cabinet", return_tensors="pt").input_ids
    for layer in shipped.network(ids, output_attentions=True).attentions:
        assert bool((layer > 0).all())
        torch.testing.assert_close(layer.sum(-1), torch.ones(1, 8, 6))


def test_a_text_that_is_too_long_is_refused(shipped):
    with pytest.raises(ValueError, match="65 tokens are too many; the model takes at most 64"):
        shipped.network(torch.ones(1, 65, dtype=torch.long))


def test_tokens_are_the_datas_words():
    words = ["the", "keys", ",", "'s", "n't", "does", "NNP", "(", ")", "well-known", "``"]
    tokenizer = build_tokenizer(words, 64)
    text = "The keys's, NNP doesn't `` (well-known) nnp Zebra"
    assert tokenizer.tokenize(text) == [
        "the", "keys", "'s", ",", "NNP", "does", "n't", "``", "(", "well-known", ")",
        "[UNK]", "[UNK]",
    ]  # fmt: skip
    assert tokenizer("the").input_ids == [SPECIAL.index("[CLS]"), 4]


def test_the_shipped_model_is_explained_without_a_warning():
    found = attnflow.explain("the keys to the cabinet", "verbs")
    assert found.warnings == ()
