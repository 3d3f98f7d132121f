"""Options of answers together: what each gives alone, whatever stands beside it."""

import networkx as nx
import numpy as np
import pytest
import torch
import transformers

import attnflow
import talkers
import tiny
from attnflow.errors import InputError, ModelError
from attnflow.models.checks import memory

CHAT = [{"role": "key", "content": "the cat is old"}, {"role": "cat", "content": "play on the mat"}]
DOCUMENTS = {"first": "the old keys", "second": "a red cat is here", "question": "keys to"}
MIXED = [CHAT, DOCUMENTS, "the keys to the old cabinet"]
TOGETHER = [
    {"edges": "attention", "method": "flow", "through": "prompt"},
    {"edges": "alti", "method": "rollout", "through": "prompt", "deletions": True},
    {"edges": "attention", "method": "flow", "parts_only": True},
    {"edges": "gradient", "method": "direct", "normalize": True},
    {"method": "blank-out"},
    {"sampling": {"temperature": 3.0}, "seed": 5},
]


def same(found, alone):
    assert (found.tokens, found.parts) == (alone.tokens, alone.parts)
    np.testing.assert_array_equal(found.part_scores, alone.part_scores)
    np.testing.assert_array_equal(found.log_probabilities, alone.log_probabilities)
    if alone.scores is not None:
        np.testing.assert_array_equal(found.scores, alone.scores)
    if alone.drops is not None:
        np.testing.assert_array_equal(found.drops, alone.drops)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("options", TOGETHER, ids=str)
def test_prompts_of_all_kinds_together_are_what_each_is_alone(options, side):
    network, tokenizer = talkers.llama()
    tokenizer.padding_side = side
    prompts = MIXED[:2] if options.get("deletions") else MIXED
    together = attnflow.explain_answer(prompts, (network, tokenizer), generate=3, **options)
    plain = talkers.llama()
    for prompt, found in zip(prompts, together, strict=True):
        same(found, attnflow.explain_answer(prompt, plain, generate=3, **options))


@pytest.mark.parametrize("side", ["left", "right"])
def test_t5_writes_the_same_whichever_side_is_padded(side):
    network, tokenizer = talkers.t5()
    tokenizer.padding_side = side
    options = {"edges": "attention", "method": "flow", "through": "prompt"}
    together = attnflow.explain_answer(MIXED[1:], (network, tokenizer), generate=3, **options)
    for prompt, found in zip(MIXED[1:], together, strict=True):
        same(found, attnflow.explain_answer(prompt, talkers.t5(), generate=3, **options))


@pytest.mark.parametrize(
    ("model", "layer"), [("llama", None), ("llama", 2), ("gpt2", None), ("t5", None)]
)
@pytest.mark.parametrize("method", ["rollout", "flow"])
def test_answers_handed_on_are_those_of_the_explicit_graph(model, method, layer, request):
    """The graph of a model's own attention, written out, with an edge from each token it wrote."""
    adapter = request.getfixturevalue(model)
    options = {"edges": "attention", "method": method, "correction": None, "layer": layer}
    found = attnflow.explain_answer(
        DOCUMENTS, adapter, generate=3, through="prompt", each="tokens", **options
    )
    graph, top = explicit_graph(adapter, found, layer)
    for at in found.answer:
        graph.add_edge((0, at), (top, at - 1), capacity=1.0)
    assert nx.is_directed_acyclic_graph(graph)
    prompt = [at for at in range(len(found.tokens)) if at not in found.answer]
    for row, at in enumerate(found.answer):
        source = (top, at - 1)
        if method == "rollout":
            arrived = walks(graph, source)
            expected = [arrived.get((0, key), 0.0) for key in prompt]
        else:
            expected = [most(graph, source, [key]) for key in prompt]
            for number, part in enumerate(found.parts):
                ends = [key for key in part.positions if key in prompt]
                assert found.part_scores[row, number] == pytest.approx(
                    most(graph, source, ends), abs=1e-5
                )
        np.testing.assert_allclose(found.matrix()[row, prompt], expected, atol=1e-5)


def explicit_graph(adapter, found, layer):
    """Nodes (step, position) of eager attention with half a residual; and the step explained."""
    network, ids = adapter.network, adapter.tokenizer.convert_tokens_to_ids(list(found.tokens))
    kernel = network.config._attn_implementation
    network.set_attn_implementation("eager")
    paired = network.config.is_encoder_decoder
    source = found.answer[0] - 1 if paired else 0
    with torch.no_grad():
        if paired:
            seen = network(
                input_ids=torch.tensor([ids[:source]]),
                decoder_input_ids=torch.tensor([ids[source:]]),
                output_attentions=True,
            )
        else:
            seen = network(torch.tensor([ids]), output_attentions=True)
    network.set_attn_implementation(kernel)
    graph, size = nx.DiGraph(), len(ids)
    blocks = []
    if paired:
        s, t = slice(0, source), slice(source, size)
        blocks += [[(s, s, each)] for each in seen.encoder_attentions]
        for own, cross in zip(seen.decoder_attentions, seen.cross_attentions, strict=True):
            blocks += [[(t, t, own)], [(t, s, cross)]]
    else:
        blocks = [[(slice(0, size), slice(0, size), each)] for each in seen.attentions]
    for step, block in enumerate(blocks, 1):
        weights = np.eye(size)  # the other side is carried along
        for rows, columns, maps in block:
            weights[rows] *= 0.5
            weights[rows, columns] += 0.5 * maps[0].mean(0).double().numpy()
        for i, j in zip(*np.nonzero(weights), strict=True):
            graph.add_edge((step, int(i)), (step - 1, int(j)), capacity=float(weights[i, j]))
    return graph, layer or len(blocks)


def walks(graph, source):
    arrived = dict.fromkeys(graph, 0.0)
    arrived[source] = 1.0
    for node in nx.topological_sort(graph):
        for to, edge in graph[node].items():
            arrived[to] += arrived[node] * edge["capacity"]
    return arrived


def most(graph, source, ends):
    ended = graph.copy()
    ended.add_node("end")
    ended.add_edges_from(((0, each), "end") for each in ends)
    return nx.maximum_flow_value(ended, source, "end")


def test_a_template_that_knows_no_system_says_so():
    network, tokenizer = talkers.llama()
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'system' %}"
        "{{ raise_exception('System role not supported') }}{% endif %}"
        "[CLS] {{ m['content'] }} [SEP] {% endfor %}"
    )
    chat = [{"role": "system", "content": "you are old"}, {"role": "user", "content": "the cat"}]
    with pytest.raises(InputError, match="System role not supported"):
        attnflow.explain_answer(chat, (network, tokenizer), generate=1)
    found = attnflow.explain_answer(chat[1:], (network, tokenizer), generate=1)
    assert [part.name for part in found.parts] == ["user", "rest", "answer"]


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("edges", ["gradient", "gradient-only"])
@pytest.mark.parametrize("options", [{}, {"correction": "sink"}, {"layer": 2}, {"heads": (0, 2)}])
def test_own_rows_have_the_scores_of_whole_maps(kernel, edges, options, monkeypatch):
    """Direct contributions need a gradient by the rows alone where each token was predicted."""
    model = talkers.llama(attn_implementation=kernel)
    asked = {"answer": "the old cat is here", "edges": edges, "method": "direct", **options}
    found = attnflow.explain_answer(DOCUMENTS, model, **asked)
    monkeypatch.setattr("attnflow.pipeline.answers._reads_own_rows", lambda *_: False)
    whole = attnflow.explain_answer(DOCUMENTS, model, **asked)
    assert abs(whole.matrix()).max() > 1e-3
    np.testing.assert_allclose(found.matrix(), whole.matrix(), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(found.part_scores, whole.part_scores, rtol=1e-4, atol=1e-7)
    assert found.options == whole.options
    assert found.statistics == whole.statistics


@pytest.mark.parametrize("family", tiny.DECODERS)
def test_own_rows_of_every_family(family, monkeypatch):
    torch.manual_seed(0)
    kind, config = tiny.DECODERS[family]()
    model = attnflow.load_model((talkers.seeded(kind(config)), tiny.plain()))
    asked = {"answer": "the red cat is here", "edges": "gradient", "method": "direct"}
    found = attnflow.explain_answer("the old keys", model, **asked)
    monkeypatch.setattr("attnflow.pipeline.answers._reads_own_rows", lambda *_: False)
    whole = attnflow.explain_answer("the old keys", model, **asked)
    scale = abs(whole.matrix()).max()
    np.testing.assert_allclose(found.matrix(), whole.matrix(), rtol=1e-4, atol=1e-5 * scale)


def test_own_rows_of_a_model_that_sees_ahead_are_refused():
    torch.manual_seed(0)
    config = transformers.BertConfig(**tiny.USUAL | {"vocab_size": talkers.SIZE})
    network = transformers.BertLMHeadModel(config).eval()
    with pytest.raises(ModelError, match="attends to later tokens, too"):
        attnflow.explain_answer(
            "the keys", (network, talkers.chatting()), answer="a cat", edges="gradient"
        )


def test_long_prompts_have_gradients_where_maps_would_find_no_room(monkeypatch):
    """What is asked for counts: rows of a fused kernel, and never maps of all positions."""
    text = " ".join(["the cat is old"] * 12)
    options = {"answer": "a cat", "edges": "gradient"}
    model = attnflow.load_model(talkers.llama(num_attention_heads=8, num_key_value_heads=8))
    size = len(attnflow.explain_answer(text, model, **options).tokens)
    needed = memory.TAPE_BYTES * 3 * 8 * size**2
    monkeypatch.setattr(memory, "memory_of", lambda _: needed - 1)
    assert attnflow.explain_answer(text, model, **options, method="direct").method == "direct"
    with pytest.raises(ModelError, match=f"gradients by the attention of {size} tokens"):
        attnflow.explain_answer(text, model, **options, method="rollout")
