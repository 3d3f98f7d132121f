"""What is used where no edges and no method are named."""

import json

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.edges import EDGE_RULES
from attnflow.errors import InputError, ModelError
from attnflow.methods import METHODS, Method
from attnflow.models.loading import load_model
from attnflow.pipeline import choice
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.records.learned import LearnedHeads

TEXT = "the keys to the cabinet are here"


def classifier(kind=tf.BertForSequenceClassification, config=tf.BertConfig, **more):
    torch.manual_seed(0)
    network = kind(config(**tiny.USUAL, initializer_range=0.5, num_labels=3, **more)).eval()
    return load_model((network, tiny.word_piece()))


@pytest.fixture(scope="module")
def encoder():
    return classifier()


@pytest.fixture(scope="module")
def decoder():
    torch.manual_seed(0)
    network = tf.LlamaForCausalLM(tf.LlamaConfig(**tiny.DECODER, initializer_range=0.5)).eval()
    return load_model((network, tiny.plain()))


def used(found):
    return found.options["edges"], found.method


def bare():
    torch.manual_seed(0)
    return load_model((tf.LlamaModel(tf.LlamaConfig(**tiny.DECODER)).eval(), tiny.plain()))


def test_every_kind_of_model_has_flow_on_relevance(encoder, decoder):
    pair = tiny.build("t5"), tiny.word_piece()
    found = [
        attnflow.explain(TEXT, encoder),
        attnflow.explain(TEXT, encoder, target=2),
        attnflow.explain(TEXT, encoder, target=2, contrast=0),
        attnflow.explain(TEXT, encoder, words=True),
        attnflow.explain(TEXT, encoder, heads=[1]),
        attnflow.explain(TEXT, decoder),
        attnflow.explain(TEXT, decoder, query=2),
        attnflow.explain(TEXT, decoder, target=3, contrast=4),
        attnflow.explain(TEXT, pair, answer="a cat"),
    ]
    for each in found:
        assert used(each) == choice.DEFAULT == ("relevance", "flow")
        assert each.layers == (each.depth,)
        assert len(each.queries) >= 1
    assert not found[0].warnings


def test_a_whole_answer_has_it_too(decoder):
    found = attnflow.explain_answer(TEXT, decoder, generate=3)
    assert (found.options["edges"], found.method) == choice.DEFAULT


def test_decoders_leave_the_sink_out(decoder):
    gpt = classifier(
        tf.GPT2ForSequenceClassification, tf.GPT2Config, n_embd=32, n_layer=3, n_head=4
    )
    for model in (decoder, gpt):
        found = attnflow.explain(TEXT, model)
        assert found.options["correction"] == "sink"
        named = attnflow.explain(TEXT, model, edges="relevance", method="flow", correction="sink")
        np.testing.assert_array_equal(found.values, named.values)
        assert attnflow.explain(TEXT, model, correction=None).options["correction"] is None
    assert used(attnflow.explain(TEXT, gpt)) == choice.DEFAULT


def test_named_pairs_are_as_they_are_named(encoder):
    assert used(attnflow.explain(TEXT, encoder, edges="norms", method="flow")) == ("norms", "flow")
    default = attnflow.explain(TEXT, encoder)
    named = attnflow.explain(TEXT, encoder, edges="relevance", method="flow")
    np.testing.assert_array_equal(default.values, named.values)


@pytest.mark.parametrize("method", METHODS)
def test_a_method_named_alone_has_its_own_edges(encoder, method):
    found = attnflow.explain(TEXT, encoder, method=method)
    member = METHODS[method]
    if member.reads_edges:
        assert used(found) == (member.edges, method)
        assert (member.edges == "attention") == (method not in ("additive", "direct", "direct-all"))
    else:
        assert "edges" not in found.options


@pytest.mark.parametrize("edges", EDGE_RULES)
def test_edges_named_alone_have_the_method_that_reads_them_best(encoder, edges):
    found = attnflow.explain(TEXT, encoder, edges=edges)
    assert used(found) == (edges, EDGE_RULES[edges].method)


def test_a_target_needs_edges_that_see_it(encoder):
    found = attnflow.explain(TEXT, encoder, target=2, contrast=0)
    assert found.options["target"] == "LABEL_2"
    with pytest.raises(InputError, match="target=2 does not apply to edges='attention'"):
        attnflow.explain(TEXT, encoder, method="flow", target=2)


REFUSED = [
    ({"heads": "each"}, "heads='each' does not apply to"),
    ({"residual": 0.3}, "residual=0.3 does not apply to"),
    ({"discard": 0.1}, "discard=0.1 does not apply to"),
    ({"normalize": True}, "normalize=True does not apply to"),
    ({"layer": 1}, "above layer 3"),
    ({"layers": [1, 3]}, "above layer 3"),
    ({"query": "all"}, "query='all' does not apply to"),
    ({"query": 2}, "read at position 0"),
]


@pytest.mark.parametrize(("options", "why"), REFUSED)
def test_options_that_the_default_has_not_choose_the_papers(encoder, options, why):
    found = attnflow.explain(TEXT, encoder, **options)
    assert used(found) == choice.PAPER
    assert found.warnings[-1].startswith("attention and flow are used, as in the paper: ")
    assert why in found.warnings[-1]
    assert "leave" not in found.warnings[-1]  # nobody named the edges
    expected = attnflow.explain(TEXT, encoder, edges="attention", method="flow", **options)
    np.testing.assert_array_equal(found.values, expected.values)


def test_with_a_target_attention_gives_way_to_what_sees_it(encoder):
    found = attnflow.explain(TEXT, encoder, target=2, residual=0.3)
    assert used(found) == choice.PAPER_WITH_TARGET
    assert found.warnings[-1].startswith("edges 'gradient' are used instead of 'relevance': ")


def test_all_layers_are_all_that_there_are(encoder):
    found = attnflow.explain(TEXT, encoder, layers="all")
    assert (used(found), found.layers) == (choice.DEFAULT, (found.depth,))


def test_models_that_refuse_have_attention_and_say_why():
    plain = bare()
    found = attnflow.explain(TEXT, plain)
    assert used(found) == choice.PAPER
    assert "no head that predicts" in found.warnings[-1]
    with pytest.raises(ModelError, match="no head that predicts"):
        attnflow.explain(TEXT, plain, edges="gradient", method="direct")
    strict = attnflow.explain(TEXT, plain, strict=True)  # it is no warning about the model
    assert used(strict) == choice.PAPER


def test_one_text_alone_falls_back(encoder, monkeypatch):
    """The backward pass of one text may be refused: the others keep theirs."""
    run = type(encoder).run

    def picky(self, batch, query, spec, objectives=()):
        if spec.relevance and any(len(each) == 4 for each in batch):
            msg = "not this one. Use edges='attention'"
            raise ModelError(msg)
        return run(self, batch, query, spec, objectives)

    monkeypatch.setattr(type(encoder), "run", picky)
    found = attnflow.explain([TEXT, "a cat"], encoder)
    assert [used(one) for one in found] == [choice.DEFAULT, choice.PAPER]
    assert found[1].warnings[-1].endswith("as in the paper: not this one")
    alone = attnflow.explain("a cat", encoder, method="flow")
    np.testing.assert_allclose(found[1].values, alone.values, atol=1e-6)


def test_routes_are_of_flow_through_the_measured_edges(encoder, decoder):
    for model in (encoder, decoder):
        traced = attnflow.routes(TEXT, model, to="keys")
        assert (traced.options["edges"], traced.method) == choice.DEFAULT
        named = attnflow.routes(TEXT, model, to="keys", edges="relevance", method="flow")
        assert traced.value == named.value
        assert traced.cut


def test_the_document_names_both(encoder):
    view = open_session(TEXT, encoder, Request(), all_heads=True)
    assert used(view.attribution()) == choice.DEFAULT
    document = attnflow.explore(TEXT, encoder).document
    assert document["method"] == "relevance-flow"
    assert document["views"][0]["rule"] == {"name": "relevance", "title": "Relevance"}
    json.dumps(document)


def test_auto_is_no_name_of_a_member():
    with pytest.raises(InputError, match="stands for the default"):
        METHODS.register(Method("auto", "Auto", lambda *_: None))


@pytest.mark.parametrize("kind", ["classifier", "encoder"])
def test_a_list_has_what_each_has_alone(encoder, kind):
    """Whatever comes first: a text of one token, or one with a target of its own."""
    model = encoder
    if kind == "classifier":
        network = tiny.build("gpt2", head=tf.GPT2ForSequenceClassification)
        network.config.pad_token_id = 0
        model = load_model((network, tiny.plain()))
    texts, targets = ["keys", TEXT, "a cat"], [1, None, None]
    for given in (None, targets, [None] * 3):
        together = attnflow.explain(texts, model, target=given)
        for text, target, found in zip(texts, given or [None] * 3, together, strict=True):
            alone = attnflow.explain(text, model, target=target)
            assert used(found) == used(alone)
            # Logits, of which single precision knows six digits.
            np.testing.assert_allclose(found.values, alone.values, rtol=1e-5, atol=1e-6)


def test_a_list_of_no_targets_is_no_target(encoder):
    found = attnflow.explain([TEXT, "a cat"], encoder, method="flow", target=[None, None])
    assert used(found[0]) == choice.PAPER
    with pytest.raises(InputError, match="target=2 does not apply to"):
        attnflow.explain([TEXT, "a cat"], encoder, method="flow", target=[None, 2])


def test_learned_heads_bring_their_edges(decoder):
    heads = LearnedHeads(((1.0,) * decoder.heads,) * decoder.depth, decoder.name)
    found = attnflow.explain(TEXT, decoder, heads=heads, method="direct")
    assert (found.options["edges"], found.method) == ("attention", "direct")


def test_a_model_that_predicts_a_number_is_said_to():
    config = tf.BertConfig(**tiny.USUAL, num_labels=1, problem_type="regression")
    model = load_model((tf.BertForSequenceClassification(config).eval(), tiny.word_piece()))
    found = attnflow.explain(TEXT, model)
    assert (found.options["edges"], found.method) == ("attention", "flow")
    assert "predicts a number" in found.warnings[-1]
    with pytest.raises(ModelError, match=r"predicts a number.* use edges='attention'"):
        attnflow.explain(TEXT, model, edges="relevance")
