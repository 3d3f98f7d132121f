"""`attnflow.knockout`: which edges are meant, what is measured, and what is refused."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import transformers as tf
from PIL import Image
from transformers import ViTImageProcessorPil

import attnflow
import families
import heard
import knocked
import talkers
import tiny
from attnflow import Edges
from attnflow.errors import InputError, ModelError
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.knockout import survey
from attnflow.models.loading import load_model
from attnflow.pipeline.edge_sets import EdgeReader, candidates, draw
from attnflow.records import Edge, Prediction, Route
from attnflow.records.knockout import Knockout, Outcome

TEXT = "the playing cat is on the mat"  # [CLS] the play ##ing cat is on the mat [SEP]
SIZE, DEPTH, HEADS = 10, 3, 4


@pytest.fixture(scope="module")
def classifier():
    network = families.build("bert", head=tf.BertForSequenceClassification)
    return load_model((network, tiny.word_piece()))


@pytest.fixture(scope="module")
def decoder():
    return load_model((families.build("llama"), tiny.plain()))


def edges_of(model, text=TEXT, **answer):
    (forward,) = model.run([model.tokenize(text, **answer)], None, CaptureSpec())
    found, _ = survey(model, forward, lambda: model.logits([forward.tokens], [forward.query]))
    return found


def removal(model, given, text=TEXT, **answer):
    """The edges that are meant, ``[step, query, key]`` or ``[step, head, query, key]``."""
    edges = edges_of(model, text, **answer)
    reader = EdgeReader(edges.tokens, model.depth, model.heads, len(edges.steps), model.name)
    found = reader.read(given).of(edges)
    heads = (edges.heads[0],) if found.per_head else ()
    nothing = np.zeros((*heads, edges.steps[0].size, edges.steps[0].size), bool)
    steps = np.stack([nothing if each is None else each for each in found.steps])
    assert found.count == steps.sum() > 0
    return steps


def between(queries, keys, layers=range(1, DEPTH + 1), size=SIZE):
    mask = np.zeros((DEPTH, size, size), bool)
    for layer in layers:
        mask[layer - 1][np.ix_(list(queries), list(keys))] = True
    return mask


def everyone_but(*tokens):
    return [at for at in range(SIZE) if at not in tokens]


# -- which edges are meant


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("cat", between(everyone_but(4), [4])),
        (Edges(keys="cat"), between(everyone_but(4), [4])),
        (Edges(keys=4, own=True), between(range(SIZE), [4])),
        (Edges(queries="CLS"), between([0], everyone_but(0))),
        (Edges(queries="[CLS]", keys="cat"), between([0], [4])),
        (Edges(queries=0, keys=["cat", "mat"], layers=2), between([0], [4, 8], [2])),
        (Edges(keys="cat", layers=range(2, 4)), between(everyone_but(4), [4], [2, 3])),
        (Edges(keys="cat", layers=-1), between(everyone_but(4), [4], [3])),
        # a word in pieces, and a stretch of the text: within themselves they go on reading
        (Edges(keys="playing"), between(everyone_but(2, 3), [2, 3])),
        (Edges(keys="cat is on"), between(everyone_but(4, 5, 6), [4, 5, 6])),
        (Edges(keys="playing", own=True), between(range(SIZE), [2, 3])),
        (Edges(keys=["the:1", -1]), between(everyone_but(1, 9), [1, 9])),
        # whole layers lose own edges, too
        (Edges(layers=2), between(range(SIZE), range(SIZE), [2])),
        ((2, 0, 4), between([0], [4], [2])),
        ((2, "CLS", "cat"), between([0], [4], [2])),
        ((2, 4, 4), between([4], [4], [2])),
        ([(1, 0, 4), (3, 5, 6)], between([0], [4], [1]) | between([5], [6], [3])),
        ([Edges(keys="cat"), "mat"], between(everyone_but(4), [4]) | between(everyone_but(8), [8])),
        ([Edge(2, 0, 4, 0.5), Edge(1, 4, 4, 0.5)], between([0], [4], [2])),
        (Route((0, 0, 4, 4), 0.1), between([0], [4], [2])),
        (between([1], [2, 3], [1, 3]), between([1], [2, 3], [1, 3])),
        (torch.from_numpy(between([1], [1], [1])), between([1], [1], [1])),
        (np.repeat(between([1], [2, 3])[:, None], HEADS, 1), None),
    ],
    ids=str,
)  # fmt: skip
def test_edges_are_those_that_are_meant(given, expected, classifier):
    found = removal(classifier, given)
    if expected is None:  # the same in each head
        expected = np.asarray(given)
    np.testing.assert_array_equal(found, expected)


def test_own_edges_stay_between_two_sets_that_share_a_token(classifier):
    found = removal(classifier, Edges(queries=[1, 2], keys=[2, 3]))
    expected = between([1, 2], [2, 3])
    expected[:, 2, 2] = False
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        removal(classifier, Edges(queries=[1, 2], keys=[2, 3], own=True)), between([1, 2], [2, 3])
    )
    whole = between(range(SIZE), range(SIZE), [1])
    whole[:, range(SIZE), range(SIZE)] = False
    np.testing.assert_array_equal(removal(classifier, Edges(layers=1, own=False)), whole)


def test_single_heads_lose_what_is_meant(classifier):
    found = removal(classifier, [Edges(layers=2, heads=3), (1, 0, 4, 1), (3, 0, 5)])
    assert found.shape == (DEPTH, HEADS, SIZE, SIZE)
    expected = np.zeros_like(found)
    expected[1, 3] = True
    expected[0, 1, 0, 4] = True
    expected[2, :, 0, 5] = True  # in all heads
    np.testing.assert_array_equal(found, expected)


def test_masked_edges_are_none(decoder):
    found = removal(decoder, Edges(keys=2), tiny.TEXT)
    assert found.sum() == DEPTH * 4  # by the four tokens behind it
    assert not np.triu(found, 1).any()
    with pytest.raises(InputError, match=r"no edge \(1, 2, 5\): position 2 does not see"):
        removal(decoder, (1, 2, 5), tiny.TEXT)
    with pytest.raises(InputError, match=r"nothing to remove: “here” hidden.*no position sees"):
        removal(decoder, "here", tiny.TEXT)


def test_layers_of_an_encoder_decoder_are_encoder_then_decoder_with_both_attentions():
    model = load_model((families.build("t5"), tiny.plain()))
    options = {"text": tiny.TEXT, "answer": "a key"}
    size = 7 + 3
    step = {"encoder 3": 2, "own 1": 3, "cross 1": 4, "own 2": 5, "cross 2": 6}
    found = removal(model, Edges(layers=4), **options)
    assert list(found.any((1, 2)).nonzero()[0]) == [step["own 1"], step["cross 1"]]
    found = removal(model, Edges(layers=[3, 5], keys=2, queries=8), **options)
    assert np.argwhere(found).tolist() == [[step["cross 2"], 8, 2]]
    found = removal(model, (4, 8, 7), **options)
    assert np.argwhere(found).tolist() == [[step["own 1"], 8, 7]]
    # of a graph, steps stand for layers
    found = removal(model, [Edge(5, 8, 2, 0.1)], **options)
    assert np.argwhere(found).tolist() == [[step["cross 1"], 8, 2]]
    for count in (5, 7):
        mask = np.zeros((count, size, size), bool)
        mask[-1, 8, 2] = True
        found = removal(model, mask, **options)
        assert np.argwhere(found).tolist() == [[step["cross 2"], 8, 2]]


def test_random_edges_are_as_many_of_those_that_the_model_has(decoder):
    edges = edges_of(decoder, tiny.TEXT)
    reader = EdgeReader(edges.tokens, DEPTH, HEADS, DEPTH, decoder.name)
    visible = np.tri(7, dtype=bool)
    for given, own, unit in (
        (Edges(keys=1), False, DEPTH * 21),
        (Edges(layers=2), True, DEPTH * 28),
        (Edges(keys=1, heads=2), False, DEPTH * HEADS * 21),
    ):
        like = reader.read(given).of(edges)
        assert sum(int(each.sum()) for each in candidates(edges, like)) == unit
        seen = []
        for seed in range(40):
            drawn = draw(candidates(edges, like), like, np.random.default_rng(seed))
            steps = [each for each in drawn.steps if each is not None]
            assert sum(each.sum() for each in steps) == like.count
            assert not any((each & ~visible).any() for each in steps)
            on_own = sum(np.trace(each, axis1=-2, axis2=-1).sum() for each in steps)
            assert own or not on_own
            seen.append([0 if each is None else int(each.sum()) for each in drawn.steps])
        again = draw(candidates(edges, like), like, np.random.default_rng(3))
        assert [0 if each is None else int(each.sum()) for each in again.steps] == seen[3]
        means = np.mean(seen, 0) / like.count
        np.testing.assert_allclose(means, 1 / DEPTH, atol=0.1)  # in every layer as often


# -- what is measured


def oracle(model, eager, given, text=TEXT, **answer):
    """The first output of an eager model with masked scores."""
    edges = edges_of(model, text, **answer)
    blocks = []
    for step, mask in zip(edges.steps, removal(model, given, text, **answer), strict=True):
        shape = (HEADS, len(step.queries), len(step.keys))
        blocks.append(torch.from_numpy(np.broadcast_to(mask[step.block], shape).copy()))
    return knocked.eager_without(eager, model.inputs([edges.tokens]), blocks)[0]


def test_a_label_before_and_after(classifier):
    eager = families.build("bert", "eager", head=tf.BertForSequenceClassification)
    found = attnflow.knockout(TEXT, classifier, edges="cat", random=3)
    with torch.no_grad():
        before = eager(**classifier.inputs([classifier.tokenize(TEXT)])).logits[0].softmax(-1)
    after = oracle(classifier, eager, "cat").softmax(-1)
    best = int(before.argmax())
    label = eager.config.id2label[best]
    assert found.target == found.before.prediction.label == label
    assert found.before.probability == pytest.approx(float(before[best]), abs=1e-9)
    assert found.after.probability == pytest.approx(float(after[best]), abs=1e-9)
    assert found.change == pytest.approx(float((after[best] / before[best]).log()), abs=1e-9)
    assert found.after.prediction.probability == pytest.approx(float(after.max()), abs=1e-9)
    assert (found.removed, found.total) == (DEPTH * 9, DEPTH * 90)
    assert len(found.random) == 3
    assert len({each.log_probability for each in found.random}) == 3
    assert found.tokens[:3] == ("[CLS]", "the", "play")
    other = attnflow.knockout(TEXT, classifier, edges="cat", target=1 - best)
    assert other.after.probability == pytest.approx(1 - found.after.probability, abs=1e-9)
    assert other.before.prediction == found.before.prediction


def test_a_contrast_is_the_difference_of_logits(classifier):
    eager = families.build("bert", "eager", head=tf.BertForSequenceClassification)
    after = oracle(classifier, eager, "cat")
    found = attnflow.knockout(TEXT, classifier, edges="cat", target=0, contrast=1)
    assert found.after.margin == pytest.approx(float(after[0] - after[1]), abs=1e-9)
    assert found.change == found.after.margin - found.before.margin
    with pytest.raises(InputError, match="same, 0"):
        attnflow.knockout(TEXT, classifier, edges="cat", target=0, contrast=0)
    best = int(found.before.margin < 0)
    with pytest.raises(InputError, match="is the target itself"):
        attnflow.knockout(TEXT, classifier, edges="cat", contrast=best)


def test_several_labels_have_probabilities_of_their_own():
    network = families.build("bert", head=tf.BertForSequenceClassification)
    network.config.problem_type = "multi_label_classification"
    model = load_model((network, tiny.word_piece()))
    found = attnflow.knockout(TEXT, model, edges="cat", target=1, random=0)
    eager = families.build("bert", "eager", head=tf.BertForSequenceClassification)
    assert found.independent
    after = oracle(model, eager, "cat")[1].sigmoid()
    assert found.after.probability == pytest.approx(float(after), abs=1e-9)


def test_the_next_token_of_a_language_model(decoder):
    eager = families.build("llama", "eager")
    logits = oracle(decoder, eager, "keys", tiny.TEXT)
    found = attnflow.knockout(tiny.TEXT, decoder, edges="keys", target="cat")
    expected = logits[-1].log_softmax(-1)[tiny.VOCABULARY.index("cat")]
    assert found.after.log_probability == pytest.approx(float(expected), abs=1e-6)
    found = attnflow.knockout(tiny.TEXT, decoder, edges="keys", target="cat", query=3)
    expected = logits[3].log_softmax(-1)[tiny.VOCABULARY.index("cat")]
    assert found.after.log_probability == pytest.approx(float(expected), abs=1e-6)
    assert found.after.prediction.position == 3


def test_an_answer_is_the_sum_over_its_tokens(decoder):
    eager = families.build("llama", "eager")
    prompt, answer = "the keys to the", "cabinet are here"
    logits = oracle(decoder, eager, "keys", f"{prompt} {answer}").log_softmax(-1)
    ids = [tiny.VOCABULARY.index(word) for word in answer.split()]
    expected = [float(logits[3 + at, number]) for at, number in enumerate(ids)]
    found = attnflow.knockout(prompt, decoder, edges="keys", answer=answer)
    assert found.after.log_probabilities == pytest.approx(expected, abs=1e-6)
    assert found.after.log_probability == pytest.approx(sum(expected), abs=1e-6)
    assert found.target == found.answer
    assert (found.answer.strip(), found.before.prediction) == (answer, None)
    own = attnflow.knockout(prompt, decoder, edges="keys", generate=3, random=1)
    written = attnflow.explain_answer(prompt, decoder, generate=3)
    assert own.answer == written.answer_text
    assert own.before.log_probabilities == pytest.approx(list(written.log_probabilities), abs=1e-6)


def test_an_answer_of_an_encoder_decoder():
    model = load_model((families.build("t5"), tiny.plain()))
    eager = families.build("t5", "eager")
    answer = "a key"
    logits = oracle(model, eager, "cabinet", tiny.TEXT, answer=answer).log_softmax(-1)
    ids = [tiny.VOCABULARY.index(word) for word in answer.split()]
    expected = [float(logits[at, number]) for at, number in enumerate(ids)]
    found = attnflow.knockout(tiny.TEXT, model, edges="cabinet", answer=answer)
    assert found.after.log_probabilities == pytest.approx(expected, abs=1e-9)
    own = attnflow.knockout(tiny.TEXT, model, edges="cabinet", random=0)
    assert own.answer == model.tokenize(tiny.TEXT).answer
    after = attnflow.knockout(tiny.TEXT, model, edges="cabinet", answer=answer, target="cat")
    expected = logits[-1, tiny.VOCABULARY.index("cat")]
    assert after.after.log_probability == pytest.approx(float(expected), abs=1e-9)
    assert after.answer is None


def test_parts_of_a_prompt_are_named_and_the_answer_reads_where_it_is_written():
    model = load_model(talkers.llama(max_position_embeddings=256, num_hidden_layers=2))
    prompt = {"keys": "the keys are red .", "cat": "the cat is on the mat ."}
    hidden = Edges(keys="keys", queries="answer")
    found = attnflow.knockout(prompt, model, edges=hidden, answer="red", random=1)
    tokens = found.tokens
    ends = len(tokens) - 1  # the answer's only token is predicted by the prompt's last
    size = tokens.index(".") + 1
    assert found.removed == 2 * size
    alone = Edges(keys=range(size), queries=ends - 1)
    again = attnflow.knockout(prompt, model, edges=alone, answer="red", random=1)
    assert again.after == found.after
    assert found.label == "“keys” hidden from “answer”"
    chat = [{"role": "user", "content": "the keys are red"}]
    said = attnflow.knockout(chat, model, edges="user", random=0)
    assert said.answer is None
    assert said.before.prediction.position == len(said.tokens) - 1


def test_other_heads_are_measured_by_what_they_say():
    tagger = tiny.build("bert", head=tf.BertForTokenClassification)
    tagger.config.id2label = {0: "O", 1: "B-THING"}
    model = load_model((tagger, tiny.word_piece()))
    found = attnflow.knockout(TEXT, model, edges="cat", query="mat", random=0)
    assert found.before.prediction.position == 8
    masked = load_model((tiny.build("bert", head=tf.BertForMaskedLM), tiny.word_piece()))
    found = attnflow.knockout("the [MASK] is here", masked, edges="here", target="cat")
    assert found.before.prediction.position == 2
    assert found.target == "cat"


def test_a_span_is_the_one_that_the_whole_model_finds():
    answerer = tiny.build("bert", head=tf.BertForQuestionAnswering)
    model = load_model((answerer, tiny.pair_piece()))
    pair = ("the cat is red", "the old mat is here")
    found = attnflow.knockout(pair, model, edges="old", random=1)
    (said,) = model.spans([model.tokenize(pair)])
    start, end = said.shares[0, said.best.start], said.shares[1, said.best.end]
    assert found.before.log_probability == pytest.approx(float(start + end))
    assert found.target == found.before.prediction.label
    first = attnflow.knockout(pair, model, edges="old", target="start", random=0)
    assert first.before.log_probability == pytest.approx(float(start))
    assert first.change != found.change


def test_images_and_sounds_have_positions():
    network = families.build("vit")
    viewer = ViTImageProcessorPil(size={"height": 32, "width": 32})
    picture = Image.fromarray(
        np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8)
    )
    found = attnflow.knockout(picture, (network, viewer), edges=Edges(keys="1,2", queries="CLS"))
    assert (found.removed, found.total) == (3, 3 * 17 * 16)
    for name in ("wav2vec2-label", "whisper"):
        model = load_model(heard.build(name))
        found = attnflow.knockout(heard.sound(), model, edges=Edges(keys=3), random=1)
        assert found.before.prediction.label == found.target
        assert found.change != 0


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_list_gives_what_each_gives_alone(attention):
    network = families.build("bert", attention, head=tf.BertForSequenceClassification)
    model = load_model((network, tiny.word_piece()))
    texts = [TEXT, "the cat", "a cat is here"]
    sets = {"the cat": "cat", "a head": Edges(layers=2, heads=1)}
    together = attnflow.knockout(texts, model, edges=sets)
    for text, found in zip(texts, together, strict=True):
        assert list(found) == list(sets)
        for name, edges in sets.items():
            alone = attnflow.knockout(text, model, edges=edges, batch_size=1)
            assert found[name].label == name
            assert (found[name].removed, found[name].total) == (alone.removed, alone.total)
            for one, other in zip(
                (found[name].after, *found[name].random), (alone.after, *alone.random), strict=True
            ):
                assert one.log_probability == pytest.approx(other.log_probability, abs=1e-9)


# -- cuts and routes


def test_a_cut_is_removed_but_for_own_edges(classifier):
    trace = attnflow.routes(TEXT, classifier, to="cat", edges="attention", method="flow")
    found = attnflow.knockout(TEXT, classifier, edges=trace)
    others = [edge for edge in trace.cut if edge.query != edge.key]
    assert (found.removed, found.kept) == (len(others), len(trace.cut) - len(others))
    assert found.label == "the cut between “cat” and “[CLS]”"
    for same in (trace.cut, [(edge.layer, edge.query, edge.key) for edge in others]):
        again = attnflow.knockout(TEXT, classifier, edges=same)
        assert again.after == found.after
        assert again.random == found.random
    route = next(each for each in trace.routes if len(set(each.positions)) > 1)
    steps = sum(a != b for a, b in pairwise(route.positions))
    assert attnflow.knockout(TEXT, classifier, edges=route).removed == steps


def test_a_cut_of_the_logit_leaves_the_logits_edges():
    text = "the keys to the cabinet are"
    network = families.build("llama", precision=torch.float32)
    model = load_model((network, tiny.plain()))
    trace = attnflow.routes(text, model, to="keys", edges="alti", method="flow", source="logit")
    size = len(trace.tokens) - 1
    of_logit = [edge for edge in trace.cut if edge.query == size]
    others = [edge for edge in trace.cut if edge.query not in (size, edge.key)]
    if others:
        found = attnflow.knockout(text, model, edges=trace)
        assert found.removed == len(others)
        assert found.kept == len(trace.cut) - len(others) >= len(of_logit)
    else:
        with pytest.raises(InputError, match="nothing to remove"):
            attnflow.knockout(text, model, edges=trace)
    mixed = [*trace.cut, Edge(2, size, 1, 0.1), Edge(2, 3, 1, 0.1)]
    assert attnflow.knockout(text, model, edges=mixed).removed == len(others) + 1


def test_what_is_of_another_text_or_has_no_cut_is_refused(classifier):
    trace = attnflow.routes("the cat", classifier, to="cat", method="flow", edges="attention")
    with pytest.raises(InputError, match="is of another text: its tokens are"):
        attnflow.knockout(TEXT, classifier, edges=trace)
    trace = attnflow.routes(TEXT, classifier, to="cat", method="rollout", edges="attention")
    with pytest.raises(InputError, match="has no cut, which method='rollout' does not find"):
        attnflow.knockout(TEXT, classifier, edges=trace)
    trace = attnflow.routes(TEXT, classifier, to="cat", method="flow", edges="attention")
    network = tiny.build("electra", head=tf.ElectraForSequenceClassification)
    other = load_model((network, tiny.word_piece()))
    with pytest.raises(InputError, match="is of BertForSequenceClassification, and this model is"):
        attnflow.knockout(TEXT, other, edges=trace)
    with pytest.raises(InputError, match=r"nothing to remove: the route “cat”.*own edges stay"):
        attnflow.knockout(TEXT, classifier, edges=Route((4, 4, 4, 4), 0.1))


def test_the_cut_of_an_encoder_decoder_is_counted_in_steps():
    model = load_model((families.build("t5"), tiny.plain()))
    options = {"edges": "attention", "method": "flow", "answer": "a key"}
    trace = attnflow.routes(tiny.TEXT, model, to="cabinet", **options)
    found = attnflow.knockout(tiny.TEXT, model, edges=trace, answer="a key")
    edges = edges_of(model, tiny.TEXT, answer="a key")
    real = [
        edge
        for edge in trace.cut
        if edge.query != edge.key and edges.visible[edge.layer - 1][edge.query, edge.key]
    ]
    assert found.removed == len(real) > 0


# -- what is refused, before the model runs


class Unrun(Exception):  # noqa: N818 - a signal
    pass


@pytest.fixture
def unrun(classifier, monkeypatch):
    """A model that must not be run."""

    def fail(*args, **kwargs):
        raise Unrun

    monkeypatch.setattr(type(classifier.network), "forward", fail)
    return classifier


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edges": "dog"}, "keys='dog' is not one of the tokens; give one"),
        ({"edges": "the"}, "keys='the' occurs at 1, 7; give the position, or 'the:1'"),
        ({"edges": Edges(queries=10)}, "queries=10 does not exist; there are 10 tokens"),
        ({"edges": Edges(layers=4)}, "layers=4 does not exist here; allowed: 1 to 3"),
        ({"edges": Edges(layers=0)}, "layers=0 does not exist here; allowed: 1 to 3"),
        ({"edges": Edges(heads=4)}, "heads=4 does not exist here; allowed: 0 to 3"),
        ({"edges": (4, 0, 1)}, "layer=4 does not exist here"),
        ({"edges": (1, 0, 1, 9)}, "head=9 does not exist here"),
        ({"edges": [Edge(4, 0, 1, 0.1)]}, "layer=4 does not exist here"),
        ({"edges": []}, "has no edges; allowed: Edges"),
        ({"edges": {}}, "at least one set of edges"),
        ({"edges": {1: "cat"}}, "each by its name"),
        ({"edges": 2.5}, "edges=2.5 is float; allowed: Edges"),
        ({"edges": None}, "edges=None is NoneType; allowed"),
        ({"edges": np.ones((3, 10, 10))}, "float64 of shape \\(3, 10, 10\\); a mask is of bool"),
        ({"edges": np.ones((2, 10, 10), bool)}, "3 layers and 10 × 10 positions here"),
        ({"edges": "cat", "target": "dog"}, "target='dog' is not a label"),
        ({"edges": "cat", "contrast": 1.5}, "contrast=1.5 must be"),
        ({"edges": "cat", "random": -1}, "random=-1 must be an integer from 0 to 1000"),
        ({"edges": "cat", "seed": -1}, "seed=-1 must be an integer of at least 0"),
        ({"edges": "cat", "batch_size": 0}, "batch_size=0 must be"),
        ({"edges": "cat", "query": "all"}, "query='all' does not apply to knockout"),
        ({"edges": "cat", "answer": "a cat"}, "generate= and answer= are for causal"),
        ({"edges": "cat", "generate": 3}, "generate= and answer= are for causal"),
        (
            {"edges": "cat", "parts": {"a": "cat"}},
            "parts={'a': 'cat'} .* it answers no prompts",
        ),
        ({"edges": "cat", "bos": True}, "bos=True is for causal language models"),
        ({"edges": "cat", "truncate": 1}, "truncate=1 must be True or False"),
        ({"edges": "cat", "sampling_rate": 3}, "sampling_rate=3 is for sounds"),
    ],
    ids=str,
)
def test_what_can_not_be_is_refused_before_the_model_runs(options, message, unrun):
    with pytest.raises((InputError, ModelError), match=message):
        attnflow.knockout(TEXT, unrun, **options)


def test_the_model_would_have_run(unrun):
    with pytest.raises(Unrun):
        attnflow.knockout(TEXT, unrun, edges="cat")


def test_a_position_is_refused_where_the_whole_input_has_a_label(classifier):
    with pytest.raises(InputError, match=r"query=2 does not apply to .*label of the whole input"):
        attnflow.knockout(TEXT, classifier, edges="cat", query=2)


def test_answers_have_no_target(decoder):
    with pytest.raises(InputError, match="target='cat' does not apply to a whole answer"):
        attnflow.knockout(tiny.TEXT, decoder, edges="keys", answer="cat", target="cat")


def test_models_that_predict_nothing_are_refused_by_name():
    bare = (tiny.build("bert"), tiny.word_piece())
    with pytest.raises(ModelError, match="BertModel predicts nothing here"):
        attnflow.knockout(TEXT, bare, edges="cat")
    masked = (tiny.build("bert", head=tf.BertForMaskedLM), tiny.word_piece())
    with pytest.raises(ModelError, match="BertForMaskedLM predicts nothing here"):
        attnflow.knockout(TEXT, masked, edges="cat")
    regression = tiny.build("bert", head=tf.BertForSequenceClassification)
    regression.config.problem_type = "regression"
    with pytest.raises(ModelError, match="predicts nothing here"):
        attnflow.knockout(TEXT, (regression, tiny.word_piece()), edges="cat")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "3"}, "layers='3' holds '3'; layers are integers"),
        ({"layers": []}, r"layers=\[\] is empty"),
        ({"heads": 1.5}, "heads=1.5 holds 1.5; heads are integers"),
        ({"heads": True}, "heads=True holds True"),
        ({"keys": [None]}, "holds None; keys are positions, or names of tokens"),
        ({"queries": {"cat"}}, "queries are positions"),
        ({"own": 1}, "own=1 must be True or False"),
    ],
    ids=str,
)
def test_edges_are_checked_when_they_are_made(options, message):
    with pytest.raises(InputError, match=message):
        Edges(**options)


# -- the record


def record(**more):
    said, says = Prediction("positive", 0.9), Prediction("negative", 0.6)
    before, after = Outcome(math.log(0.9), said), Outcome(math.log(0.4), says)
    random = (Outcome(math.log(0.88), said), Outcome(math.log(0.9), said))
    given = {"label": "“not” hidden", "target": "positive", "random": random, "total": 700}
    return Knockout(**{"removed": 31, "before": before, "after": after, **given, **more})


def test_a_summary_says_it_in_one_sentence():
    assert record().summary == (
        "without these 31 edges: positive 90.0 % → 40.0 %, and the prediction becomes “negative”; "
        "without 31 random edges: 89.0 %"
    )
    assert record(random=(), removed=1).summary.startswith("without this edge: positive 90.0 %")
    heads = record(per_head=True, removed=1200, total=5000).summary
    assert heads.startswith("without these 1,200 edges of single heads: ")
    answer = record(answer="Paris .", target="Paris .", random=()).summary
    assert "the answer “Paris .” 90.0 % → 40.0 %" in answer
    rare = record(before=Outcome(-9.0), after=Outcome(-12.5), random=(Outcome(-9.1),)).summary
    assert rare == (
        "without these 31 edges: log-probability of positive −9.00 → −12.5; "
        "without 31 random edges: −9.10"
    )
    margin = record(
        contrast="negative",
        before=Outcome(-0.1, margin=2.0),
        after=Outcome(-0.9, margin=-0.5),
        random=(Outcome(-0.1, margin=1.0), Outcome(-0.1, margin=3.0)),
    )
    own = record(independent=True, random=()).summary
    assert (
        own == "without these 31 edges: positive 90.0 % → 40.0 %, and the label no longer applies"
    )
    low = {"before": Outcome(-1.0), "after": Outcome(-0.1), "independent": True, "random": ()}
    assert record(**low).summary.endswith(" → 90.5 %, and the label now applies")
    assert record(**{**low, "after": Outcome(-2.0)}).summary.endswith(" → 13.5 %")
    assert "rather than negative, difference of logits 2.00 → −0.500;" in margin.summary
    assert margin.summary.endswith("random edges: 2.00")
    assert margin.change == -2.5
    assert margin.random_change == 0.0
    assert math.isnan(record(random=()).random_change)
    assert repr(record()).startswith("<Knockout: “not” hidden; without these 31 edges: ")


def test_it_is_saved_and_loaded_without_loss(classifier, decoder, tmp_path):
    for number, found in enumerate(
        (
            attnflow.knockout(TEXT, classifier, edges="cat", target=0, contrast=1),
            attnflow.knockout(tiny.TEXT, decoder, edges="keys", answer="cat is", random=2),
        )
    ):
        path = found.save(tmp_path / f"{number}.json")
        again = Knockout.load(path)
        assert again.to_dict() == found.to_dict()
        assert (again.before, again.after, again.random) == (
            found.before,
            found.after,
            found.random,
        )
        with pytest.raises(InputError, match="exists; choose another name"):
            found.save(path)
    both = tmp_path / "both.json"
    both.write_bytes((tmp_path / "0.json").read_bytes() + (tmp_path / "1.json").read_bytes())
    assert len(Knockout.load_all(both)) == 2
    with pytest.raises(InputError, match=r"holds 2 knockouts; read them with Knockout\.load_all"):
        Knockout.load(both)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"record": "generation"}, "this is not a knockout of format 1"),
        ({"removed": 701}, "removed=701 must be an integer from 1 to 700"),
        ({"after": {"log_probability": "x"}}, "log_probability='x' must be a finite number"),
        ({"random": 3}, "random=3 must be a list"),
        ({"more": 3}, "it has unknown more"),
        ({"before": {"log_probability": -1.0, "log_probabilities": 2}}, "must be a list"),
    ],
)
def test_a_file_that_is_none_is_refused(change, message, tmp_path):
    import json

    path = tmp_path / "knockout.json"
    path.write_text(json.dumps({**record().to_dict(), **change}))
    with pytest.raises(InputError, match=message):
        Knockout.load(path)
