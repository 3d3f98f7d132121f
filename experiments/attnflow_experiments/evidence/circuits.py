"""Transformers whose weights are written by hand to do a known thing over known edges.

The residual stream is cut into slots: which token stands here, where it stands, and slots to which
heads copy. A `Program` says which heads copy what, from where, into which slot of which layer;
`build` writes it into a model of transformers: a BERT (an encoder, norms behind blocks), a
RoBERTa with norms before them, GPT-2 (a decoder, norms before) or the first GPT (norms behind). Two
large constants of opposite sign stand in every stream, so that norms change next to nothing.

Attention is not saturated: a head that reads one token gives it some 97 %. Each layer also has a
head that reads an irrelevant token and writes what nobody reads, and layers that a program does not
use have nothing else, as real models have much attention that does nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

WORDS = ("begin", "?", "not", "good", "bad", "same", "other", "yes", "no", "x", "many", "few")
LETTERS = tuple("abcdefghijkl")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
SYMBOLS = (*SPECIAL, *WORDS, *LETTERS)
NUMBER = {symbol: at for at, symbol in enumerate(SYMBOLS)}
LENGTH = 10  # the last position of a text; the first is CLS, or "begin"
PLACES = 14  # that a model knows
STRENGTH = 6.0  # of a score that a head gives to what it reads
GAIN = 8.0  # of a logit
CONSTANT = 20.0
SLOTS = ("token", "a", "b", "out", "idle")
HEADS = 3

Edge = tuple[int, int, int]  # layer, query, key
Place = Callable[[int], int]  # which position a position reads
HeadWeights = tuple[Any, Any, Any, Any]


@dataclass(frozen=True)
class Head:
    """A head that copies a slot of what it reads into a slot of the reader.

    It reads by position (``place``), the token whose slot ``key`` holds what its own slot ``query``
    does, all tokens of some ``symbols``, or, with none of these, every token alike.
    """

    layer: int
    source: str
    target: str
    place: Place | None = None
    query: str = ""
    key: str = ""
    symbols: tuple[str, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()  # symbols and what they become; all as they are


@dataclass(frozen=True)
class Unit:
    """A unit of an MLP: the positive part of a weighted sum, written into a slot."""

    layer: int
    weights: tuple[tuple[str, str, float], ...]  # slot, symbol, weight
    bias: float
    target: tuple[str, str]


@dataclass(frozen=True)
class Program:
    """What a model does.

    Attributes:
        heads: Its heads.
        units: The units of its MLPs.
        usual: The answer that needs no evidence, and the score that another must exceed.
    """

    heads: tuple[Head, ...]
    units: tuple[Unit, ...] = ()
    usual: tuple[str, float] | None = None


@dataclass(frozen=True)
class Circuit:
    """One text for a program, and what is true of it.

    Attributes:
        words: From position 1 to `LENGTH`.
        program: What the model does.
        answer: What it says.
        edges: Those without which it would not say so.
        deciding: The positions whose tokens the answer is made of.
    """

    words: tuple[str, ...]
    program: Program
    answer: str
    edges: frozenset[Edge]
    deciding: frozenset[int]


Task = Callable[[random.Random, int, Sequence[int]], Circuit]


def only(reader: int, position: int) -> Place:
    """One position reads another; the others read themselves."""
    return lambda each: position if each == reader else each


def before(position: int) -> int:
    """A position reads the one before it."""
    return max(position - 1, 0)


def from_key(position: int) -> int:
    """A value reads its key, which stands before it; what is no value reads the last position."""
    return position - 1 if position % 2 == 0 and 0 < position < LENGTH - 1 else LENGTH


def copy_previous(chance: random.Random, reader: int, layers: Sequence[int]) -> Circuit:
    """The last position says what the one before it is."""
    words = _letters(chance, LENGTH - 1)
    (layer,) = layers
    head = Head(layer, "token", "out", place=before)
    edges = frozenset({(layer, reader, LENGTH - 1)})
    return Circuit((*words, "?"), Program((head,)), words[-1], edges, frozenset({LENGTH - 1}))


def induction(chance: random.Random, reader: int, layers: Sequence[int]) -> Circuit:
    """What followed the last token where it stood before."""
    words = _letters(chance, LENGTH - 1)
    first, second = layers
    place = chance.randint(1, LENGTH - 3)  # of the earlier occurrence
    heads = (
        Head(first, "token", "a", place=before),
        Head(second, "token", "out", query="token", key="a"),
    )
    return Circuit(
        (*words, words[place - 1]),
        Program(heads),
        words[place],
        frozenset({(first, place + 1, place), (second, reader, place + 1)}),
        frozenset({place + 1}),
    )


def look_up(chance: random.Random, reader: int, layers: Sequence[int]) -> Circuit:
    """Keys, each with its value, and the key that is asked for."""
    letters = _letters(chance, LENGTH - 2)
    first, second = layers
    place = chance.randrange(1, LENGTH - 2, 2)  # of the key
    heads = (
        Head(first, "token", "a", place=from_key),
        Head(first, "token", "b", place=only(reader, LENGTH - 1)),
        Head(second, "token", "out", query="b", key="a"),
    )
    edges = {(first, place + 1, place), (second, reader, place + 1), (first, reader, LENGTH - 1)}
    return Circuit(
        (*letters, letters[place - 1], "?"),
        Program(heads),
        letters[place],
        frozenset(edges),
        frozenset({place + 1}),
    )


def compare(chance: random.Random, reader: int, layers: Sequence[int]) -> Circuit:
    """Whether two positions have the same token."""
    words = list(_letters(chance, LENGTH - 1))
    first, second = layers
    places = chance.sample(range(1, LENGTH), 2)
    words[places[1] - 1] = words[places[0] - 1]
    heads = (
        Head(first, "token", "a", place=only(reader, places[0])),
        Head(second, "token", "b", place=only(reader, places[1])),
    )
    units = tuple(
        Unit(second, (("a", letter, 1.0), ("b", letter, 1.0)), -1.0, ("out", "same"))
        for letter in LETTERS
    )
    return Circuit(
        (*words, "?"),
        Program(heads, units, ("other", 0.4)),
        "same",
        frozenset({(first, reader, places[0]), (second, reader, places[1])}),
        frozenset(places),
    )


def count(chance: random.Random, reader: int, layers: Sequence[int]) -> Circuit:
    """Whether a symbol stands there often, read by a head that reads all tokens alike."""
    words = list(_letters(chance, LENGTH - 1))
    (layer,) = layers
    places = chance.sample(range(1, LENGTH), chance.randint(3, 5))
    for place in places:
        words[place - 1] = "x"
    head = Head(layer, "token", "out", copies=(("x", "many"),))
    return Circuit(
        (*words, "?"),
        Program((head,), usual=("few", 0.2)),
        "many",
        frozenset((layer, reader, place) for place in places),
        frozenset(places),
    )


def route(chance: random.Random, reader: int, layers: Sequence[int]) -> Circuit:
    """A token that reaches the reader through others, one for every layer but the last."""
    words = _letters(chance, LENGTH - 1)
    path = [*sorted(chance.sample(range(1, LENGTH), len(layers))), reader]
    heads, edges, source = [], set(), "token"
    for number, layer in enumerate(layers):
        target = "out" if number == len(layers) - 1 else "ab"[number % 2]
        heads.append(Head(layer, source, target, place=only(path[number + 1], path[number])))
        edges.add((layer, path[number + 1], path[number]))
        source = target
    return Circuit(
        (*words, "?"),
        Program(tuple(heads)),
        words[path[0] - 1],
        frozenset(edges),
        frozenset({path[0]}),
    )


def majority(chance: random.Random, reader: int, layers: Sequence[int]) -> Circuit:
    """What two of three voters say."""
    words = list(_letters(chance, LENGTH - 1))
    (layer,) = layers
    places = chance.sample(range(1, LENGTH), 3)
    answer, other = chance.sample(("yes", "no"), 2)
    for place, vote in zip(places, (answer, answer, other), strict=True):
        words[place - 1] = vote
    head = Head(layer, "token", "out", symbols=("yes", "no"))
    return Circuit(
        (*words, "?"),
        Program((head,)),
        answer,
        frozenset((layer, reader, place) for place in places[:2]),
        frozenset(places[:2]),
    )


def negation(chance: random.Random, reader: int, layers: Sequence[int]) -> Circuit:
    """A judgement that the word before it turns round."""
    words = list(_letters(chance, LENGTH - 1))
    first, second = layers
    place = chance.randint(2, LENGTH - 1)
    said, answer = chance.sample(("good", "bad"), 2)
    words[place - 2 : place] = ["not", said]
    heads = (
        Head(first, "token", "a", place=before, copies=(("not", "not"),)),
        Head(second, "b", "out", symbols=("good", "bad")),
    )
    units = [
        unit
        for word, turned in (("good", "bad"), ("bad", "good"))
        for unit in (
            Unit(first, (("token", word, 1.0), ("a", "not", -1.0)), 0.0, ("b", word)),
            Unit(first, (("token", word, 1.0), ("a", "not", 1.0)), -1.0, ("b", turned)),
        )
    ]
    return Circuit(
        (*words, "?"),
        Program(heads, tuple(units)),
        answer,
        frozenset({(first, place, place - 1), (second, reader, place)}),
        frozenset({place - 1, place}),
    )


def _letters(chance: random.Random, number: int) -> tuple[str, ...]:
    return tuple(chance.sample(LETTERS, number))


@dataclass(frozen=True)
class Family:
    """A kind of model.

    Attributes:
        encoder: Whether it reads a label off the CLS token; otherwise the last position writes.
        behind: Whether its norms stand behind blocks.
    """

    encoder: bool
    behind: bool

    @property
    def reader(self) -> int:
        """The position that says the answer."""
        return 0 if self.encoder else LENGTH


FAMILIES = {
    "bert": Family(encoder=True, behind=True),
    "roberta-prelayernorm": Family(encoder=True, behind=False),
    "gpt2": Family(encoder=False, behind=False),
    "openai-gpt": Family(encoder=False, behind=True),
}
ALL, DECODERS, ENCODERS = tuple(FAMILIES), ("gpt2", "openai-gpt"), ("bert", "roberta-prelayernorm")
TASKS: dict[str, tuple[Task, int, tuple[str, ...]]] = {  # with how many layers it uses, and models
    "copy the previous token": (copy_previous, 1, DECODERS),
    "induction": (induction, 2, DECODERS),
    "look up a key": (look_up, 2, ENCODERS),
    "compare two positions": (compare, 2, ALL),
    "count a symbol": (count, 1, ALL),
    "through a middle token": (route, 2, ALL),
    "through two middle tokens": (route, 3, ALL),
    "majority of three": (majority, 1, ALL),
    "negation": (negation, 2, ALL),
}
DEPTHS = (1, 2, 3, 4, 5, 6)


@dataclass(frozen=True)
class Built:
    """A circuit in a model."""

    task: str
    family: str
    depth: int
    circuit: Circuit

    @property
    def text(self) -> str:
        """What the model reads; CLS and SEP come with the tokenizer."""
        first = () if FAMILIES[self.family].encoder else ("begin",)
        return " ".join((*first, *self.circuit.words))

    def model(self) -> tuple[Any, Any]:
        """The network and its tokenizer."""
        return build(self.circuit.program, self.family, self.depth), tokenizer(self.family)


def make_circuits(seed: int) -> Iterator[Built]:
    """Circuits without end: every task in every family in turn, in models of drawn depths."""
    chance = random.Random(seed)
    while True:
        for task, (make, used, families) in TASKS.items():
            for family in families:
                depth = chance.choice([each for each in DEPTHS if each >= used])
                layers = sorted(chance.sample(range(1, depth + 1), used))
                circuit = make(chance, FAMILIES[family].reader, layers)
                yield Built(task, family, depth, circuit)


def tokenizer(family: str) -> Any:
    """One token a word; encoders have CLS before them and SEP behind them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel(dict(NUMBER), "[UNK]"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {}
    if FAMILIES[family].encoder:
        special = {"cls_token": "[CLS]", "sep_token": "[SEP]"}
        core.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            special_tokens=[(each, NUMBER[each]) for each in ("[CLS]", "[SEP]")],
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        model_input_names=["input_ids", "attention_mask"],
        **special,
    )


class _Stream:
    """Where slots lie in the residual stream, and the width of heads."""

    def __init__(self) -> None:
        self.first = {slot: number * len(SYMBOLS) for number, slot in enumerate(SLOTS)}
        self.places = len(SLOTS) * len(SYMBOLS)
        least = self.places + PLACES + 2  # the constants come last
        self.width = max(len(SYMBOLS), PLACES, -(-least // HEADS))
        self.size = HEADS * self.width
        # The deviation of a stream with its constants and three ones.
        self.scale = ((2 * CONSTANT**2 + 3) / self.size) ** 0.5

    def slot(self, name: str) -> slice:
        return slice(self.first[name], self.first[name] + len(SYMBOLS))

    def one(self, name: str, symbol: str) -> int:
        return self.first[name] + NUMBER[symbol]


STREAM = _Stream()


def build(program: Program, family: str, depth: int) -> Any:
    """A network that does what a program says."""
    import torch

    network, parts = _empty(family, depth)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.zero_()
            if parameter.dim() == 1 and name.endswith("weight"):  # of a norm
                parameter.fill_(STREAM.scale)
        words, places = parts.embeddings
        words[:, STREAM.slot("token")] = torch.eye(len(SYMBOLS))
        spots = places[-PLACES:]  # RoBERTa's begin behind the padding's
        spots[:, STREAM.places : STREAM.places + PLACES] = torch.eye(PLACES)
        spots[:, -2], spots[:, -1] = CONSTANT, -CONSTANT
        for number in range(1, depth + 1):
            heads = [each for each in program.heads if each.layer == number]
            irrelevant = 1 + 3 * number % (LENGTH - 1)
            idle = Head(number, "token", "idle", place=lambda _, to=irrelevant: to)
            for place, head in enumerate((*heads, idle)):
                parts.write_head(number - 1, place, _head(head))
            units = [each for each in program.units if each.layer == number]
            for place, unit in enumerate(units):
                parts.write_unit(number - 1, place, *_unit(unit))
        parts.write_answers(*_answers(program))
    return network.eval()


def _head(head: Head) -> HeadWeights:
    """What a head asks, offers, carries, ``[width, stream]``, and writes, ``[stream, width]``."""
    import torch

    asks, offers, carries = torch.zeros(3, STREAM.width, STREAM.size)
    writes = torch.zeros(STREAM.size, STREAM.width)
    strength = STRENGTH * STREAM.width**0.5
    first, symbols = STREAM.places, len(SYMBOLS)
    if head.place is not None:
        for position in range(PLACES):
            asks[min(head.place(position), PLACES - 1), first + position] = strength
        offers[:PLACES, first : first + PLACES] = torch.eye(PLACES)
    elif head.key:
        asks[:symbols, STREAM.slot(head.query)] = strength * torch.eye(symbols)
        offers[:symbols, STREAM.slot(head.key)] = torch.eye(symbols)
    elif head.symbols:
        asks[0, -2] = strength / CONSTANT
        offers[0, [STREAM.one("token", each) for each in head.symbols]] = 1.0
    copies = head.copies or tuple((each, each) for each in SYMBOLS)
    for place, (source, target) in enumerate(copies):
        carries[place, STREAM.one(head.source, source)] = 1.0
        writes[STREAM.one(head.target, target), place] = 1.0
    return asks, offers, carries, writes


def _unit(unit: Unit) -> tuple[Any, float, int]:
    import torch

    reads = torch.zeros(STREAM.size)
    for slot, symbol, weight in unit.weights:
        reads[STREAM.one(slot, symbol)] = weight
    return reads, unit.bias, STREAM.one(*unit.target)


def _answers(program: Program) -> tuple[Any, Any]:
    """The logits, ``[symbol, stream]``: from the slot "out", and the usual answer's constant."""
    import torch

    reads = torch.zeros(len(SYMBOLS), STREAM.size)
    reads[:, STREAM.slot("out")] = GAIN * torch.eye(len(SYMBOLS))
    usual = torch.zeros(len(SYMBOLS))
    if program.usual is not None:
        name, score = program.usual
        usual[NUMBER[name]] = GAIN * score
    return reads, usual


def _empty(family: str, depth: int) -> tuple[Any, Any]:
    """A network, and what writes into it."""
    import transformers as tf

    if FAMILIES[family].encoder:
        kind = tf.BertConfig if family == "bert" else tf.RobertaPreLayerNormConfig
        options = {} if family == "bert" else {"bos_token_id": None, "eos_token_id": None}
        config = kind(
            vocab_size=len(SYMBOLS),
            hidden_size=STREAM.size,
            num_hidden_layers=depth,
            num_attention_heads=HEADS,
            intermediate_size=len(LETTERS),
            hidden_act="relu",
            max_position_embeddings=PLACES + (family != "bert"),
            type_vocab_size=1,
            pad_token_id=0,
            id2label=dict(enumerate(SYMBOLS)),
            label2id=dict(NUMBER),
            **options,
        )
        if family == "bert":
            network: Any = tf.BertForSequenceClassification(config)
            return network, _Encoder(network, network.bert)
        network = tf.RobertaPreLayerNormForSequenceClassification(config)
        return network, _Encoder(network, network.roberta_prelayernorm)
    sizes = {
        "vocab_size": len(SYMBOLS),
        "n_embd": STREAM.size,
        "n_layer": depth,
        "n_head": HEADS,
        "n_positions": PLACES,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    if family == "gpt2":
        config = tf.GPT2Config(**sizes, activation_function="relu", n_inner=len(LETTERS))
        network = tf.GPT2LMHeadModel(config)
    else:
        network = tf.OpenAIGPTLMHeadModel(tf.OpenAIGPTConfig(**sizes, afn="relu"))
    return network, _Decoder(network)


class _Encoder:
    """Writes into BERT, or RoBERTa with norms before blocks."""

    def __init__(self, network: Any, base: Any) -> None:
        self.network, self.base = network, base

    @property
    def embeddings(self) -> tuple[Any, Any]:
        embeddings = self.base.embeddings
        return embeddings.word_embeddings.weight, embeddings.position_embeddings.weight

    def write_head(self, layer: int, place: int, parts: HeadWeights) -> None:
        asks, offers, carries, writes = parts
        attention = self.base.encoder.layer[layer].attention
        own = slice(place * STREAM.width, (place + 1) * STREAM.width)
        for part, weights in zip(("query", "key", "value"), (asks, offers, carries), strict=True):
            getattr(attention.self, part).weight[own] = weights
        attention.output.dense.weight[:, own] = writes

    def write_unit(self, layer: int, place: int, reads: Any, bias: float, target: int) -> None:
        block = self.base.encoder.layer[layer]
        block.intermediate.dense.weight[place] = reads
        block.intermediate.dense.bias[place] = bias
        block.output.dense.weight[target, place] = 1.0

    def write_answers(self, reads: Any, usual: Any) -> None:
        """Through the tanh of the head, which is nearly a line there."""
        head = self.network.classifier
        first, last = (
            (self.base.pooler.dense, head)
            if hasattr(head, "weight")
            else (head.dense, head.out_proj)
        )
        small, out = 0.2, STREAM.slot("out")
        first.weight[range(out.start, out.stop), range(out.start, out.stop)] = small
        last.weight[:] = reads / small
        last.bias[:] = usual


class _Decoder:
    """Writes into GPT-2, or the first GPT."""

    def __init__(self, network: Any) -> None:
        self.network = network
        base = network.transformer
        self.words, self.spots = (
            (base.wte, base.wpe)
            if hasattr(base, "wte")
            else (base.tokens_embed, base.positions_embed)
        )

    @property
    def embeddings(self) -> tuple[Any, Any]:
        return self.words.weight, self.spots.weight

    def write_head(self, layer: int, place: int, parts: HeadWeights) -> None:
        asks, offers, carries, writes = parts
        attention = self.network.transformer.h[layer].attn
        for part, weights in enumerate((asks, offers, carries)):
            first = part * STREAM.size + place * STREAM.width
            attention.c_attn.weight[:, first : first + STREAM.width] = weights.T
        own = slice(place * STREAM.width, (place + 1) * STREAM.width)
        attention.c_proj.weight[own] = writes.T

    def write_unit(self, layer: int, place: int, reads: Any, bias: float, target: int) -> None:
        block = self.network.transformer.h[layer].mlp
        block.c_fc.weight[:, place] = reads
        block.c_fc.bias[place] = bias
        block.c_proj.weight[place, target] = 1.0

    def write_answers(self, reads: Any, usual: Any) -> None:
        """Without a bias: the usual answer is read off the constant."""
        self.network.lm_head.weight[:] = reads
        self.network.lm_head.weight[:, -2] = usual / CONSTANT
