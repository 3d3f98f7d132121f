"""T5Gemma: grouped heads, windows and capped scores on both sides; T5Gemma 2 is another thing."""

import networkx as nx
import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.errors import CaptureError
from zoo.build import small_model

ANSWER = "the cat is on"
SIDE = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "sliding_window": 4,
    "layer_types": ["sliding_attention", "full_attention"],
    "num_hidden_layers": 2,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
THREE = {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 2 + ["sliding_attention"]}


@pytest.fixture(scope="module")
def model():
    sides = [tf.T5GemmaModuleConfig(**(SIDE | more)) for more in ({}, THREE)]
    config = tf.T5GemmaConfig(
        encoder=sides[0], decoder=sides[1], vocab_size=100, pad_token_id=0, bos_token_id=2,
        eos_token_id=3, decoder_start_token_id=2,
    )  # fmt: skip
    torch.manual_seed(0)
    built = tf.T5GemmaForConditionalGeneration._from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    tokenizer = tiny.word_piece()
    tokenizer.eos_token = "[SEP]"
    return built.eval(), tokenizer


@pytest.fixture(scope="module")
def maps(model):
    """Encoder, decoder and cross-attention ``[head, query, key]`` as the model shows them."""
    network, tokenizer = model
    source = tokenizer(tiny.TEXT, return_tensors="pt")
    ids = [2, *tokenizer(ANSWER, add_special_tokens=False)["input_ids"]]
    assert tokenizer(ANSWER)["input_ids"][0] == 2  # [CLS], which starts answers, too
    ids = [2, *ids]
    with torch.no_grad():
        output = network(
            input_ids=source["input_ids"], attention_mask=source["attention_mask"],
            decoder_input_ids=torch.tensor([ids]), output_attentions=True,
        )  # fmt: skip
    parts = (output.encoder_attentions, output.decoder_attentions, output.cross_attentions)
    return [[layer[0].double().numpy() for layer in part] for part in parts]


def half(weights):
    return 0.5 * weights + 0.5 * np.eye(len(weights))


def rolled(encoder, decoder, cross):
    """Every path through both sides, written out."""
    source = np.linalg.multi_dot([half(each) for each in reversed(encoder)])
    count = len(decoder[0])
    to_source, to_target = np.zeros((count, len(source))), np.eye(count)
    for own, over in zip(decoder, cross, strict=True):
        to_source, to_target = half(own) @ to_source, half(own) @ to_target
        to_source, to_target = 0.5 * to_source + 0.5 * over @ source, 0.5 * to_target
    return np.concatenate([to_source[-1], to_target[-1]])


def test_rollout_is_that_of_the_models_own_maps(model, maps):
    found = attnflow.explain(tiny.TEXT, model, answer=ANSWER, method="rollout")
    assert found.depth == 5
    encoder, decoder, cross = ([layer.mean(0) for layer in part] for part in maps)
    # The first layer of the encoder has a window, which the last token is not in.
    assert encoder[0][0, -1] == 0 < encoder[1][0, -1]
    np.testing.assert_allclose(found.values, rolled(encoder, decoder, cross), rtol=0, atol=1e-5)


def test_single_heads_are_those_of_the_last_cross_attention(model, maps):
    found = attnflow.explain(tiny.TEXT, model, answer=ANSWER, method="raw", heads="each")
    size = maps[2][-1].shape[-1]
    np.testing.assert_allclose(found.values[:, :size], maps[2][-1][:, -1], rtol=0, atol=1e-5)
    assert not found.values[:, size:].any()


def test_flow_is_the_maximum_flow_of_the_explicit_graph(model, maps):
    found = attnflow.explain(tiny.TEXT, model, answer=ANSWER, method="flow")
    encoder, decoder, cross = ([layer.mean(0) for layer in part] for part in maps)
    graph = nx.DiGraph()

    def connect(above, below, weights, residual=True):
        for (i, j), weight in np.ndenumerate(half(weights) if residual else 0.5 * weights):
            graph.add_edge((above, i), (below, j), capacity=weight)

    for number, weights in enumerate(encoder):
        connect(f"e{number + 1}", f"e{number}", weights)
    for number, (own, over) in enumerate(zip(decoder, cross, strict=True)):
        connect(f"s{number + 1}", f"c{number}", own)
        connect(f"c{number + 1}", f"e{len(encoder)}", over, residual=False)
        for at in range(len(own)):
            graph.add_edge((f"c{number + 1}", at), (f"s{number + 1}", at), capacity=0.5)
    source, count = len(encoder[0]), len(decoder[0])
    top = (f"c{len(decoder)}", count - 1)
    inputs = [("e0", at) for at in range(source)] + [("c0", at) for at in range(count)]
    expected = [nx.maximum_flow_value(graph, top, sink) for sink in inputs]
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-5)


def test_a_list_gives_what_each_gives_alone(model):
    texts = [tiny.TEXT, "the cat"]
    for options in ({"answer": ANSWER}, {}):
        together = attnflow.explain(texts, model, method="rollout", **options)
        for text, found in zip(texts, together, strict=True):
            alone = attnflow.explain(text, model, method="rollout", **options)
            assert found.tokens == alone.tokens
            np.testing.assert_allclose(found.values, alone.values, rtol=0, atol=1e-5)


def test_its_own_answer_is_what_it_wrote(model):
    network, tokenizer = model
    inputs = tokenizer(tiny.TEXT, return_tensors="pt")
    (ids,) = network.generate(**inputs, max_new_tokens=32, do_sample=False).tolist()
    while len(ids) > 1 and ids[-1] in (0, 3):  # padding, the end
        ids.pop()
    found = attnflow.explain(tiny.TEXT, model, method="raw")
    adapter = attnflow.load_model(model)
    assert list(found.tokens[-len(ids) :]) == [adapter.output_name(number) for number in ids]
    assert found.segments.count("target") == len(ids)


def test_one_softmax_over_both_sides_is_refused_by_name():
    """T5Gemma 2's decoder attends to source and answer at once: no step of the graph does."""
    network = small_model("t5gemma2", "T5Gemma2ForConditionalGeneration")
    tokenizer = tiny.word_piece()
    tokenizer.eos_token = "[SEP]"
    with pytest.raises(CaptureError, match="T5Gemma2ForConditionalGeneration"):
        attnflow.explain(tiny.TEXT, (network, tokenizer), answer=ANSWER, edges="attention")
