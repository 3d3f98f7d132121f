"""Figure 4: a masked model reads the whole sentence, a causal one up to the pronoun."""

import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow_experiments.reproduce import figures


def test_pronoun_probabilities_are_those_of_the_next_word():
    torch.manual_seed(0)
    network = tf.LlamaForCausalLM(tf.LlamaConfig(**tiny.DECODER)).eval()
    model = attnflow.load_model((network, tiny.plain()))
    found = figures.pronoun_probabilities(model, "the keys to", ("is", "are"))
    ids = torch.tensor([tiny.plain()("the keys to").input_ids])
    with torch.no_grad():
        expected = network(ids).logits[0, -1].softmax(-1)
    for word, probability in found.items():
        assert probability == pytest.approx(
            float(expected[tiny.plain().convert_tokens_to_ids(word)]), rel=1e-4
        )


def test_a_masked_model_reads_the_whole_sentence(tmp_path):
    torch.manual_seed(0)
    tokenizer = tiny.word_piece()
    network = tf.BertForMaskedLM(tf.BertConfig(**tiny.USUAL)).eval()
    model = attnflow.load_model((network, tokenizer))
    text = figures.pronoun_text(model, "the keys to", "cabinet")
    assert text == "the keys to [MASK] cabinet"
    found = figures.pronoun_probabilities(model, text, ("the", "keys"))
    encoded = tokenizer(text, return_tensors="pt")
    at = encoded.input_ids[0].tolist().index(tokenizer.mask_token_id)
    with torch.no_grad():
        expected = network(**encoded).logits[0, at].softmax(-1)
    for word, probability in found.items():
        assert probability == pytest.approx(
            float(expected[tokenizer.convert_tokens_to_ids(word)]), rel=1e-4
        )
