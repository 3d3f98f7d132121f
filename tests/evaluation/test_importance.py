"""Blanking and gradients against slow, obvious versions of themselves."""

import logging

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import InputError, ModelError
from attnflow.evaluation.agreement import agreement, summarize
from attnflow.records.arrays import round_scores

TEXTS = ["the keys to the cabinet are here", "a cat", "the old red key is on the mat"]


def build(kind, config=tf.BertConfig, **more):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = kind(config(**tiny.USUAL, initializer_range=0.5, **more)).eval()
    return network, tiny.word_piece()


@pytest.fixture(scope="module")
def classifier():
    return build(tf.BertForSequenceClassification, num_labels=3)


@pytest.fixture(scope="module")
def masked():
    return build(tf.BertForMaskedLM)


@pytest.fixture(scope="module")
def causal():
    torch.manual_seed(0)
    network = tf.LlamaForCausalLM(tf.LlamaConfig(**tiny.DECODER, initializer_range=0.5)).eval()
    return network, tiny.plain()


def chance(network, ids, index, position=None):
    with torch.no_grad():
        logits = network(input_ids=torch.tensor([ids])).logits[0].double()
    return float((logits if position is None else logits[position]).softmax(-1)[index])


@pytest.mark.parametrize("replacement", ["unk", "mask", "delete"])
def test_blanking_a_classifiers_tokens_one_by_one(classifier, replacement):
    network, tokenizer = classifier
    results = attnflow.blank_out(TEXTS, classifier, replacement=replacement, signed=True)
    for text, result in zip(TEXTS, results, strict=True):
        ids = tokenizer(text).input_ids
        label = network.config.label2id[result.prediction.label]
        before = chance(network, ids, label)
        for place in range(len(ids)):
            token = (
                [] if replacement == "delete" else [getattr(tokenizer, f"{replacement}_token_id")]
            )
            after = chance(network, ids[:place] + token + ids[place + 1 :], label)
            assert result.values[place] == pytest.approx(before - after, abs=3e-6)
        assert result.statistics["probability"] == pytest.approx(before, abs=1e-6)
        assert np.abs(result.values).max() > 1e-3


def test_padding_hides_a_token_and_moves_none(classifier):
    network, tokenizer = classifier
    result = attnflow.blank_out(TEXTS[0], classifier, replacement="pad", signed=True, target=1)
    inputs = tokenizer(TEXTS[0], return_tensors="pt")
    inputs["attention_mask"][0, 2] = 0
    with torch.no_grad():
        after = float(network(**inputs).logits[0].double().softmax(-1)[1])
    assert result.values[2] == pytest.approx(result.statistics["probability"] - after, abs=1e-6)


def test_unsigned_is_the_size_of_the_change(classifier):
    plain = attnflow.blank_out(TEXTS[0], classifier)
    signed = attnflow.blank_out(TEXTS[0], classifier, signed=True)
    np.testing.assert_allclose(plain.values, np.abs(signed.values))
    assert plain.method == "blank-out"


def test_a_masked_language_model_predicts_at_its_mask(masked):
    network, tokenizer = masked
    text = "the [MASK] to the cabinet"
    result = attnflow.blank_out(text, masked, replacement="delete", target="keys", signed=True)
    ids = tokenizer(text).input_ids
    index = tokenizer.convert_tokens_to_ids("keys")
    assert result.query == 2
    assert result.values[2] == 0
    before = chance(network, ids, index, 2)
    for place, position in ((1, 1), (3, 2)):
        after = chance(network, ids[:place] + ids[place + 1 :], index, position)
        assert result.values[place] == pytest.approx(before - after, abs=1e-6)


def test_a_causal_language_model_predicts_at_its_end(causal):
    network, tokenizer = causal
    for replacement in ("unk", "delete"):
        result = attnflow.blank_out(TEXTS[0], causal, replacement=replacement, target="is")
        ids = tokenizer(TEXTS[0]).input_ids
        index = tokenizer.convert_tokens_to_ids("is")
        before = chance(network, ids, index, -1)
        for place in (0, len(ids) - 1):
            token = [tokenizer.unk_token_id] if replacement == "unk" else []
            after = chance(network, ids[:place] + token + ids[place + 1 :], index, -1)
            assert result.values[place] == pytest.approx(abs(before - after), abs=1e-6)


@pytest.mark.parametrize("fixture", ["classifier", "masked", "causal"])
def test_gradients_are_slopes(fixture, request):
    model = request.getfixturevalue(fixture)
    network, tokenizer = model
    text = "the [MASK] to the cabinet" if fixture == "masked" else TEXTS[0]
    index = 1 if fixture == "classifier" else 3
    batch = [text, "a [MASK]" if fixture == "masked" else "a"]
    result = attnflow.gradients(batch, model, kind="input", target=index)[0]
    words = network.get_input_embeddings()
    ids = torch.tensor([tokenizer(text).input_ids])
    position = {"classifier": None, "masked": 2, "causal": -1}[fixture]
    row = ids[0].tolist()

    def probability(scale, place):
        factors = 1 + (torch.arange(len(row)) == place).double() * scale
        handle = words.register_forward_hook(lambda _m, _i, out: out * factors[:, None])
        try:
            return chance(network.double(), row, index, position)
        finally:
            handle.remove()
            network.float()

    for place in range(len(row)):
        slope = (probability(1e-5, place) - probability(-1e-5, place)) / 2e-5
        assert result.values[place] == pytest.approx(slope, abs=2e-5, rel=1e-3)


def test_integrated_gradients_are_complete(classifier):
    for text in TEXTS:
        result = attnflow.gradients(text, classifier, kind="integrated")
        change = result.statistics["change"]
        assert abs(change) > 1e-3
        assert result.values.sum() == pytest.approx(change, abs=1e-3)
        assert result.statistics["completeness_gap"] <= 1e-3
        few = attnflow.gradients(text, classifier, kind="integrated", steps=3)
        assert few.statistics["steps"] == 3  # as many as were given, whatever the gap


def test_the_sum_over_the_embedding_cancels_where_layer_norms_read_it(classifier, caplog):
    with caplog.at_level(logging.WARNING, "attnflow"):
        cancelled = attnflow.gradients(TEXTS[0], classifier, kind="sum")
    assert "sum to zero" in caplog.text
    norm = attnflow.gradients(TEXTS[0], classifier)
    assert cancelled.values.max() < 1e-4 * norm.values.max()


def test_the_sum_is_a_measure_where_nothing_subtracts_the_mean(causal, caplog):
    result = attnflow.gradients(TEXTS[0], causal, kind="sum")  # Llama's norms keep the mean
    assert not caplog.text
    assert result.values.max() > 1e-3


def test_batches_equal_single_texts(classifier):
    for call in (attnflow.blank_out, attnflow.gradients):
        together = call(TEXTS, classifier)
        for text, one in zip(TEXTS, together, strict=True):
            np.testing.assert_allclose(one.values, call(text, classifier).values, atol=1e-6)


def test_the_networks_mode_and_gradients_are_left_alone(classifier):
    network = classifier[0].train()
    try:
        attnflow.gradients(TEXTS[0], classifier)
        assert network.training
        assert all(parameter.grad is None for parameter in network.parameters())
    finally:
        network.eval()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replacement": "star"}, "replacement='star' is unknown; allowed: unk, mask"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"target": "nonsense"}, "is not a label of"),
        ({"target": 3}, "target=3 does not exist; allowed: 0 to 2"),
        ({"target": [0, 1]}, "2 targets and 1 texts"),
    ],
)
def test_bad_options_are_refused(classifier, options, message):
    with pytest.raises(InputError, match=message):
        attnflow.blank_out(TEXTS[0], classifier, **options)


def test_bad_kinds_and_models_are_refused(classifier, masked, causal):
    with pytest.raises(InputError, match="kind='slope' is unknown"):
        attnflow.gradients(TEXTS[0], classifier, kind="slope")
    with pytest.raises(InputError, match="has 0 masks"):
        attnflow.blank_out(TEXTS[0], masked)
    with pytest.raises(InputError, match="no mask token; choose one of: unk, pad, delete"):
        attnflow.blank_out(TEXTS[0], causal, replacement="mask")
    with pytest.raises(InputError, match="is not a single token"):
        attnflow.blank_out(TEXTS[0], causal, target="supercalifragilistic")
    with pytest.raises(ModelError, match="no probability to measure"):
        attnflow.blank_out(TEXTS[0], build(tf.BertModel))


def test_agreement_of_two_explanations(classifier):
    explained = attnflow.explain(TEXTS[0], classifier, method="rollout", layers="all")
    blanked = attnflow.blank_out(TEXTS[0], classifier)
    from scipy import stats

    expected = stats.spearmanr(explained.row(2), blanked.values).statistic
    assert agreement(explained, blanked, layer=2) == pytest.approx(expected)
    with pytest.raises(InputError, match="different tokens"):
        agreement(explained, attnflow.blank_out(TEXTS[1], classifier))


def test_undefined_correlations_are_counted():
    found = summarize([0.5, float("nan"), 0.1, float("nan")])
    assert (found.mean, found.count, found.undefined) == (pytest.approx(0.3), 2, 2)
    assert found.std == pytest.approx(0.2)


def test_rounding_does_not_break_ties():
    assert round_scores(np.array([1.0, 1.0 - 1e-15, 0.5])).tolist() == [1.0, 1.0, 0.5]
    assert round_scores(np.array([2e-30, 1e-30])).tolist() == [1.0, 0.5]
    assert round_scores(np.zeros(2)).tolist() == [0.0, 0.0]
