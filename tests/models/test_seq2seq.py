"""Encoder–decoder graphs, against the explicit graph solved by networkx."""

import copy

import networkx as nx
import numpy as np
import pytest
import torch
import transformers as tf
from tokenizers import decoders, processors

import attnflow
import tiny
from attnflow.errors import CaptureError, InputError
from attnflow.models.loading import load_model
from attnflow.models.pair.sides import make_steps
from attnflow.models.text.answers import read_answer


@pytest.fixture(scope="module")
def tokenizer():
    built = tiny.word_piece()
    built.eos_token = "[SEP]"
    return built


def attention_of(name, tokenizer, target):
    """Encoder, decoder and cross-attention with heads averaged, from eager attention."""
    source = tokenizer(tiny.TEXT, return_tensors="pt")
    model = tiny.build(name, "eager")
    start = model.config.decoder_start_token_id
    ids = [start, *tokenizer(target)["input_ids"][:-1]]
    with torch.no_grad():
        output = model(**source, decoder_input_ids=torch.tensor([ids]), output_attentions=True)
    parts = (output.encoder_attentions, output.decoder_attentions, output.cross_attentions)
    return [[layer[0].mean(0).double().numpy() for layer in part] for part in parts]


def explicit_graph(encoder, decoder, cross, residual=0.5):
    """One node for every position of every sub-layer; encoder output nodes exist once."""
    graph = nx.DiGraph()

    def connect(above, below, weights, share):
        for i, row in enumerate(weights):
            for j, weight in enumerate(row):
                if weight > 0:
                    graph.add_edge((above, i), (below, j), capacity=(1 - share) * weight)

    def carry(above, below, size):
        for i in range(size):
            old = graph.get_edge_data((above, i), (below, i), {"capacity": 0})["capacity"]
            graph.add_edge((above, i), (below, i), capacity=old + residual)

    for number, weights in enumerate(encoder, 1):
        connect(f"e{number}", f"e{number - 1}", weights, residual)
        carry(f"e{number}", f"e{number - 1}", len(weights))
    top = f"e{len(encoder)}"
    for number, (own, to_source) in enumerate(zip(decoder, cross, strict=True), 1):
        connect(f"s{number}", f"c{number - 1}", own, residual)
        carry(f"s{number}", f"c{number - 1}", len(own))
        connect(f"c{number}", top, to_source, residual)
        carry(f"c{number}", f"s{number}", len(own))
    return graph


@pytest.mark.parametrize("name", tiny.PAIRS)
def test_flow_is_the_maximum_flow_of_the_explicit_graph(name, tokenizer):
    target = "the cat is"
    model = (tiny.build(name), tokenizer)
    found = attnflow.explain(tiny.TEXT, model, answer=target, query="all", layers="all")
    encoder, decoder, cross = attention_of(name, tokenizer, target)
    graph = explicit_graph(encoder, decoder, cross)
    source, size = len(encoder[0]), len(found.tokens)
    inputs = [("e0", i) for i in range(source)] + [("c0", i) for i in range(size - source)]
    for depth in (1, len(decoder)):
        for position in (size - 1, source + 1):
            start = (f"c{depth}", position - source)
            expected = [nx.maximum_flow_value(graph, start, sink) for sink in inputs]
            row = found.row(len(encoder) + depth, position)
            np.testing.assert_allclose(row, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", tiny.PAIRS)
def test_rollout_follows_every_path_of_the_explicit_graph(name, tokenizer):
    target = "the cat is"
    model = (tiny.build(name), tokenizer)
    found = attnflow.explain(tiny.TEXT, model, answer=target, method="rollout")
    encoder, decoder, cross = attention_of(name, tokenizer, target)
    half = lambda weights: 0.5 * weights + 0.5 * np.eye(len(weights))  # noqa: E731
    source = np.linalg.multi_dot([half(w) for w in reversed(encoder)])
    to_source, to_target = np.zeros((5, len(source))), np.eye(5)
    for own, over in zip(decoder, cross, strict=True):
        to_source, to_target = half(own) @ to_source, half(own) @ to_target
        to_source, to_target = 0.5 * to_source + 0.5 * over @ source, 0.5 * to_target
    expected = np.concatenate([to_source[-1], to_target[-1]])
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-6)
    assert found.values.sum() == pytest.approx(1)


def test_tokens_name_their_side_and_the_last_target_position_is_explained(tokenizer):
    model = (tiny.build("bart"), tokenizer)
    found = attnflow.explain(tiny.TEXT, model, answer="the cat is", edges="attention", layers="all")
    assert found.segments == ("source",) * 9 + ("target",) * 5
    assert found.query == len(found.tokens) - 1
    assert found.prediction.position == found.query
    assert found.layers == (1, 2, 3, 4, 5)
    assert found.options["answer"] == "the cat is"
    words = found.words()
    assert words.tokens[1:8] == tuple(tiny.TEXT.split())
    assert words.tokens[-3:] == ("the", "cat", "is")
    assert words.segments == ("source",) * 9 + ("target",) * 5


def test_raw_attention_of_a_decoder_layer_is_its_cross_attention(tokenizer):
    model = (tiny.build("bart"), tokenizer)
    found = attnflow.explain(tiny.TEXT, model, answer="the cat", method="raw")
    _, _, cross = attention_of("bart", tokenizer, "the cat")
    np.testing.assert_allclose(found.values[:9], cross[-1][-1], atol=1e-6)
    assert not found.values[9:].any()


def test_without_a_target_the_models_own_answer_is_explained(tokenizer):
    model = tiny.build("t5")
    found = attnflow.explain(tiny.TEXT, (model, tokenizer), method="rollout")
    ids = model.generate(
        **tokenizer(tiny.TEXT, return_tensors="pt"), max_new_tokens=32, do_sample=False
    )
    assert found.options["answer"] == tokenizer.decode(ids[0], skip_special_tokens=True)


def test_batches_of_pairs_equal_single_pairs(tokenizer):
    model = (tiny.build("t5"), tokenizer)
    texts = ["the cat", tiny.TEXT, "a key to the cabinet"]
    options = {"answer": "the cat is", "method": "rollout", "layers": "all"}
    together = attnflow.explain(texts, model, **options)
    for text, found in zip(texts, together, strict=True):
        alone = attnflow.explain(text, model, **options)
        assert found.tokens == alone.tokens
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-5)


def test_each_text_may_have_a_target_of_its_own(tokenizer):
    model = (tiny.build("t5"), tokenizer)
    texts, targets = ["the cat", tiny.TEXT], ["a key", "the cat is"]
    options = {"method": "rollout", "layers": "all"}
    together = attnflow.explain(texts, model, answer=targets, **options)
    assert [found.options["answer"] for found in together] == targets
    for text, target, found in zip(texts, targets, together, strict=True):
        alone = attnflow.explain(text, model, answer=target, **options)
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-5)
    with pytest.raises(InputError, match="there are 2 answers and 3 texts"):
        attnflow.explain([*texts, "a"], model, answer=targets)
    with pytest.raises(InputError, match="answer=3 is int; give the answer as text"):
        attnflow.explain(texts, model, answer=3)


def test_a_tokenizer_may_give_more_than_the_model_takes(tokenizer):
    more = copy.deepcopy(tokenizer)
    more.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    assert "token_type_ids" in more(tiny.TEXT)
    model = tiny.build("t5")
    found = attnflow.explain(tiny.TEXT, (model, more), method="raw")
    assert found.tokens == attnflow.explain(tiny.TEXT, (model, tokenizer), method="raw").tokens


def test_discard_is_refused(tokenizer):
    with pytest.raises(InputError, match="discard"):
        attnflow.explain(tiny.TEXT, (tiny.build("t5"), tokenizer), answer="a", discard=0.5)


def test_single_heads_work_through_both_sides(tokenizer):
    model = (tiny.build("bart"), tokenizer)
    options = {"heads": "each", "method": "rollout", "layers": "all"}
    found = attnflow.explain(tiny.TEXT, model, answer="the cat", **options)
    assert found.scores.shape == (5, 4, 13, 13)
    np.testing.assert_allclose(found.values.sum(-1), 1)


@pytest.mark.parametrize("name", tiny.PAIRS)
@pytest.mark.parametrize("edges", ["attention", "alti", "value-zeroing"])
def test_an_answer_of_no_words_is_explained_at_the_token_that_starts_it(name, edges, tokenizer):
    """One position attends to the source, as a head that pools does: it is a layer all the same."""
    model = tiny.build(name)
    options = {"answer": "", "edges": edges, "method": "rollout"}
    found = attnflow.explain(tiny.TEXT, (model, tokenizer), **options)
    assert found.segments == ("source",) * 9 + ("target",)
    source = tokenizer(tiny.TEXT, return_tensors="pt")
    start = torch.tensor([[model.config.decoder_start_token_id]])
    with torch.no_grad():
        said = model(**source, decoder_input_ids=start).logits[0, -1].double().softmax(-1)
    assert found.prediction.probability == pytest.approx(float(said.max()), abs=1e-5)
    assert found.values.sum() == pytest.approx(1)
    if edges == "attention":
        encoder, _, cross = attention_of(name, tokenizer, "")
        sources = [0.5 * each + 0.5 * np.eye(9) for each in encoder]
        reached = np.linalg.multi_dot(sources[::-1])
        expected = np.zeros(9)
        for over in cross:  # the only position keeps half of itself at each cross-attention
            expected = 0.5 * expected + 0.5 * over[0, :] @ reached
        np.testing.assert_allclose(found.values[:9], expected, rtol=0, atol=1e-6)
    longer = attnflow.explain([tiny.TEXT, "the cat"], (model, tokenizer), **options)
    np.testing.assert_allclose(longer[0].values, found.values, rtol=0, atol=1e-5)


def test_placed_maps_carry_the_other_side():
    inside, whole = torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.tensor([[1.0]])
    (encoder, own, cross) = make_steps((2, 1), (1, 1))
    assert encoder.place_attention(inside).tolist() == [[0.25, 0.75, 0], [0.5, 0.5, 0], [0, 0, 1]]
    assert own.place_attention(whole).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    over = torch.tensor([[0.25, 0.75]])
    assert cross.place_attention(over).tolist() == [[1, 0, 0], [0, 1, 0], [0.25, 0.75, 0]]


def fsmt():
    config = tf.FSMTConfig(
        src_vocab_size=100, tgt_vocab_size=100, langs=["en", "de"], d_model=32, encoder_layers=2,
        decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, pad_token_id=0,
        encoder_ffn_dim=64, decoder_ffn_dim=64, bos_token_id=2, eos_token_id=3,
        decoder_start_token_id=3, max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(0)
    return tf.FSMTForConditionalGeneration(config).eval()


def test_a_decoder_that_makes_its_own_mask_sees_no_later_position(tokenizer):
    model, answer = fsmt(), "the cat is on the mat"
    found = attnflow.explain(tiny.TEXT, (model, tokenizer), answer=answer, method="raw", layer=3)
    ids = torch.tensor([[3, *tokenizer(answer)["input_ids"][:-1]]])
    with torch.no_grad():
        logits = model(**tokenizer(tiny.TEXT, return_tensors="pt"), decoder_input_ids=ids).logits
    expected = float(logits[0, -1].softmax(-1).max())
    assert found.prediction.probability == pytest.approx(expected, abs=1e-6)


def test_a_decoder_without_its_mask_is_refused(tokenizer, monkeypatch):
    model = fsmt()
    unmasked = type(model.model.decoder).forward
    monkeypatch.setattr(
        type(model.model.decoder),
        "forward",
        lambda self, *args, **kwargs: unmasked(
            self, *args, **{**kwargs, "decoder_causal_mask": None}
        ),
    )
    with pytest.raises(CaptureError, match=r"FSMT.* attends to later positions of the answer"):
        attnflow.explain(tiny.TEXT, (model, tokenizer), answer="the cat is")


def test_relevance_finds_the_embeddings_of_sides_that_are_plain_modules(tokenizer):
    options = {"edges": "relevance", "method": "rollout"}
    found = attnflow.explain(tiny.TEXT, (fsmt(), tokenizer), answer="the cat is", **options)
    value = found.statistics["value"]
    assert found.values.sum() + found.statistics["biases"] == pytest.approx(value, abs=1e-6)


def test_a_language_code_behind_the_answer_is_no_part_of_it(tokenizer):
    """MBart's tokenizer ends targets with the end token and the language, which starts answers."""
    mbart = copy.deepcopy(tokenizer)
    mbart.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [SEP] [MASK]", special_tokens=[("[SEP]", 3), ("[MASK]", 4)]
    )
    model = tiny.build("bart", head=tf.MBartForConditionalGeneration)
    model.generation_config.decoder_start_token_id = None
    model.config.decoder_start_token_id = None
    found = attnflow.explain(tiny.TEXT, (model, mbart), answer="the cat is", method="raw")
    target = [
        token
        for token, segment in zip(found.tokens, found.segments, strict=True)
        if segment == "target"
    ]
    assert target == ["[MASK]", "the", "cat", "is"]  # the code once, where answers start
    assert found.tokens[found.query] == "is"


def test_the_models_own_answer_keeps_the_tokens_it_was_written_in(tokenizer):
    """Read anew, "keys" would be one token where the model wrote "key" and "##s"."""
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.backend_tokenizer.decoder = decoders.WordPiece()
    adapter = load_model((tiny.build("t5"), tokenizer))
    pieces = [0, *tokenizer.convert_tokens_to_ids(["key", "##s", "play", "##ing", "the"]), 3]
    assert tokenizer(tokenizer.decode(pieces[1:-1]))["input_ids"][1:-1] != pieces[1:-1]
    answer = read_answer(tokenizer, pieces)
    assert answer.inputs["input_ids"] == pieces[:-1]
    assert answer.word_texts == ("keys", "playing", "the")
    assert answer.word_ids == (None, 0, 0, 1, 1, 2)
    tokens = adapter.tokenize(tiny.TEXT)
    written = adapter.generate(adapter.tokenize(tiny.TEXT, answer="a"), 32)
    ids = tokens.inputs["decoder_input_ids"]
    assert ids == written[: len(ids)]
    first = len(tokens) - len(ids)
    for at in range(1, len(ids)):  # forced, the answer says itself again
        (said,) = adapter.predict([tokens], [first + at - 1])
        assert said.label == adapter.output_name(ids[at])


def test_single_heads_need_as_many_heads_everywhere(tokenizer):
    model_class, config = tiny.FAMILIES["bart"]()
    config.decoder_attention_heads = 2
    torch.manual_seed(0)
    model = (model_class(config).eval(), tokenizer)
    with pytest.raises(InputError, match="same number of heads in all layers"):
        attnflow.explain(tiny.TEXT, model, answer="the cat", heads="each")
    merged = attnflow.explain(tiny.TEXT, model, answer="the cat", method="rollout")
    assert merged.values.sum() == pytest.approx(1)


def test_an_answer_may_be_as_long_as_the_model_takes(tokenizer):
    model = (tiny.build("bart"), tokenizer)
    longest = " ".join(["cat"] * 62)  # with [CLS] and the start 64; the end is no input
    found = attnflow.explain("the cat", model, answer=longest, method="raw")
    assert found.segments.count("target") == 64
    with pytest.raises(InputError, match="at most 64"):
        attnflow.explain("the cat", model, answer=longest + " cat")


def test_a_head_that_a_side_lacks_is_named_as_such(tokenizer):
    model_class, config = tiny.FAMILIES["bart"]()
    config.decoder_attention_heads = 2
    torch.manual_seed(0)
    with pytest.raises(InputError, match="head") as raised:
        attnflow.explain(tiny.TEXT, (model_class(config).eval(), tokenizer), answer="a", heads=[3])
    assert "its own forward" not in str(raised.value)


def test_heads_of_relevance_are_not_picked_where_the_sides_have_different_numbers(tokenizer):
    model_class, config = tiny.FAMILIES["bart"]()
    config.decoder_attention_heads = 2
    torch.manual_seed(0)
    model = (model_class(config).eval(), tokenizer)
    with pytest.raises(InputError, match=r"same number of heads in all layers; here .* 2 and 4"):
        attnflow.explain(tiny.TEXT, model, answer="a", heads=[1], edges="relevance")


def test_a_method_without_routes_through_both_sides_has_scores_of_them(tokenizer):
    model = (tiny.build("bart"), tokenizer)
    found = attnflow.explain(tiny.TEXT, model, answer="the cat", method="additive")
    assert np.isfinite(found.scores).all()
    with pytest.raises(InputError, match="has no routes through an encoder–decoder"):
        attnflow.routes(tiny.TEXT, model, to=1, answer="the cat", method="additive")
