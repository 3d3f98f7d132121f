"""Without attention edges a model gives what an eager one gives whose scores are masked."""

import copy
import os
import threading

import numpy as np
import pytest
import torch
import transformers as tf
from PIL import Image
from torch import nn
from transformers import ViTImageProcessorPil

import families
import heard
import knocked
import tiny
from attnflow.errors import AttnflowError, CaptureError, ModelError
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.kinds import SEQ2SEQ
from attnflow.models.knockout import removing, survey, without_edges
from attnflow.models.loading import load_model
from attnflow.models.pair.seq2seq import Seq2SeqModel
from pictured import llava, paligemma
from zoo import sorting
from zoo.build import small_model
from zoo.kinds import classes

PICTURE = np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8)
ANSWER = "a key is on the mat"


def adapter_of(name, attention, precision=None):
    network = families.build(name, attention, precision=precision)
    if name in tiny.VISION or name == "beit":
        return load_model((network, ViTImageProcessorPil(size={"height": 32, "width": 32})))
    return load_model((network, tiny.word_piece() if name in tiny.ENCODERS else tiny.plain()))


def item_of(adapter):
    return Image.fromarray(PICTURE) if adapter.kind == "image" else tiny.TEXT


class Surveyed:
    """An adapter with one input and the edges that it has there."""

    def __init__(self, adapter, item, **answer):
        tokens = adapter.tokenize(item, **answer)
        (self.forward,) = adapter.run([tokens], None, CaptureSpec())
        self.adapter, self.network = adapter, adapter.network
        self.edges, self.before = survey(adapter, self.forward, self.ask)

    @property
    def inputs(self):
        return self.adapter.inputs([self.forward.tokens])

    def ask(self, count=1):
        """The first output, of whatever head or none, for so many copies."""
        with torch.no_grad():
            return self.network(**self.adapter.inputs([self.forward.tokens] * count))[0]

    def without(self, *sets):
        with removing([self.edges] * len(sets), sets):
            return self.ask(len(sets))

    def blocks(self, removed):
        """A set as the oracle takes it: ``[head, query, key]`` of each map."""
        found = []
        for step, heads, one in zip(self.edges.steps, self.edges.heads, removed, strict=True):
            shape = (heads, len(step.queries), len(step.keys))
            block = (
                np.zeros(shape, bool) if one is None else np.broadcast_to(one[step.block], shape)
            )
            found.append(torch.from_numpy(block.copy()))
        return found


def random_sets(edges, seed=1):
    """In all heads, in single heads, and whole rows; the second step loses nothing in two."""
    generator = np.random.default_rng(seed)
    merged, single, lost = [], [], []
    for number, (step, heads) in enumerate(zip(edges.steps, edges.heads, strict=True)):
        drawn = generator.random((heads, step.size, step.size)) < 0.3
        merged.append(None if number == 1 else drawn[0])
        single.append(None if number == 1 else drawn)
        rows = np.zeros((step.size, step.size), bool)
        rows[[step.queries[-1], step.queries[1]]] = True
        lost.append(rows)
    return merged, single, lost


def check(surveyed, eager, sets=None, tolerance=1e-5):
    """Compare a batch of sets, and an empty one, with the oracle on each alone."""
    nothing = [None] * len(surveyed.edges.steps)
    sets = [nothing, *(sets or random_sets(surveyed.edges))]
    found = surveyed.without(*sets)
    for one, removed in zip(found, sets, strict=True):
        (expected,) = knocked.eager_without(eager, surveyed.inputs, surveyed.blocks(removed))
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(one, expected, rtol=0, atol=tolerance * scale)
        apart = float((expected - surveyed.before[0]).abs().max())
        assert (apart < 1e-5) if removed is nothing else (apart > 1e-4), "the set does not matter"


NAMES = [name for name in families.FAMILIES if name != "mobilebert"]  # see below


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", NAMES)
def test_every_family_gives_what_masked_scores_give(name, attention):
    adapter = adapter_of(name, attention)
    answer = {"answer": ANSWER} if name in tiny.PAIRS else {}
    surveyed = Surveyed(adapter, item_of(adapter), **answer)
    check(surveyed, adapter_of(name, "eager").network)


@pytest.mark.parametrize("name", [*heard.LISTENERS, *heard.WRITERS])
def test_models_that_hear_give_what_masked_scores_give(name, sound):
    answer = {"answer": "the cat"} if name in heard.WRITERS else {}
    surveyed = Surveyed(load_model(heard.build(name)), sound, **answer)
    check(surveyed, heard.build(name, "eager")[0])


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("text", ["the red <image> keys to the", "<image> a"])
@pytest.mark.parametrize("build", [llava, paligemma])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_patches_among_tokens_give_what_masked_scores_give(text, build, attention):
    """The maps of the vision tower, as large as those of “<image> a”, lose nothing."""
    if build is paligemma:
        text = "<image>the keys to"
    surveyed = Surveyed(load_model(build(attention)), {"image": PICTURE, "text": text})
    eager = build("eager")[0]
    for removed in random_sets(surveyed.edges):
        found = surveyed.without(removed)
        numbers = _language_layers(eager, surveyed)
        expected = knocked.eager_without(eager, surveyed.inputs, numbers(removed))
        torch.testing.assert_close(found, expected, rtol=0, atol=5e-5)
        assert float((found - surveyed.before).abs().max()) > 1e-3


def _language_layers(eager, surveyed):
    """The declared attentions are those of the language model: the tower's are not among them."""
    with torch.no_grad():
        declared = eager(**surveyed.inputs, output_attentions=True).attentions
    assert len(declared) == len(surveyed.edges.steps)
    return surveyed.blocks


SPECIAL = (
    *("OpenAIGPTLMHeadModel", "XLNetForSequenceClassification", "DeepseekV3ForCausalLM"),
    *("FalconH1ForCausalLM", "MobileBertForMaskedLM", "GPTNeoXForSequenceClassification"),
    *("MBartForConditionalGeneration", "BartForSequenceClassification", "PegasusForCausalLM"),
    *("FSMTForConditionalGeneration", "Data2VecVisionForImageClassification"),
    *("YolosForObjectDetection", "CLIPForImageClassification", "SiglipVisionModel"),
    "CTRLLMHeadModel",
    *("MptForCausalLM", "WhisperForConditionalGeneration", "MarkupLMForSequenceClassification"),
)  # fmt: skip


UNDECLARED = ("SqueezeBert", "FlavaModel", "NeoMME", "VitsModel")
EVERY = [name for _, _, name in classes()] if os.environ.get("ZOO") == "all" else SPECIAL


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EVERY)
def test_odd_architectures_give_what_masked_scores_give(name):
    """With ZOO=all in the environment, every class that attnflow explains."""
    (entry,) = [each for each in classes() if each[2] == name]
    if not hasattr(tf, name):
        pytest.skip("transformers lists it and has no such class")
    try:
        network = small_model(*entry[1:])
        processor, items = sorting._cases(network)[0]
        adapter = load_model((network, processor))
        pair = isinstance(adapter, Seq2SeqModel) and adapter.head is SEQ2SEQ
        answer = {"answer": ANSWER} if pair else {}
        surveyed = Surveyed(adapter, items[0], **answer)
    except Exception as error:
        if name in SPECIAL or not isinstance(error, AttnflowError | ImportError):
            raise
        pytest.skip(str(error))
    if name.startswith(UNDECLARED):
        pytest.skip("its attention is not declared, or gives nothing at first, or is drawn")
    check_alone(surveyed, copy.deepcopy(adapter.network))
    try:
        sorting._use_sdpa(adapter.network, surveyed.inputs)
    except sorting.Broken as error:
        pytest.skip(str(error))
    eager = copy.deepcopy(adapter.network)
    eager.set_attn_implementation("eager")
    check_alone(Surveyed(adapter, items[0], **answer), eager)


def check_alone(surveyed, eager):
    """Without a batch, since not every model gives in one what it gives alone."""
    for removed in random_sets(surveyed.edges)[1:]:
        found = surveyed.without(removed)
        expected = knocked.eager_without(eager, surveyed.inputs, surveyed.blocks(removed))
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * scale)
        assert float((expected - surveyed.before).abs().max()) > 1e-6 * scale


@pytest.mark.parametrize("name", ["bert", "llama", "bart"])
def test_a_mask_of_four_axes_is_the_same_in_all_layers(name):
    """The way that transformers itself has to hide tokens from each other."""
    adapter = adapter_of(name, "sdpa")
    answer = {"answer": ANSWER} if name in tiny.PAIRS else {}
    surveyed = Surveyed(adapter, tiny.TEXT, **answer)
    first = surveyed.edges.steps[0]
    removed = np.random.default_rng(0).random((first.size, first.size)) < 0.3
    np.fill_diagonal(removed, False)  # no row loses everything
    steps = [removed if step == first else None for step in surveyed.edges.steps]
    inputs = dict(surveyed.inputs)
    allowed = surveyed.edges.visible[0] & ~removed
    hidden = torch.where(torch.from_numpy(allowed[first.block].copy()), 0.0, -torch.inf).double()
    eager = adapter_of(name, "eager").network
    with torch.no_grad():
        if name == "bart":  # whose mask would be that of the cross-attention, too
            states = eager.get_encoder()(inputs["input_ids"], attention_mask=hidden[None, None])
            expected = eager(**{**inputs, "encoder_outputs": states})[0]
        else:
            expected = eager(**{**inputs, "attention_mask": hidden[None, None]})[0]
    torch.testing.assert_close(surveyed.without(steps), expected, rtol=0, atol=1e-5)


class Encoder(tf.PreTrainedModel):
    """A model of one's own: torch's encoder, which has a kernel for all of a layer at once."""

    config_class = tf.BertConfig

    def __init__(self, config):
        super().__init__(config)
        width = config.hidden_size
        self.words = nn.Embedding(config.vocab_size, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
        count = config.num_hidden_layers
        self.encoder = nn.TransformerEncoder(layer, count, enable_nested_tensor=False)
        self.head = nn.Linear(width, config.num_labels)
        self.post_init()

    def _init_weights(self, module):
        pass

    def forward(self, input_ids, attention_mask=None, use_cache=False):
        states = self.words(input_ids)
        states = self.encoder(states, src_key_padding_mask=attention_mask == 0)
        return tf.modeling_outputs.SequenceClassifierOutput(logits=self.head(states[:, 0]))


class EncoderForSequenceClassification(Encoder):
    pass


def test_torchs_own_encoder_gives_what_its_own_mask_gives():
    torch.manual_seed(0)
    network = EncoderForSequenceClassification(tf.BertConfig(**tiny.USUAL)).eval()
    adapter = load_model((network, tiny.word_piece()))
    surveyed = Surveyed(adapter, tiny.TEXT)
    sets = random_sets(surveyed.edges)[:2]
    found = surveyed.without(*sets)
    for one, removed in zip(found, sets, strict=True):
        states = network.words(surveyed.inputs["input_ids"])
        with torch.no_grad():
            for layer, gone in zip(network.encoder.layers, surveyed.blocks(removed), strict=True):
                mask = torch.zeros(gone.shape).masked_fill_(gone, -torch.inf)
                states = layer(states, src_mask=mask)
            expected = network.head(states[:, 0])[0]
        torch.testing.assert_close(one, expected, rtol=0, atol=1e-5)
        assert float((expected - surveyed.before[0]).abs().max()) > 1e-3


class ShowingForSequenceClassification(Encoder):
    """Which asks torch's attention for its weights, too."""

    def __init__(self, config):
        super().__init__(config)
        attend = [nn.MultiheadAttention(config.hidden_size, 4, batch_first=True) for _ in range(3)]
        self.attend = nn.ModuleList(attend)

    def forward(self, input_ids, attention_mask=None, use_cache=False):
        states, self.shown = self.words(input_ids), []
        for attend in self.attend:
            read, weights = attend(states, states, states, average_attn_weights=False)
            self.shown.append(weights)
            states = states + read
        return tf.modeling_outputs.SequenceClassifierOutput(logits=self.head(states[:, 0]))


def test_weights_that_a_module_returns_are_those_it_used():
    torch.manual_seed(0)
    network = ShowingForSequenceClassification(tf.BertConfig(**tiny.USUAL)).eval()
    surveyed = Surveyed(load_model((network, tiny.word_piece())), tiny.TEXT)
    merged, single, lost = random_sets(surveyed.edges)
    surveyed.without(merged, single, lost)
    shown = network.shown
    for layer, weights in enumerate(shown):
        for item, removed in enumerate((merged, single, lost)):
            gone = surveyed.blocks(removed)[layer]
            assert not weights[item][gone].any()
            sums = weights[item].sum(-1)
            torch.testing.assert_close(sums, (~gone).any(-1).float(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "llama", "t5"])
def test_padding_changes_nothing(name):
    """Texts of different lengths in one batch, each without edges of its own, one without any."""
    head = tf.BertForSequenceClassification if name == "bert" else None
    tokenizer = tiny.word_piece() if name == "bert" else tiny.plain()
    adapter = load_model((families.build(name, head=head), tokenizer))
    texts = [tiny.TEXT, "the cat", "a key to the old red cabinet", "here"]
    answers = [ANSWER, "the mat", "a", "is here"] if name == "t5" else [None] * 4
    found = []
    for text, answer in zip(texts, answers, strict=True):
        (forward,) = adapter.run([adapter.tokenize(text, answer=answer)], None, CaptureSpec())

        def ask(forward=forward):
            return adapter.logits([forward.tokens], [forward.query])

        found.append(survey(adapter, forward, ask)[0])
    sets = [random_sets(edges, seed)[seed % 2] for seed, edges in enumerate(found[:3])]
    sets.append([None] * len(found[3].steps))
    assert len({len(edges.tokens) for edges in found}) > 2
    together = without_edges(adapter, found, sets)
    for edges, removed, one in zip(found, sets, together, strict=True):
        (alone,) = without_edges(adapter, [edges], [removed])
        torch.testing.assert_close(one, alone, rtol=0, atol=1e-9)
    plain = adapter.logits([found[3].tokens], [found[3].position])
    torch.testing.assert_close(together[3:], plain, rtol=0, atol=1e-9)


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["bert", "llama", "gemma3"])
def test_every_precision_gives_what_masked_scores_give(name, attention, precision):
    surveyed = Surveyed(adapter_of(name, attention, precision), tiny.TEXT)
    exact = Surveyed(adapter_of(name, attention), tiny.TEXT)
    eager = adapter_of(name, "eager").network
    tolerance = 1e-5 if precision is torch.float32 else 60 * torch.finfo(precision).eps
    for one, double in zip(surveyed.edges.visible, exact.edges.visible, strict=True):
        np.testing.assert_array_equal(one, double)  # underflow hides no edge
    for removed in random_sets(surveyed.edges):
        (found,) = surveyed.without(removed)
        (expected,) = knocked.eager_without(eager, exact.inputs, exact.blocks(removed))
        scale = float(expected.abs().max())
        apart = float((found.double() - expected).abs().max())
        assert apart <= tolerance * scale


def test_edges_are_those_that_are_not_masked():
    surveyed = Surveyed(adapter_of("gemma3", "sdpa"), tiny.TEXT)
    causal = np.tri(7, dtype=bool)
    near = causal & ~np.tri(7, k=-4, dtype=bool)
    kinds = surveyed.network.config.layer_types
    for kind, visible in zip(kinds, surveyed.edges.visible, strict=True):
        np.testing.assert_array_equal(visible, near if kind == "sliding_attention" else causal)
    assert "sliding_attention" in kinds


def test_edges_of_an_encoder_decoder_lie_where_its_sides_do():
    surveyed = Surveyed(adapter_of("t5", "sdpa"), tiny.TEXT, answer=ANSWER)
    edges = surveyed.edges
    source, target = 7, 7
    assert [len(each) for each in edges.visible] == [14] * 7  # 3 encoder layers, 2 decoder layers
    assert [list(edges.steps_in(layer)) for layer in range(1, 6)] == [[0], [1], [2], [3, 4], [5, 6]]
    own, cross = edges.visible[3], edges.visible[4]
    np.testing.assert_array_equal(own[source:, source:], np.tri(target, dtype=bool))
    assert cross[source:, :source].all()
    for step in edges.visible:
        assert step.sum() in (source**2, target * (target + 1) // 2, source * target)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_row_without_edges_does_not_read_what_is_masked(attention):
    """An additive mask of the lowest number would spread such a row over the future."""
    surveyed = Surveyed(adapter_of("llama", attention), tiny.TEXT)
    rows = np.zeros((7, 7), bool)
    rows[3] = True
    lost = [rows] * 3
    other = surveyed.adapter.tokenize("the keys to the cat is mat")
    (forward,) = surveyed.adapter.run([other], None, CaptureSpec())
    changed = Surveyed(surveyed.adapter, "the keys to the cat is mat")
    assert forward.tokens.names[:4] == surveyed.forward.tokens.names[:4]
    here, there = surveyed.without(lost)[0, 3], changed.without(lost)[0, 3]
    torch.testing.assert_close(here, there, rtol=0, atol=1e-9)


def test_nothing_of_the_model_is_changed():
    adapter = adapter_of("bert", "sdpa")
    adapter.network.encoder.layer[1].train()
    state = {name: value.clone() for name, value in adapter.network.state_dict().items()}
    surveyed = Surveyed(adapter, tiny.TEXT)
    surveyed.without(*random_sets(surveyed.edges))
    assert [module.training for module in adapter.network.encoder.layer] == [False, True, False]
    assert not any(module._forward_hooks for module in adapter.network.modules())
    for name, value in adapter.network.state_dict().items():
        assert torch.equal(value, state[name])
    assert len(torch.overrides._get_current_function_mode_stack()) == 0


def test_threads_remove_their_own_edges_from_one_model():
    adapter = load_model((families.build("gpt2"), tiny.plain()))
    (forward,) = adapter.run([adapter.tokenize(tiny.TEXT)], None, CaptureSpec())
    edges, _ = survey(adapter, forward, lambda: adapter.logits([forward.tokens], [forward.query]))
    sets = [random_sets(edges, seed)[seed % 3] for seed in range(6)]
    alone = [without_edges(adapter, [edges], [each]) for each in sets]
    found = [None] * len(sets)
    start = threading.Barrier(len(sets))

    def work(at):
        start.wait()
        for _ in range(5):
            found[at] = without_edges(adapter, [edges], [sets[at]])

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(sets))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(alone, found, strict=True):
        assert torch.equal(one, other)


WINDOWS = {
    "Longformer": {"attention_window": [8, 4, 4]},
    "BigBird": {"block_size": 4, "num_random_blocks": 2, "sep_token_id": None},
}


@pytest.mark.parametrize("name", WINDOWS)
def test_attention_in_windows_is_refused_by_name(name):
    sizes = {**tiny.USUAL, "max_position_embeddings": 200, **WINDOWS[name]}
    torch.manual_seed(0)
    network = getattr(tf, f"{name}ForMaskedLM")(getattr(tf, f"{name}Config")(**sizes)).eval()
    adapter = load_model((network, tiny.plain()))
    with pytest.raises(ModelError, match=f"edges can't be removed from {name}ForMaskedLM.*windows"):
        Surveyed(adapter, " ".join([tiny.TEXT] * 10))


def test_bigbird_attends_to_all_of_a_short_text():
    sizes = {**tiny.USUAL, "max_position_embeddings": 200, **WINDOWS["BigBird"]}
    torch.manual_seed(0)
    network = tf.BigBirdForMaskedLM(tf.BigBirdConfig(**sizes)).eval()
    surveyed = Surveyed(load_model((copy.deepcopy(network), tiny.plain())), tiny.TEXT)
    network.bert.set_attention_type("original_full")
    check(surveyed, network)


def test_scores_that_look_masked_in_some_heads_are_refused():
    """MobileBERT has no norms that hold its states: with such weights its scores are millions."""
    with pytest.raises(
        ModelError, match=r"from MobileBertModel: .*5,000 below the best.*determined"
    ):
        Surveyed(adapter_of("mobilebert", "eager"), tiny.TEXT)


class RestlessForSequenceClassification(Encoder):
    """Which attends once more whenever its states are others than at first."""

    first = None

    def forward(self, input_ids, attention_mask=None, use_cache=False):
        output = super().forward(input_ids, attention_mask)
        if self.first is None:
            self.first = output.logits
        if input_ids.shape == (1, 9) and not torch.allclose(output.logits, self.first, atol=1e-4):
            self.encoder.layers[0](self.words(input_ids))
        return output


def test_a_model_whose_calls_depend_on_its_states_is_refused():
    torch.manual_seed(0)
    network = RestlessForSequenceClassification(tf.BertConfig(**tiny.USUAL)).eval()
    surveyed = Surveyed(load_model((network, tiny.word_piece())), tiny.TEXT)
    with pytest.raises(CaptureError, match="attended 4 times without these edges, and 3 times"):
        surveyed.without(random_sets(surveyed.edges)[0])
