"""Edge rules of encoder–decoders against plain loops over what hooks saw in every sub-block."""

import re

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import families
import parts
import tiny
from attnflow.errors import InputError, ModelError

TEXT, ANSWER = "the keys to the cabinet are here , the cats", "the cat is on"
VALUE = r"(Attention\.v|attn\.v_proj|attn\.v)$"
PROJECTION = r"(Attention\.o|attn\.out_proj)$"
PRE_NORM = ("t5", "mbart", "pegasus")
SIZE = {"d_model": 32, "vocab_size": 100, "encoder_layers": 3, "decoder_layers": 2}
BART = tiny.PAIRS["bart"]()[1].to_dict()
MORE = {
    "mbart": lambda: (tf.MBartForConditionalGeneration, tf.MBartConfig(**_shared())),
    "marian": lambda: (tf.MarianMTModel, tf.MarianConfig(**_shared())),
    "pegasus": lambda: (tf.PegasusForConditionalGeneration, tf.PegasusConfig(**_shared())),
}
NAMES = ("t5", "bart", *MORE)
MEASURED = {"norms-residual": parts.norms_with_residual, "alti": parts.alti}
SHARED = {
    "norms": parts.norms,
    "effective": lambda layer: np.maximum(0, parts.effective(layer)).mean(0),
}


def _shared():
    names = (
        *("vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads"),
        *("decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "pad_token_id"),
        *("bos_token_id", "eos_token_id", "decoder_start_token_id", "max_position_embeddings"),
    )
    return {name: BART[name] for name in names}


@pytest.fixture(autouse=True)
def more_families(monkeypatch):
    monkeypatch.setattr(families, "FAMILIES", families.FAMILIES | MORE)


def tokenizer():
    built = tiny.plain()
    built.eos_token = "[SEP]"
    return built


def inputs_of(model):
    source = tokenizer()(TEXT, return_tensors="pt")
    ids = [model.config.decoder_start_token_id, *tokenizer()(ANSWER)["input_ids"]]
    return {**source, "decoder_input_ids": torch.tensor([ids]), "use_cache": False}


def sub_blocks(name):
    """The attention blocks in the order in which they run, with their kinds."""
    model = families.build(name, "eager")
    seen = {"value": [], "projection": [], "norm": []}
    roles = {"value": VALUE, "projection": PROJECTION, "norm": r"attn_layer_norm$"}

    def noting(role, of):
        def hook(module, args, output):
            seen[role].append((of, module, parts._rows(args[0]), parts._rows(output)))

        return hook

    for of, module in model.named_modules():
        for role, pattern in roles.items():
            if re.search(pattern, of):
                module.register_forward_hook(noting(role, of))
    streams = _residuals(model, name)
    with torch.no_grad(), parts.exact_softmax():
        output = model(**inputs_of(model), output_attentions=True)
    attentions = list(output.encoder_attentions)
    for own, cross in zip(output.decoder_attentions, output.cross_attentions, strict=True):
        attentions += [own, cross]
    found = []
    for number, attention in enumerate(attentions):
        _, _, _, made = seen["value"][number]
        _, projection, _, block = seen["projection"][number]
        residual = streams[number]
        layer = parts.Layer(
            attention[0].double().numpy(),
            made.reshape(len(made), 4, -1).transpose(1, 0, 2),
            projection.weight.detach().double().numpy(),
            np.ones_like(block),
            residual,
            block + residual,
        )
        if name not in PRE_NORM:
            _, norm, given, _ = seen["norm"][number]
            np.testing.assert_allclose(given, layer.total, atol=1e-12)
            layer.gamma, layer.epsilon = norm.weight.detach().double().numpy(), norm.eps
        found.append(layer)
    return found, len(output.encoder_attentions)


def _residuals(model, name):
    """The residual stream that every attention block is added to, as a list that fills up."""
    streams = []
    if name == "t5":
        before_mlp = r"encoder.*layer\.1\.layer_norm$|layer\.2\.layer_norm$"
        for of, module in model.named_modules():
            if re.search(r"layer\.\d\.layer_norm$", of) and not re.search(before_mlp, of):
                module.register_forward_hook(
                    lambda _, args, __: streams.append(parts._rows(args[0]))
                )
        return streams
    for of, module in model.named_modules():
        if re.search(r"attn_layer_norm$", of) and name in PRE_NORM:
            module.register_forward_hook(lambda _, args, __: streams.append(parts._rows(args[0])))
        elif re.search(r"(self_attn|encoder_attn)$", of) and name not in PRE_NORM:
            module.register_forward_hook(
                lambda _, args, kwargs, __: streams.append(
                    parts._rows(args[0] if args else kwargs["hidden_states"])
                ),
                with_kwargs=True,
            )
    return streams


def square(layer, at, encoder, sizes, of_layer, residual):
    """The rule's edges of one sub-block in the graph of both sides."""
    source, target = sizes
    cross = at >= encoder and (at - encoder) % 2 == 1
    edges = np.eye(source + target)
    if at < encoder:
        edges[:source, :source] = parts.with_share(of_layer(layer), residual)
    elif not cross:
        edges[source:, source:] = parts.with_share(of_layer(layer), residual)
    else:
        made = np.zeros((target, source + target))
        found = of_layer(layer)
        made[:, : found.shape[1]] = found
        edges[source:] = (1 - residual) * parts.to_one(made) + residual * edges[source:]
    return edges


class Cross(parts.Layer):
    """A cross-attention whose keys are the source and then the target, which has no values."""

    def transformed(self):
        heads, source, width = self.values.shape
        target = len(self.residual)
        vectors = np.zeros((target, source + target, self.weight.shape[0]))
        for i in range(target):
            for j in range(source):
                for h in range(heads):
                    block = self.weight[:, h * width : (h + 1) * width]
                    vectors[i, j] += self.attention[h, i, j] * (block @ self.values[h, j])
        return vectors

    def with_residual(self):
        vectors = self.transformed()
        target, size = vectors.shape[:2]
        for i in range(target):
            vectors[i, size - target + i] += self.residual[i]
            if self.gamma is not None:
                deviation = np.sqrt(self.total[i].var() + self.epsilon)
                centred = vectors[i] - vectors[i].mean(-1, keepdims=True)
                vectors[i] = centred * self.gamma / deviation
        return vectors


def expected_steps(name, of_layer, residual):
    layers, encoder = sub_blocks(name)
    source, target = len(layers[0].residual), len(layers[-1].residual)
    found = []
    for at, layer in enumerate(layers):
        if at >= encoder and (at - encoder) % 2 == 1:
            layer = Cross(**vars(layer))
        found.append(square(layer, at, encoder, (source, target), of_layer, residual))
    return np.array(found), encoder


def rolled(steps, encoder):
    """The product of all steps up to the end of every layer."""
    ends = [*range(1, encoder + 1), *range(encoder + 2, len(steps) + 1, 2)]
    products = [steps[0]]
    for step in steps[1:]:
        products.append(step @ products[-1])
    return np.array([products[end - 1] for end in ends])


def rollout(name, rule, **options):
    model = families.build(name), tokenizer()
    options = {"method": "rollout", "query": "all", "layers": "all", "answer": ANSWER} | options
    return attnflow.explain(TEXT, model, edges=rule, **options)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", [*SHARED, *MEASURED])
def test_every_rule_is_its_definition_on_both_sides(name, rule):
    measured = rule in MEASURED
    of_layer = (SHARED | MEASURED)[rule]
    share = 0.0 if measured else 0.3
    steps, encoder = expected_steps(name, of_layer, share)
    found = rollout(name, rule, **({} if measured else {"residual": share}))
    np.testing.assert_allclose(found.scores, rolled(steps, encoder), rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.scores.sum(-1), 1, rtol=0, atol=1e-12)


def products_of(name):
    """(A ⊙ ∇A)⁺ of every step, heads averaged, of the last prediction's log-probability."""
    model = families.build(name, "eager")
    output = model(**inputs_of(model), output_attentions=True)
    maps = list(output.encoder_attentions)
    for own, cross in zip(output.decoder_attentions, output.cross_attentions, strict=True):
        maps += [own, cross]
    value = output.logits[0, -1].log_softmax(-1).max()
    gradients = torch.autograd.grad(value, maps)
    return [
        (a[0] * g[0]).clamp(min=0).mean(0).detach().double().numpy()
        for a, g in zip(maps, gradients, strict=True)
    ], len(output.encoder_attentions)


@pytest.mark.parametrize("name", NAMES)
def test_gradient_edges_are_those_of_eager_attention(name):
    maps, encoder = products_of(name)
    source, target = len(maps[0]), len(maps[-1])
    steps = []
    for at, each in enumerate(maps):
        step = np.eye(source + target)
        moved = slice(source) if at < encoder else slice(source, None)
        cross = at >= encoder and (at - encoder) % 2 == 1
        read = slice(source) if at < encoder or cross else slice(source, None)
        step[moved] *= 0.5
        step[moved, read] += 0.5 * parts.to_one(each)
        step[np.arange(len(step)), np.arange(len(step))] += 1 - step.sum(-1)  # reads nothing
        steps.append(step)
    found = rollout(name, "gradient")
    np.testing.assert_allclose(found.scores, rolled(steps, encoder), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_additive_relevance_is_that_of_chefers_script_for_two_sides(name):
    """Rules 6, 7 and 10 of the paper, with the normalisation of 8 and 9, written out."""
    maps, encoder = products_of(name)
    maps = [each + 1e-3 for each in maps]  # the script divides by sums that may be zero
    r_ss, r_tt = np.eye(len(maps[0])), np.eye(len(maps[-1]))
    r_ts = np.zeros((len(r_tt), len(r_ss)))

    def normalised(relevance):
        added = relevance - np.eye(len(relevance))
        return added / added.sum(-1, keepdims=True) + np.eye(len(relevance))

    for cam in maps[:encoder]:
        r_ss = r_ss + cam @ r_ss
    for own, cross in zip(maps[encoder::2], maps[encoder + 1 :: 2], strict=True):
        r_tt, r_ts = r_tt + own @ r_tt, r_ts + own @ r_ts
        r_ts = r_ts + normalised(r_tt).T @ (cross @ normalised(r_ss))
    from attnflow.methods.additive import score
    from attnflow.models.pair.sides import make_steps
    from attnflow.records import LayeredGraph
    from attnflow.records.selection import make_selection
    from attnflow.solvers.execution import Execution

    steps = make_steps((len(r_ss), len(r_tt)), (encoder, (len(maps) - encoder) // 2))
    placed = np.stack(
        [step.place(torch.tensor(each)).numpy() for step, each in zip(steps, maps, strict=True)]
    )
    graph = LayeredGraph(placed, maps=placed, source=len(r_ss))
    selection = make_selection(len(maps), placed.shape[-1], layers=[-1])
    found = score(graph, selection, Execution()).values[0]
    np.testing.assert_allclose(found[len(r_ss) :, : len(r_ss)], r_ts, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        found[len(r_ss) :, len(r_ss) :], r_tt - np.eye(len(r_tt)), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_additive_relevance_of_a_model_is_that_of_its_maps(name):
    maps, encoder = products_of(name)
    found = rollout(name, "gradient", method="additive").scores
    source = len(maps[0])
    relevance = np.eye(source)
    for at, cam in enumerate(maps[:encoder]):
        relevance = relevance + cam @ relevance
        np.testing.assert_allclose(
            found[at][:source, :source], relevance - np.eye(source), rtol=0, atol=1e-6
        )
    assert (found[-1][source:, :source] > 0).any()


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_direct_contributions_count_nothing_that_is_only_carried(name):
    maps, encoder = products_of(name)
    source = len(maps[0])
    found = rollout(name, "gradient", method="direct").scores[-1]
    own, cross = sum(maps[encoder::2]), sum(maps[encoder + 1 :: 2])
    np.testing.assert_allclose(found[source:, :source], cross, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found[source:, source:], own, rtol=0, atol=1e-6)


def zeroing_by_definition(name):
    """The cosine distance of every layer's output without each value, one at a time, by hooks."""
    model = families.build(name)
    layer_name = r"block\.\d+$" if name == "t5" else r"layers\.\d+$"
    calls, zero = [], {}

    def note(module, args, kwargs, output):
        if not zero:
            output = output[0] if isinstance(output, tuple) else output
            calls.append((module, args, kwargs, output))

    def without(is_cross):
        def hook(_, __, output):
            if zero.get("cross") is not is_cross:
                return None
            output = output.clone()
            output[0, zero["position"]] = 0
            return output

        return hook

    for of, module in model.named_modules():
        if re.search(layer_name, of):
            module.register_forward_hook(note, with_kwargs=True)
        if re.search(VALUE, of):
            cross = "EncDec" in of or "encoder_attn" in of
            module.register_forward_hook(without(cross))
    with torch.no_grad():
        model(**inputs_of(model))
        encoder = len(model.get_encoder().block if name == "t5" else model.get_encoder().layers)
        sizes = calls[0][3].shape[1], calls[-1][3].shape[1]
        return np.array([_moved(*call, zero, sizes, at < encoder) for at, call in enumerate(calls)])


def _moved(module, args, kwargs, plain, zero, sizes, in_encoder):
    """One layer's edges in the graph of both sides."""
    source, target = sizes
    step = np.eye(source + target)
    moved = slice(source) if in_encoder else slice(source, None)
    step[moved] = 0
    for cross in (False,) if in_encoder else (False, True):
        for position in range(source if cross else plain.shape[1]):
            zero |= {"cross": cross, "position": position}
            again = module(*args, **kwargs)
            again = again[0] if isinstance(again, tuple) else again
            apart = 1 - torch.cosine_similarity(plain[0], again[0], dim=-1).numpy()
            column = position if in_encoder or cross else source + position
            step[moved, column] = np.maximum(apart, 0)
    return parts.to_one(step)


@pytest.mark.parametrize("name", NAMES)
def test_value_zeroing_measures_a_decoder_layer_by_both_sides(name):
    steps = zeroing_by_definition(name)
    found = rollout(name, "value-zeroing", method="raw")
    np.testing.assert_allclose(found.scores, steps, rtol=0, atol=1e-6)
    products = [steps[0]]
    for step in steps[1:]:
        products.append(step @ products[-1])
    rolled_out = rollout(name, "value-zeroing").scores
    np.testing.assert_allclose(rolled_out, products, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rule", ["alti", "gradient", "value-zeroing", "norms"])
def test_a_list_of_pairs_is_as_each_alone(rule):
    texts = [TEXT, "mat", "the keys are here"]
    model = families.build("t5"), tokenizer()
    options = {"edges": rule, "method": "rollout", "answer": ANSWER, "query": "all"}
    for text, found in zip(texts, attnflow.explain(texts, model, **options), strict=True):
        alone = attnflow.explain(text, model, **options)
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rule", [*SHARED, *MEASURED, "gradient", "gradient-only", "value-zeroing"])
@pytest.mark.parametrize("method", ["flow", "widest", "direct", "direct-all", "additive", "raw"])
def test_every_method_takes_every_rule(rule, method):
    found = rollout("t5", rule, method=method, query=None, layers=None)
    assert np.isfinite(found.values).all()
    assert found.values.max() > 0


def test_what_is_not_defined_is_refused_with_the_reason():
    model = families.build("t5"), tokenizer()
    with pytest.raises(InputError, match="barrier would count the edges that carry"):
        rollout("t5", "alti", method="barrier", query=None)
    with pytest.raises(InputError, match="'additive' has no routes through an encoder–decoder"):
        attnflow.routes(TEXT, model, answer=ANSWER, method="additive", to="keys")
    with pytest.raises(ModelError, match="nothing to differentiate"):
        rollout("t5", "gradient", query=0)


def test_a_target_is_a_token_of_the_answer():
    found = rollout("bart", "gradient", target="cat", contrast="keys", query=None, method="direct")
    assert (found.options["target"], found.options["contrast"]) == ("cat", "keys")
    other = rollout("bart", "gradient", target="is", query=None, method="direct")
    assert np.abs(found.values - other.values).max() > 1e-6
