"""Edges of relevance against rules that are written out, and against what they conserve."""

import gc
import threading
import weakref

import numpy as np
import pytest
import torch
import transformers as tf
from torch import nn

import attnflow
import families
import heard
import relevance_oracle
import tiny
from attnflow.errors import CaptureError, InputError, ModelError
from attnflow.models.capture import backward
from attnflow.models.capture.relevance import Relevance
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.loading import load_model
from attnflow.pipeline.prepare import open_session, open_sessions, prepare
from attnflow.pipeline.request import Request

TEXT = "the keys to the cabinet are here , the cats"
MASKED_TEXT = "the keys to the [MASK] are here"
CLASSIFIERS = {
    "bert": tf.BertForSequenceClassification,
    "roberta": tf.RobertaForSequenceClassification,
    "electra": tf.ElectraForSequenceClassification,
    "mpnet": tf.MPNetForSequenceClassification,
    "modernbert": tf.ModernBertForSequenceClassification,
    "deberta-v2": tf.DebertaV2ForSequenceClassification,
    "deberta": tf.DebertaForSequenceClassification,
}
MASKED = {
    "distilbert": tf.DistilBertForMaskedLM,
    "albert": tf.AlbertForMaskedLM,
}
HEADS = CLASSIFIERS | MASKED | {"mobilebert": tf.MobileBertForTokenClassification}
EXPERTS = families.DECODER | {"num_local_experts": 4, "num_experts_per_tok": 2}
MORE = {
    "mixtral": lambda: (tf.MixtralForCausalLM, tf.MixtralConfig(**EXPERTS, sliding_window=4)),
    "mistral": lambda: (tf.MistralForCausalLM, tf.MistralConfig(**tiny.DECODER, sliding_window=4)),
    "falcon-alibi": lambda: (tf.FalconForCausalLM, tf.FalconConfig(**tiny.USUAL, alibi=True)),
    "mpt": lambda: (
        tf.MptForCausalLM,
        tf.MptConfig(vocab_size=100, d_model=32, n_layers=3, n_heads=4, max_seq_len=64),
    ),
    "mbart": lambda: (tf.MBartForConditionalGeneration, tf.MBartConfig(**_pair())),
    "pegasus": lambda: (tf.PegasusForConditionalGeneration, tf.PegasusConfig(**_pair())),
    "clip": lambda: (
        tf.CLIPForImageClassification,
        tf.CLIPConfig(
            vision_config=tiny.PICTURE | {"num_attention_heads": 4, "intermediate_size": 64}
        ),
    ),
}
DECODERS = (
    *("gpt2", "llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "olmo2", "cohere"),
    *("gpt-neox", "gpt-neox-sequential", "gpt-j", "phi", "falcon", "falcon-alibi", "bloom", "mpt"),
    *("opt", "opt-350m", "gpt-oss", "mistral", "mixtral"),
)
PAIRS = ("t5", "bart", "mbart", "pegasus")
IMAGES = ("vit", "deit", "dinov2", "dinov2-registers", "beit", "clip")
SOUNDS = ("wav2vec2-label", "wav2vec2-ctc", "hubert", "wavlm", "ast", "whisper", "speech2text")
ALL = (*HEADS, *DECODERS, *PAIRS, *IMAGES, *SOUNDS)
EAGER_ONLY = ("deberta", "mobilebert", "mpt", *families.EAGER_ONLY, *tiny.EAGER_ONLY)
RESIZING = tf.ViTImageProcessorPil(size={"height": 32, "width": 32})
SINGLE = ("gpt-oss", "mixtral", *SOUNDS)  # experts know no float64, and sounds are read in float32


def _pair():
    names = (
        *("vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads"),
        *("decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "pad_token_id"),
        *("bos_token_id", "eos_token_id", "decoder_start_token_id", "max_position_embeddings"),
    )
    bart = tiny.PAIRS["bart"]()[1].to_dict()
    return {name: bart[name] for name in names}


@pytest.fixture(autouse=True)
def more_families(monkeypatch):
    monkeypatch.setattr(families, "FAMILIES", families.FAMILIES | MORE)
    monkeypatch.setattr(families, "EAGER_ONLY", EAGER_ONLY)


def build(name, attention="sdpa", precision=None):
    """A model of a family with what reads its inputs, and an input."""
    if name in SOUNDS:
        network, processor = heard.build(name, attention)
        return load_model((network, processor)), heard.sound()
    if precision is None:
        precision = torch.float32 if name in SINGLE else torch.float64
    network = families.build(name, attention, head=HEADS.get(name), precision=precision)
    if name in IMAGES:
        picture = np.random.default_rng(0).integers(0, 255, (50, 80, 3), dtype=np.uint8)
        return load_model((network, RESIZING)), picture
    reader = tiny.word_piece() if name in HEADS else tiny.plain()
    if name in PAIRS:
        reader.eos_token = "[SEP]"
    return load_model((network, reader)), MASKED_TEXT if name in MASKED else TEXT


def config(**options):
    return Request(**{"edges": "relevance", "method": "raw"} | options)


def relevance(model, item, **options):
    session = open_session(item, model, config(**options))
    return session.activations.relevance


def handed_down(found):
    """What each position has below a step, by what it had, what it took and what was taken."""
    maps, streams = found.maps.double(), found.streams.double()
    return streams[1:] - maps.sum(-1) + maps.sum(-2)


# -- what it is


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", relevance_oracle.ORACLES)
def test_edges_and_streams_are_what_the_rules_say(name, attention):
    model = relevance_oracle.build(name)
    model.network.set_attn_implementation("eager")
    oracle = relevance_oracle.expected(name, model, TEXT, 2)
    model.network.set_attn_implementation(attention)
    found = relevance(model, TEXT, target=2)
    # Norms of Llama are computed in float32, whatever the model is.
    for ours, theirs in (
        (found.maps, oracle.edges),
        (found.streams, oracle.streams),
        (found.inputs, oracle.inputs),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        assert float(theirs.abs().max()) > 1e-2


@pytest.mark.parametrize("name", relevance_oracle.ORACLES)
def test_an_answer_is_the_sum_of_its_tokens(name):
    """All that is held fixed is so for every target: relevance is linear in the target."""
    model = relevance_oracle.build(name)
    first, second, both = (
        relevance(model, TEXT, target=2, contrast=contrast) for contrast in (0, 1, None)
    )
    other = relevance(model, TEXT, target=0, contrast=1)
    np.testing.assert_allclose(second.maps, first.maps + other.maps, rtol=0, atol=1e-6)
    assert not np.allclose(first.maps, both.maps)


@pytest.mark.parametrize("name", [name for name in ALL if name != "gpt-oss"])  # adds 1 to a gate
def test_relevance_is_conserved_at_every_position_without_biases(name):
    """What enters a position from above leaves it downwards, where nothing absorbs it."""
    model, item = build(name)
    with torch.no_grad():
        for key, parameter in model.network.named_parameters():
            if "bias" in key and "relative" not in key:
                parameter.zero_()
    found = relevance(model, item)
    size = float(found.streams.abs().max())
    small = 2e-5 if name in SINGLE or found.maps.dtype == torch.float32 else 1e-6
    np.testing.assert_allclose(
        handed_down(found), found.streams[:-1], rtol=0, atol=max(1.0, size) * small
    )
    assert found.gap < small * max(1.0, size)
    assert float(found.maps.abs().max()) > 1e-3 * size


@pytest.mark.parametrize("name", ALL)
def test_what_biases_absorb_is_said(name):
    model, item = build(name)
    found = relevance(model, item)
    kept = float(found.inputs.sum())
    assert found.value == pytest.approx(kept + found.absorbed, abs=1e-9)
    assert found.gap <= 1e-4 * max(1.0, float(found.inputs.abs().sum()))
    # What layers absorb, and what is absorbed above and below them, is all of it.
    layers = float((handed_down(found) - found.streams[:-1]).sum())
    above = found.value - float(found.streams[-1].double().sum())
    below = float(found.streams[0].double().sum()) - kept
    assert above + layers + below == pytest.approx(found.absorbed, abs=1e-4)


# Of Falcon with ALiBi, the two kernels of transformers differ by themselves.
@pytest.mark.parametrize("name", sorted(set(ALL) - {*EAGER_ONLY, "falcon-alibi"}))
def test_every_kernel_has_the_same_edges(name):
    fused, eager = (relevance(*build(name, attention)) for attention in ("sdpa", "eager"))
    for ours, theirs in (
        (fused.maps, eager.maps),
        (fused.streams, eager.streams),
        (fused.inputs, eager.inputs),
    ):
        size = max(1.0, float(theirs.abs().max()))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * size)


@pytest.mark.parametrize("name", ["llama", "bert", "t5", "gemma3", "falcon-alibi"])
def test_rows_in_small_blocks_are_the_same(name, monkeypatch):
    whole = relevance(*build(name))
    monkeypatch.setitem(backward.BLOCK, "cpu", 100)
    small = relevance(*build(name))
    np.testing.assert_allclose(small.maps, whole.maps, rtol=0, atol=1e-12)


def test_rollout_over_the_edges_is_layer_wise_relevance():
    for name in (*HEADS, *DECODERS):
        model, item = build(name)
        plain = {"method": "rollout", "correction": None}
        edges = attnflow.explain(item, model, edges="relevance", **plain)
        alone = attnflow.explain(item, model, method="lrp")
        assert (edges.method, edges.scores.shape[:2]) == ("rollout", (1, 1))
        np.testing.assert_allclose(edges.values, alone.values, rtol=0, atol=1e-6)
        for key in ("value", "biases", "conservation_gap"):
            assert edges.statistics[key] == pytest.approx(alone.statistics[key], abs=1e-5)


# -- heads, methods, words


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["bert", "llama", "bart"])
def test_heads_add_up(name, attention):
    model, item = build(name, attention)
    whole = relevance(model, item).maps
    each = relevance(model, item, heads="each").maps
    assert each.shape == (len(whole), 4, *whole.shape[1:])
    np.testing.assert_allclose(each.sum(1), whole, rtol=0, atol=1e-6)
    options = {"edges": "relevance", "method": "raw", "layers": "all"}
    some = attnflow.explain(item, model, heads=[2, 0], query="all", **options).scores
    ends = open_session(item, model, config()).activations.steps
    expected = each[[end - 1 for end in ends]][:, [0, 2]].sum(1)
    np.testing.assert_allclose(some, expected, rtol=0, atol=1e-6)
    if name != "bart":
        single = attnflow.explain(item, model, heads="each", query="all", **options).scores
        np.testing.assert_allclose(single, each, rtol=0, atol=1e-6)


def test_direct_contributions_are_sums_of_rows():
    model, item = build("llama")
    maps = relevance(model, item).maps
    options = {"edges": "relevance", "query": "all", "layers": "all"}
    own = attnflow.explain(item, model, method="direct", **options).scores
    np.testing.assert_allclose(own, maps.double().cumsum(0), rtol=0, atol=1e-6)
    every = attnflow.explain(item, model, method="direct-all", **options).scores
    expected = maps.double().sum(1).cumsum(0)[:, None].expand(-1, maps.shape[1], -1)
    np.testing.assert_allclose(every, expected, rtol=0, atol=1e-6)
    assert own.min() < 0 < own.max()


def test_layers_below_have_what_streams_have():
    model, item = build("llama")
    session = open_session(item, model, config(method="rollout", correction=None))
    graph, found = session.graph("rollout"), session.activations.relevance
    from attnflow.methods import find_edge_method
    from attnflow.records import Selection
    from attnflow.solvers.execution import Execution

    size = graph.size
    for to_layer in range(3):
        chosen = Selection((3,), (size - 1,), tuple(range(size)), to_layer)
        row = find_edge_method("rollout").apply(graph, chosen, Execution()).values[0, 0]
        expected = found.streams[to_layer] if to_layer else found.inputs
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-12)


def test_a_words_relevance_is_that_of_its_tokens():
    model, _ = build("bert")
    text = "the cats playing"  # two words of two tokens each
    tokens = attnflow.explain(text, model, edges="relevance", method="rollout")
    words = attnflow.explain(text, model, edges="relevance", method="rollout", words=True)
    groups = [[0], [1], [2, 3], [4, 5], [6]]
    expected = [sum(tokens.values[at] for at in group) for group in groups]
    np.testing.assert_allclose(words.values, expected, rtol=0, atol=1e-12)


def test_targets_and_contrasts():
    model, item = build("llama")
    for options in ({"target": 7}, {"target": 7, "contrast": 9}, {"contrast": 9}, {}):
        found = attnflow.explain(item, model, edges="relevance", **options)
        with torch.no_grad():
            logits = model.network(**model.tokenizer(item, return_tensors="pt")).logits[0, -1]
        target = options.get("target", int(logits.argmax()))
        other = logits[9] if "contrast" in options else logits.mean()
        assert found.statistics["value"] == pytest.approx(float(logits[target] - other), abs=1e-6)


@pytest.mark.parametrize("method", ["lrp", "rollout"])
def test_labels_that_do_not_exclude_each_other_have_their_own_logit(method):
    model, item = build("bert")
    model.network.config.problem_type = "multi_label_classification"
    edges = {} if method == "lrp" else {"edges": "relevance"}
    found = attnflow.explain(item, model, method=method, target=1, **edges)
    with torch.no_grad():
        logits = model.network(**model.tokenizer(item, return_tensors="pt")).logits[0]
    assert found.statistics["value"] == pytest.approx(float(logits[1]), abs=1e-9)


def test_an_answer_in_a_passage():
    network = families.build("bert", head=tf.BertForQuestionAnswering)
    model = load_model((network, tiny.pair_piece()))
    pair = ("the keys", "the old red cat is here")
    found = {
        target: attnflow.explain(pair, model, edges="relevance", method="direct-all", target=target)
        for target in ("start", "end", None)
    }
    both = found["start"].scores[0, 0] + found["end"].scores[0, 0]
    np.testing.assert_allclose(found[None].scores[0, 0], both, rtol=0, atol=1e-9)


# -- many at once


@pytest.mark.parametrize("edges", ["relevance", "removal"])
@pytest.mark.parametrize("name", ["bert", "modernbert", "gpt2", "gemma3", "mixtral", "bart", "t5"])
def test_a_list_is_as_each_alone(name, edges):
    """Among much padding some positions see nothing: their gradients must not spread."""
    model, _ = build(name)
    texts = ["the keys to the cabinet are here , the cats play on the mat .", "mat", TEXT]
    asked = config(edges=edges)
    answers = {"answers": ["the cat", "a", "the old key"]} if name in PAIRS else {}
    together = dict(open_sessions(prepare(asked, model, texts, **answers)))
    for place, text in enumerate(texts):
        own = {"answer": answers["answers"][place]} if answers else {}
        alone = open_session(text, model, asked, **own).activations
        found = together[place].activations
        pairs = [(found.removal, alone.removal)]
        if edges == "relevance":
            pairs = [
                (getattr(found.relevance, part), getattr(alone.relevance, part))
                for part in ("maps", "streams", "inputs", "value", "absorbed")
            ]
        small = 1e-5 if name in SINGLE else 1e-7
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=small)


def test_items_that_do_not_add_up_together_run_alone(monkeypatch):
    model, _ = build("gpt2", precision=torch.float32)
    texts = [TEXT, "a cat is here"]
    alone = [attnflow.explain(text, model, edges="relevance").values for text in texts]
    batches = []
    propagate = Relevance.propagate

    def strict(self, values, *args, **options):
        batches.append(len(values))
        monkeypatch.setattr(
            "attnflow.models.capture.relevance.TOLERANCE", 0.0 if len(values) > 1 else 1e-3
        )
        return propagate(self, values, *args, **options)

    monkeypatch.setattr(Relevance, "propagate", strict)
    found = attnflow.explain(texts, model, edges="relevance")
    assert batches == [2, 1, 1]
    for ours, theirs in zip(found, alone, strict=True):
        np.testing.assert_allclose(ours.values, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_threads_do_not_see_each_other(name):
    model, _ = build(name)
    texts = [TEXT, "a cat is here", "the old red key is on the mat"]
    jobs = [(text, edges) for text in texts for edges in ("relevance", "removal", "gradient")]

    def work(text, edges):
        return attnflow.explain(text, model, edges=edges, method="direct").scores

    alone = [work(*job) for job in jobs]
    found, start = {}, threading.Barrier(len(jobs))

    def run(at):
        start.wait()
        found[at] = [work(*jobs[at]) for _ in range(3)]

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for at, expected in enumerate(alone):
        for ours in found[at]:
            np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["bert", "llama", "gpt2", "t5", "vit"])
def test_half_precision_is_near_single(name, attention):
    exact, half = (
        relevance(*build(name, attention, precision))
        for precision in (torch.float32, torch.bfloat16)
    )
    assert half.maps.dtype == torch.float32
    size = float(exact.maps.abs().max())
    assert float((half.maps - exact.maps).abs().max()) < 0.2 * size
    assert half.value == pytest.approx(exact.value, abs=0.05 * max(1.0, abs(exact.value)))


def test_the_model_is_left_alone():
    model, item = build("bert")
    model.network.train()
    before = {key: value.clone() for key, value in model.network.state_dict().items()}
    relevance(model, item)
    assert all(module.training for module in model.network.modules())
    assert all(each.grad is None and each.requires_grad for each in model.network.parameters())
    for key, tensor in model.network.state_dict().items():
        assert torch.equal(tensor, before[key])


def test_no_tape_is_left_behind():
    """A cycle between a tape and what reads it would keep both until the collector runs."""
    import gc

    model, item = build("llama")
    relevance(model, item)  # what is found out once is kept
    gc.collect()
    gc.disable()
    try:
        before = sum(type(each) is torch.Tensor for each in gc.get_objects())
        for _ in range(3):
            relevance(model, item)
        after = sum(type(each) is torch.Tensor for each in gc.get_objects())
    finally:
        gc.enable()
    assert after <= before + 3


# -- answers


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_tokens_of_an_answer_have_their_own_relevance(name):
    model, item = build(name)
    given = {"edges": "relevance", "method": "rollout"}
    explain = attnflow.explain if name == "t5" else attnflow.explain_answer
    each = {} if name == "t5" else {"each": "tokens"}
    found = explain(item, model, answer=" the cat is", **each, **given)
    if name == "t5":
        assert found.scores.shape[-1] == len(found.tokens)
        return
    assert found.method == "rollout"
    for row, at in zip(found.scores, found.answer, strict=True):
        ids = model.tokenizer(f"{item} the cat is").input_ids
        text = model.tokenizer.decode(ids[:at])
        alone = attnflow.explain(text, model, target=ids[at], **given)
        np.testing.assert_allclose(row[:at], alone.values, rtol=0, atol=1e-6)
        assert not row[at:].any()


# -- nn.MultiheadAttention, whose parts torch hides


def test_the_parts_of_multi_head_attention_are_followed():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    x, weight = torch.randn(1, 5, 16, dtype=torch.float64), torch.randn(16, dtype=torch.float64)
    with torch.no_grad():
        expected = float(layer(x)[0, 1] @ weight)
    with torch.enable_grad(), Relevance(CaptureSpec(relevance=True)) as mode:
        leaf = x.clone().requires_grad_()
        mode.reading.inputs[0] = leaf
        value = layer(leaf.clone())[0, 1] @ weight
    (inputs,), gap = mode.propagate(value[None], [expected], "the encoder")
    assert gap < 1e-9
    (edges,) = mode.reading.maps(0)
    attention = layer.self_attn
    q, k, v = (
        part.reshape(5, 2, 8).transpose(0, 1)
        for part in nn.functional.linear(
            x[0], attention.in_proj_weight, attention.in_proj_bias
        ).chunk(3, -1)
    )
    weights = (q @ k.transpose(1, 2) / 8**0.5).softmax(-1)
    # Of the position that is read, the rest of the layer written out once more.
    out = (weights @ v).transpose(0, 1).reshape(5, 16)
    y = x[0] + nn.functional.linear(out, attention.out_proj.weight, attention.out_proj.bias)
    back = weight.clone()
    two = nn.functional.layer_norm(y, (16,), layer.norm1.weight, layer.norm1.bias)
    inner = nn.functional.linear(two, layer.linear1.weight, layer.linear1.bias)
    z = two + nn.functional.linear(inner.relu(), layer.linear2.weight, layer.linear2.bias)
    back = through_norm_gradient(z[1], layer.norm2.weight, back)
    gate = (inner[1] > 0).double()
    back = back + ((back @ layer.linear2.weight) * gate) @ layer.linear1.weight
    back = through_norm_gradient(y[1], layer.norm1.weight, back)
    to_out = (back @ attention.out_proj.weight).reshape(2, 8)
    row = torch.einsum("hj,hjd,hd->j", weights[:, 1], v, to_out)
    np.testing.assert_allclose(edges[1], row.detach(), rtol=0, atol=1e-9)
    assert not edges[[0, 2, 3, 4]].any()
    assert float(inputs.abs().max()) > 1e-3


def through_norm_gradient(x, weight, gradient):
    scaled = gradient * weight * (x.var(unbiased=False) + 1e-5).rsqrt()
    return scaled - scaled.mean()


# -- removal


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["bert", "llama", "gemma3", "bart", "vit", "gpt-oss"])
def test_removal_is_the_first_order_cost(name, attention):
    """By the gradients that edges='gradient' have, which differences confirm."""
    model, item = build(name, attention)
    seen = open_session(item, model, config(edges="gradient", method="direct")).activations
    found = open_session(item, model, config(edges="removal")).activations.removal
    for ours, a, g in zip(found, seen.attention, seen.gradients, strict=True):
        a, g = a.double(), g.double()
        rest = (1 - a).clamp_min(1e-3)
        expected = (a / rest * (g - (a * g).sum(-1, keepdim=True))).sum(0)
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)
    assert float(found.abs().max()) > 1e-3


def test_an_edge_that_can_not_be_removed_costs_nothing():
    """The first position of a decoder reads itself alone."""
    model, item = build("llama")
    found = open_session(item, model, config(edges="removal")).activations.removal
    assert not found[:, 0].any()
    assert torch.isfinite(found).all()


def test_removal_is_what_masking_an_edge_costs():
    """Where attention adds little to the stream, the first order is all there is."""
    model, item = build("llama", "eager")
    with torch.no_grad():
        for layer in model.network.model.layers:
            layer.self_attn.o_proj.weight.mul_(1e-3)
    found = open_session(item, model, config(edges="removal")).activations.removal
    ids = torch.tensor([model.tokenizer(item).input_ids])
    size = ids.shape[1]
    causal = torch.full((size, size), -1e9, dtype=torch.float64).triu(1)

    def log_probabilities(layer=None, query=0, key=0):
        def hook(module, args, kwargs):
            mask = causal.clone()
            if module.layer_idx == layer:
                mask[query, key] = -1e9
            return args, {**kwargs, "attention_mask": mask[None, None]}

        handles = [
            each.self_attn.register_forward_pre_hook(hook, with_kwargs=True)
            for each in model.network.model.layers
        ]
        with torch.no_grad():
            logits = model.network(ids).logits[0, -1]
        for handle in handles:
            handle.remove()
        return logits.log_softmax(-1)

    whole = log_probabilities()
    target = int(whole.argmax())
    edges = [(layer, size - 1, key) for layer in range(3) for key in range(size)]
    edges += [(0, 3, key) for key in range(4)]
    costs = [float((whole - log_probabilities(*each))[target]) for each in edges]
    ours = [float(found[each]) for each in edges]
    np.testing.assert_allclose(ours, costs, rtol=0, atol=0.02 * np.abs(costs).max())


# -- what is refused


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"method": "barrier"}, "method='barrier' reads shares .* amounts with a sign"),
        ({"method": "widest"}, "use 'raw', 'rollout', 'flow', 'direct', 'direct-all'"),
        ({"edges": "removal", "method": "rollout"}, "use 'raw', 'direct', 'direct-all'"),
        ({"query": "all"}, "query='all' does not apply to method='flow'"),
        ({"heads": "each"}, "heads='each' does not apply to method='flow'"),
        ({"heads": [0.25] * 4}, "heads add up"),
        ({"layer": 1}, "starts at layer 1 is not known"),
        ({"layers": [1, 2, 3]}, "starts at layer 1, 2, 3 is not known"),
        ({"query": 2}, "the target is read at position 0, and not at"),
        ({"residual": 0.5}, "residual=0.5 does not apply to edges='relevance'"),
        ({"discard": 0.5}, "discard=0.5 does not apply to edges='relevance'"),
        ({"normalize": True}, "normalize=True does not apply to edges='relevance'"),
        ({"correction": "uniform"}, "correction='uniform' does not apply to edges='relevance'"),
        (
            {"correction": "sink"},
            "correction='sink' does not apply to this model",
        ),
        ({"source": "logit"}, "source='logit' does not apply to edges='relevance'"),
    ],
)
def test_what_has_no_meaning_is_refused(options, why):
    model, item = build("bert")
    with pytest.raises(InputError, match=why):
        attnflow.explain(item, model, **{"edges": "relevance"} | options)


def test_arrays_are_refused():
    attention = np.full((1, 2, 3, 3), 1 / 3)
    with pytest.raises(InputError, match="needs a model, not attention alone"):
        attnflow.raw(attention, edges="relevance")


def test_attention_that_was_not_kept_is_not_read():
    model, item = build("bert")
    (first, *_) = open_session(item, model, config()).activations.attention
    assert first.shape == (first.shape[-1], first.shape[-1])
    with pytest.raises(InputError, match="attention was not kept"):
        np.asarray(first)
    with pytest.raises(InputError, match="attention was not kept"):
        first[0]


def test_windows_are_refused_by_name():
    sizes = {"attention_window": 4, "max_position_embeddings": 80}
    network = tf.LongformerForSequenceClassification(tf.LongformerConfig(**tiny.USUAL | sizes))
    with pytest.raises(
        CaptureError, match="LongformerForSequenceClassification attends in windows"
    ):
        attnflow.explain(TEXT, (network.eval(), tiny.word_piece()), edges="relevance", query=0)


def test_a_model_without_a_head_is_refused():
    with pytest.raises(ModelError, match="no head that predicts"):
        attnflow.explain(TEXT, (tiny.build("bert"), tiny.word_piece()), edges="relevance")


def test_what_the_rules_do_not_know_is_refused():
    model, item = build("gpt2")

    class Exponential(nn.Module):
        def forward(self, x):
            return torch.exp(x.clamp(-2, 2))

    for layer in model.network.transformer.h:
        layer.mlp.act = Exponential()
    with pytest.raises(ModelError, match="relevance can't be followed through GPT2LMHeadModel"):
        attnflow.explain(item, model, edges="relevance")


class Shifted(nn.Module):
    """A module that computes something else once gradients are taken."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        made = self.inner(x)
        return made * 1.5 if torch.is_grad_enabled() else made


@pytest.mark.parametrize(
    ("size", "window", "again"), [(40, None, 40), (1100, None, 256), (1100, 300, 1100)]
)
def test_the_model_runs_unchanged_on_the_start_of_a_long_text(size, window, again):
    torch.manual_seed(0)
    shape = tiny.DECODER | {"max_position_embeddings": 2048, "sliding_window": window}
    config = tf.MistralConfig(**shape)
    model = load_model((tf.MistralForCausalLM(config).eval(), tiny.plain()))
    words = " ".join((["the", "keys", "to", "the", "cabinet", "are", "here"] * size)[:size])
    options = {"edges": "relevance", "method": "rollout"}
    attnflow.explain("the keys", model, **options)  # what is found out once
    lengths = []
    layer = model.network.model.layers[0]
    hook = layer.self_attn.q_proj.register_forward_hook(
        lambda _, given, __: lengths.append(given[0].shape[1])
    )
    found = attnflow.explain(words, model, **options)
    hook.remove()
    assert sorted(lengths) == [again, size]
    with torch.no_grad():
        own = float(model.logits([model.tokenize(words)], [size - 1])[0].softmax(-1).max())
    assert found.prediction.probability == pytest.approx(own, abs=1e-6)
    layer.mlp.down_proj = Shifted(layer.mlp.down_proj)
    with pytest.raises(ModelError, match="relevance can't be followed"):
        attnflow.explain(words, model, **options)


def test_states_are_held_until_they_are_noted():
    reading = backward.EdgeReading(1, heads=False)
    reading.inputs[0] = torch.ones(1, 3, 2, requires_grad=True)
    states = reading.inputs[0] * 2
    reading.follow(states, items_first=True)
    target = (states * torch.arange(3)[:, None]).sum()
    for keep in (True, True, False):
        reading.backward(target, 0, keep=keep)
        assert reading.all_streams()[0].tolist() == [[0, 4, 8]]
        assert bool(reading._held) == keep


def test_what_is_found_out_once_holds_no_states():
    model = load_model((tf.LlamaForCausalLM(tf.LlamaConfig(**tiny.DECODER)).eval(), tiny.plain()))
    seen = []

    def note(_, __, made):
        seen.append(weakref.ref(made))

    model.network.model.layers[0].mlp.register_forward_hook(note)
    gc.collect()
    gc.disable()  # which would find what copies hold in circles, later
    try:
        found = attnflow.explain("the keys to the cabinet", model)
        assert len(seen) > 1
        assert not any(each() is not None for each in seen)
    finally:
        gc.enable()
    assert found.scores.any()
