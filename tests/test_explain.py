"""`explain` on texts: positions, predictions, batches, limits, corrections, options."""

import numpy as np
import pandas
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.models.text import limit
from attnflow.records.positions import find


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


TEXTS = [tiny.TEXT, "the cat", "a key to the old red cabinet is on the mat .", "cat", "the keys"]


# -- positions


def test_the_default_position_is_where_the_model_decides(encoder, decoder, masked, classifier):
    assert attnflow.explain("the cat", encoder, method="raw").query == 0
    assert attnflow.explain("the cat", classifier, method="raw").query == 0
    assert attnflow.explain("the cat is", decoder, method="raw").query == 2
    assert attnflow.explain("the [MASK] is", masked, method="raw").query == 2
    assert attnflow.explain("the cat is", masked, method="raw").query == 0


@pytest.mark.parametrize(
    ("query", "place"),
    [(3, 3), (-1, 8), ("cabinet", 5), ("Cabinet", 5), ("the:4", 4), ("1:The", 1)],
)
def test_a_position_is_an_index_or_a_token(query, place, encoder):
    found = attnflow.explain(tiny.TEXT, encoder, query=query, method="raw")
    assert found.query == place
    assert attnflow.explain(tiny.TEXT, encoder, query=query).queries == (place,)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("dog", r"'dog' is none of the tokens.*5:cabinet"),
        ("the", r"'the' stands at 1, 4; give the position, or 'the:1': 0:\[CLS\]"),
        ("the:2", r"'the:2' is none of the tokens"),
        (9, r"query=9 does not exist; there are 9 tokens"),
        (-10, r"query=-10 does not exist"),
    ],
)
def test_a_wrong_position_is_an_error_that_lists_the_tokens(query, message, encoder):
    with pytest.raises(InputError, match=message):
        attnflow.explain(tiny.TEXT, encoder, query=query)


def test_a_long_text_is_listed_in_part():
    tokens = ["[CLS]", *["the"] * 500, "end"]
    with pytest.raises(InputError, match=r"stands at 1, 2.* 62, …, 500; .* 61:the … 501:end$"):
        find("the", tokens)


def test_a_word_in_pieces_is_an_error_that_lists_them(encoder):
    message = r"query='Playing' is split into 2:play 3:##ing; give one of these"
    with pytest.raises(InputError, match=message):
        attnflow.explain("the Playing cat", encoder, query="Playing")


def test_a_token_that_looks_like_a_label_is_itself():
    assert find("the:0", ["the", "the:0"]) == 1
    assert find("4:4", ["a", "4", "4", "b", "4"]) == 4


def test_two_masks_are_ambiguous(masked):
    with pytest.raises(InputError, match=r"stands at 1, 2"):
        attnflow.explain("[MASK] [MASK]", masked)


def test_all_positions_at_once_are_the_single_ones(encoder):
    everything = attnflow.explain("the keys are here", encoder, query="all")
    assert everything.queries == tuple(range(6))
    for query in (0, 2, 5):
        one = attnflow.explain("the keys are here", encoder, query=query)
        np.testing.assert_allclose(everything.row(query=query), one.values, atol=1e-12)


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


# -- batches and limits


@pytest.mark.parametrize("name", [*tiny.ENCODERS, *tiny.DECODERS])
def test_batches_of_mixed_lengths_give_what_single_texts_give(name):
    tokenizer = tiny.word_piece() if name in tiny.ENCODERS else tiny.plain()
    model = (tiny.build(name), tokenizer)
    together = attnflow.explain(TEXTS, model, method="rollout", batch_size=3, correction=None)
    for text, found in zip(TEXTS, together, strict=True):
        alone = attnflow.explain(text, model, method="rollout", correction=None)
        assert found.text == text
        assert found.tokens == alone.tokens
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-5)
        if alone.prediction is not None:
            assert found.prediction.probability == pytest.approx(
                alone.prediction.probability, abs=1e-5
            )


def test_texts_of_similar_length_run_together(encoder, monkeypatch):
    from attnflow.models.text import TextModel

    batches = []
    read = TextModel.read

    def spy(self, batch, *rest):
        batches.append([len(tokens) for tokens in batch])
        return read(self, batch, *rest)

    monkeypatch.setattr(TextModel, "read", spy)
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
    visible = attention / np.arange(size, 0, -1)
    without = attention.copy()
    without[:, 1:, 0] = 0
    expected = {
        None: function(attention)[-1, -1],
        "uniform": function(attention)[-1, -1] / function(uniform)[-1, -1],
        "visible": function(visible / visible.sum(-1, keepdims=True))[-1, -1],
        "sink": function(without / without.sum(-1, keepdims=True))[-1, -1],
    }
    for correction, values in expected.items():
        found = attnflow.explain(tiny.TEXT, decoder, method=method, correction=correction)
        assert found.options["correction"] == correction
        np.testing.assert_allclose(found.values, values, rtol=1e-4, atol=1e-6)


def test_a_position_that_saw_only_the_sink_is_left_with_itself():
    from attnflow.edges.corrections import correct
    from attnflow.records import AttentionRecord

    only_first = np.zeros((3, 3))
    only_first[:, 0] = 1
    found = correct(AttentionRecord((only_first,), causal=True), "sink")
    assert found.layers[0].tolist() == np.eye(3).tolist()


def test_corrections_are_refused_for_encoders(encoder):
    with pytest.raises(InputError, match="causal decoders"):
        attnflow.explain(tiny.TEXT, encoder, correction="sink")
    assert attnflow.explain(tiny.TEXT, encoder, method="raw").options["correction"] is None


# -- options


@pytest.mark.parametrize("heads", ["mean", "max", "min", [0, 2], [0.5, 0.25, 0.25, 0.0]])
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
    found = attnflow.explain(tiny.TEXT, encoder, heads="each", method="flow")
    assert found.scores.shape == (3, 4, 1, 9)
    assert len(found.top(3)) == 3


def test_normalized_scores_sum_to_one(encoder):
    found = attnflow.explain(tiny.TEXT, encoder, normalize=True)
    np.testing.assert_allclose(found.scores.sum(-1), 1)
    assert found.options["normalize"] is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "magic.*raw, rollout, flow"),
        ({"method": ["raw", "flow"]}, r"method=\['raw', 'flow'\] is unknown; allowed: one of raw"),
        ({"heads": 0}, r"heads=0 must be a list"),
        ({"target": "x"}, r"target='x' is for encoder–decoders, and BertModel is none"),
        ({"layer": 4}, "layer=4.*1 to 3"),
        ({"layer": 0}, "layer=0.*1 to 3"),
        ({"layer": -4}, "layer=-4"),
        ({"layer": "last"}, "layer='last' is no whole number"),
        ({"correction": "magic"}, "magic.*uniform, visible, sink"),
        ({"residual": 1.5}, "residual=1.5"),
        ({"residual": "none"}, "residual='none' must be at least 0"),
        ({"discard": [0]}, r"discard=\[0\] must be a ratio"),
        ({"heads": "some"}, "some"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_wrong_options_are_refused(options, message, encoder):
    with pytest.raises(InputError, match=message):
        attnflow.explain(tiny.TEXT, encoder, **options)


def test_text_must_be_text(encoder):
    for given, kind in (([3], "int"), (3, "int"), ({"a": "b"}, "dict"), (np.ones(2), "float64")):
        with pytest.raises(InputError, match=f"reads text; this is {kind}: give a text, or a list"):
            attnflow.explain(given, encoder)


@pytest.mark.parametrize("trainable", [True, False])
def test_the_model_is_as_before(trainable):
    model = tiny.build("bert", head=tf.BertForSequenceClassification).requires_grad_(trainable)
    model.train()
    attnflow.explain(TEXTS, (model, tiny.word_piece()), method="raw")
    assert all(module.training for module in model.modules())
    assert all(p.requires_grad == trainable and p.grad is None for p in model.parameters())


def test_no_model_is_the_shipped_one():
    plural = attnflow.explain("the keys to the cabinet")
    singular = attnflow.explain("the key to the cabinets")
    assert (plural.prediction.label, singular.prediction.label) == ("plural", "singular")
    assert plural.tokens == ("[CLS]", "the", "keys", "to", "the", "cabinet")
    assert plural.layers == (1, 2, 3, 4, 5, 6)
    assert plural.statistics["model"]["head"] == "classifier"
