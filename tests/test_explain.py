"""`explain` on texts: predictions, corrections, options."""

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import InputError

TEXTS = [tiny.TEXT, "the cat", "a key to the old red cabinet is on the mat .", "cat", "the keys"]


# -- predictions


def test_predictions_are_the_models_own(classifier, masked, decoder):
    tokenizer = tiny.word_piece()
    with torch.no_grad():
        labels = classifier[0](**tokenizer("the cat", return_tensors="pt")).logits[0].softmax(-1)
        word = masked[0](**tokenizer("the [MASK]", return_tensors="pt")).logits[0, 2].softmax(-1)
        ids = decoder[1]("the cat", return_tensors="pt")
        following = decoder[0](**ids).logits[0, -1].softmax(-1)
    said = attnflow.explain("the cat", classifier, method="raw").prediction
    assert said.label == f"LABEL_{int(labels.argmax())}"
    assert said.probability == pytest.approx(float(labels.max()), abs=1e-6)
    assert sum(p for _, p in said.alternatives) == pytest.approx(1, abs=1e-6)
    said = attnflow.explain("the [MASK]", masked, method="raw").prediction
    assert said.probability == pytest.approx(float(word.max()), abs=1e-6)
    assert said.position == 2
    said = attnflow.explain("the cat", decoder, method="raw").prediction
    assert said.probability == pytest.approx(float(following.max()), abs=1e-6)
    assert said.position == 1


def test_a_bare_encoder_and_a_regression_predict_nothing(encoder):
    assert attnflow.explain("the cat", encoder, method="raw").prediction is None
    _, config = tiny.ENCODERS["bert"]()
    config.num_labels = 1
    model = tf.BertForSequenceClassification(config).eval()
    found = attnflow.explain("the cat", (model, tiny.word_piece()), method="raw")
    assert found.prediction is None


def test_several_labels_at_once_have_their_own_probabilities():
    model = tiny.build("bert", head=tf.BertForSequenceClassification)
    model.config.problem_type = "multi_label_classification"
    found = attnflow.explain("the cat", (model, tiny.word_piece()), method="raw")
    with torch.no_grad():
        logits = model(**tiny.word_piece()("the cat", return_tensors="pt")).logits[0]
    assert found.prediction.probability == pytest.approx(float(logits.max().sigmoid()), abs=1e-6)


# -- causal corrections


def test_uniform_attention_is_one_by_the_uniform_correction():
    model, tokenizer = tiny.build("gpt2"), tiny.plain()
    with torch.no_grad():
        for block in model.transformer.h:
            block.attn.c_attn.weight.zero_()  # every score the same: attention is uniform
    for method in ("raw", "rollout", "flow"):
        found = attnflow.explain(tiny.TEXT, (model, tokenizer), method=method)
        assert found.options["correction"] == "uniform"
        np.testing.assert_allclose(found.values, 1, atol=1e-6)


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_each_correction_is_its_formula(method, decoder):
    ids = decoder[1](tiny.TEXT, return_tensors="pt")
    with torch.no_grad():
        eager = tiny.build("gpt2", "eager")(**ids, output_attentions=True).attentions
    attention = torch.stack(eager)[:, 0].mean(1).double().numpy()
    size = attention.shape[-1]
    function = getattr(attnflow, method)
    uniform = np.tril(np.ones((3, size, size))) / np.arange(1, size + 1)[:, None]
    without = attention.copy()
    without[:, 1:, 0] = 0
    expected = {
        None: function(attention)[-1, -1],
        "uniform": function(attention)[-1, -1] / function(uniform)[-1, -1],
        "sink": function(without / without.sum(-1, keepdims=True))[-1, -1],
    }
    for correction, values in expected.items():
        found = attnflow.explain(tiny.TEXT, decoder, method=method, correction=correction)
        assert found.options["correction"] == correction
        np.testing.assert_allclose(found.values, values, rtol=1e-4, atol=1e-6)


def test_a_position_that_saw_only_the_sink_is_left_with_itself():
    from attnflow.edges.corrections import correct_maps

    only_first = np.zeros((3, 3))
    only_first[:, 0] = 1
    (found,) = correct_maps([only_first], "sink")
    assert found.tolist() == np.eye(3).tolist()


def test_corrections_are_refused_for_encoders(encoder):
    with pytest.raises(InputError, match="causal decoders"):
        attnflow.explain(tiny.TEXT, encoder, correction="sink")
    assert attnflow.explain(tiny.TEXT, encoder, method="raw").options["correction"] is None


# -- options


@pytest.mark.parametrize("heads", ["mean", [0, 2], [0.5, 0.25, 0.25, 0.0]])
@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_options_mean_what_they_mean_for_arrays(method, heads, encoder):
    options = {"heads": heads, "residual": 0.25, "discard": 0.1}
    found = attnflow.explain(tiny.TEXT, encoder, method=method, layer=2, **options)
    ids = tiny.word_piece()(tiny.TEXT, return_tensors="pt")
    with torch.no_grad():
        eager = tiny.build("bert", "eager")(**ids, output_attentions=True).attentions
    expected = getattr(attnflow, method)(torch.stack(eager)[:, 0].double().numpy(), **options)
    np.testing.assert_allclose(found.values, expected[1, 0], rtol=0, atol=1e-6)
    assert found.layer == 2
    assert {name: found.options[name] for name in options} == options


def test_single_heads_are_kept_when_asked_for(encoder):
    found = attnflow.explain(tiny.TEXT, encoder, heads="each", method="flow", layers="all")
    assert found.scores.shape == (3, 4, 1, 9)
    assert len(found.top(3)) == 3


def test_normalized_scores_sum_to_one(encoder):
    found = attnflow.explain(tiny.TEXT, encoder, normalize=True, layers="all")
    np.testing.assert_allclose(found.scores.sum(-1), 1)
    assert found.options["normalize"] is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "magic.*raw, rollout, flow"),
        ({"method": ["raw", "flow"]}, r"method=\['raw', 'flow'\] is unknown; allowed: raw"),
        ({"heads": 0}, r"heads=0 must be a list"),
        ({"target": "x", "method": "flow"}, r"target='x' does not apply to edges='attention'"),
        ({"layer": 4}, "layer=4.*1 to 3"),
        ({"layer": 0}, "layer=0.*1 to 3"),
        ({"layer": -4}, "layer=-4"),
        ({"layer": "last"}, "layer must be an integer from 1 to 3, got 'last'"),
        ({"layer": True}, "layer must be an integer from 1 to 3, got True"),
        ({"layers": "top"}, "layers='top' is unknown; allowed: all"),
        ({"layers": [1, 4]}, "layers=4.*1 to 3"),
        ({"layers": [1, 2], "layer": 3}, "layer=3 is not one of layers"),
        ({"correction": "magic"}, "magic.*uniform, sink"),
        ({"residual": 1.5}, "residual=1.5"),
        ({"residual": "none"}, r"residual='none' must be a number from 0 \(off\) to below 1"),
        ({"discard": [0]}, r"discard=\[0\] must be a number from 0 \(off\) to below 1"),
        ({"heads": "some"}, "some"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_wrong_options_are_refused(options, message, encoder):
    with pytest.raises(InputError, match=message):
        attnflow.explain(tiny.TEXT, encoder, **options)


@pytest.mark.parametrize("trainable", [True, False])
def test_the_model_is_as_before(trainable):
    model = tiny.build("bert", head=tf.BertForSequenceClassification).requires_grad_(trainable)
    model.train()
    attnflow.explain(TEXTS, (model, tiny.word_piece()), method="raw")
    assert all(module.training for module in model.modules())
    assert all(p.requires_grad == trainable and p.grad is None for p in model.parameters())


def test_a_shipped_model_is_found_by_its_name():
    plural = attnflow.explain("the keys to the cabinet", "verbs", method="flow", layers="all")
    singular = attnflow.explain("the key to the cabinets", "verbs")
    assert (plural.prediction.label, singular.prediction.label) == ("plural", "singular")
    assert plural.tokens == ("[CLS]", "the", "keys", "to", "the", "cabinet")
    assert plural.layers == (1, 2, 3, 4, 5, 6)
    assert (singular.layers, singular.depth) == ((6,), 6)
    assert plural.statistics["model"]["head"] == "classifier"


def test_single_heads_stand_on_layers_that_were_merged_and_then_corrected(decoder):
    """As with merged heads: correcting each head of the layers below would be another order."""
    options = {"edges": "attention", "correction": "sink", "query": "all", "residual": 0.5}

    def scores(**more):
        return attnflow.explain(tiny.TEXT, decoder, **options, **more).scores[0]

    below = scores(method="rollout", layer=1, heads="mean")
    each = scores(method="rollout", layer=2, heads="each")
    for head in range(4):
        alone = scores(method="raw", layer=2, heads=[head])
        np.testing.assert_allclose(each[head], alone @ below, rtol=0, atol=1e-6)
    apart = [scores(method="rollout", layer=1, heads=[head]) for head in range(4)]
    # Else the order would not matter, and nothing be tested.
    assert np.abs(np.mean(apart, axis=0) - below).max() > 1e-4
