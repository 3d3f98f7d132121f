"""Encoder–decoder models: one graph through encoder, decoder and cross-attention.

The nodes of every step are the source positions followed by the target positions. An encoder layer
moves the source and carries the target along; a decoder layer is two steps, self-attention and
cross-attention, which move the target and carry the source along:

    encoder   | W 0 |     decoder self   | I 0 |     cross   | I 0 |
              | 0 I |                    | 0 W |             | C 0 |

The residual that all edges get, (1 − r)·W + r·I, then gives each sub-layer its own residual, and
leaves what is carried along as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError
from attnflow.models.adapter import Filler, ForwardPass, Kind, Objective, Query, Tokens
from attnflow.models.blanking import blank_tokens, find_filler
from attnflow.models.capture import run as network
from attnflow.models.capture.sites import Site
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.heads import SEQ2SEQ, HeadKind
from attnflow.models.outputs import predict
from attnflow.models.text import describe, limit
from attnflow.models.tokens import check_text, name_token, tokenize
from attnflow.models.unmeasured import UnmeasuredModel
from attnflow.records import Activations, Prediction

ANSWER = 32  # the most tokens of the model's own answer
SOURCE = {name: name for name in ("input_ids", "attention_mask")}  # what every encoder takes


@dataclass(frozen=True, eq=False)
class Seq2SeqModel(UnmeasuredModel):
    """An encoder–decoder language model with its tokenizer."""

    network: Any
    tokenizer: Any
    name: str
    head: HeadKind
    batchable: bool = True

    def __post_init__(self) -> None:
        if self.head is not SEQ2SEQ:
            msg = (
                f"{type(self.network).__name__}: of encoder–decoder models, those that generate "
                "text can be explained (…ForConditionalGeneration)"
            )
            raise ModelError(msg)

    @property
    def kind(self) -> Kind:
        """It takes a text and writes another."""
        return "pair"

    @property
    def description(self) -> dict[str, Any]:
        """What was loaded."""
        return describe(self.network, self.head)

    @property
    def depth(self) -> int:
        """Encoder layers, then decoder layers."""
        return sum(self._depths())

    def _depths(self) -> tuple[int, int]:
        config = self.network.config
        encoder = getattr(config, "encoder_layers", None) or config.num_hidden_layers
        names = ("decoder_layers", "num_decoder_layers")
        decoder = next((getattr(config, n) for n in names if getattr(config, n, None)), encoder)
        return int(encoder), int(decoder)

    @property
    def mask_token(self) -> None:
        """It predicts no masked words."""

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """Source and target as one list of tokens."""
        check_text(self.name, item)
        most = limit(self.network, self.tokenizer)
        source = tokenize(self.tokenizer, item, most, truncate=truncate)
        if answer is None:
            ids = self.generate(source, ANSWER)
            answer = str(self.tokenizer.decode(ids, skip_special_tokens=True))
        if not isinstance(answer, str):
            msg = f"answer={answer!r} is {type(answer).__name__}; give the answer as text"
            raise InputError(msg)
        answer_tokens = tokenize(self.tokenizer, answer, most, truncate=truncate, as_target=True)
        start = self._start()
        ids = list(answer_tokens.inputs["input_ids"])
        if ids and ids[-1] == self.tokenizer.eos_token_id:
            ids.pop()  # the last position is where the model predicts what comes next
        names = (name_token(self.tokenizer, start), *answer_tokens.names[: len(ids)])
        return Tokens(
            names=source.names + names,
            text=item,
            inputs={**source.inputs, "decoder_input_ids": [start, *ids]},
            word_ids=_join_word_ids(source, answer_tokens, len(ids)),
            word_texts=source.word_texts + answer_tokens.word_texts,
            segments=("source",) * len(source) + ("target",) * len(names),
            answer=answer,
        )

    def _start(self) -> int:
        for config in (self.network.generation_config, self.network.config):
            start = getattr(config, "decoder_start_token_id", None)
            if start is not None:
                return int(start)
        msg = f"{self.name} does not name the token that its answers start with"
        raise ModelError(msg)

    def generate(self, tokens: Tokens, length: int) -> list[int]:
        """The model's own answer, most likely token by most likely token."""
        inputs = self._batch([tokens], SOURCE)
        with torch.no_grad():
            ids = network.in_eval_mode(self.network).generate(
                **inputs, max_new_tokens=length, do_sample=False, num_beams=1
            )
        return [int(token) for token in ids[0]]

    def run(
        self,
        batch: Sequence[Tokens],
        query: Query,
        spec: CaptureSpec,
        objectives: Sequence[Objective] = (),
    ) -> list[ForwardPass]:
        """Run encoder and decoder once on a batch."""
        if spec.blocks or spec.gradients:
            msg = "values and gradients are read from models of one sequence, not encoder–decoders"
            raise InputError(msg)
        source, target = self._sides(batch)
        encoder_network = network.in_eval_mode(self.network).get_encoder()
        encoded, encoder = network.run(encoder_network, source, spec)
        output, decoder = network.run(self.network, _decoder_inputs(source, target, encoded), spec)
        sites = (encoder.sites, decoder.sites[::2], decoder.sites[1::2])
        self._expect(sites, source["input_ids"].shape[1], target["input_ids"].shape[1])
        passes = []
        for item, tokens in enumerate(batch):
            at = len(tokens) - 1 if query is None or query == "all" else tokens.position(query)
            activations = self._activations(sites, item, tokens)
            prediction = self._prediction(output, item, tokens, at)
            passes.append(ForwardPass(tokens, activations, at, prediction))
        return passes

    def predict(self, batch: Sequence[Tokens], positions: Sequence[int]) -> list[Prediction | None]:
        """The tokens that follow positions of the answer."""
        source, target = self._sides(batch)
        inputs = {**_decoder_inputs(source, target), "input_ids": source["input_ids"]}
        with torch.no_grad():
            output = network.in_eval_mode(self.network)(**inputs)
        pairs = enumerate(zip(batch, positions, strict=True))
        return [self._prediction(output, item, tokens, at) for item, (tokens, at) in pairs]

    def output_name(self, index: int) -> str:
        """A token as it is displayed."""
        return name_token(self.tokenizer, index)

    def filler(self, name: str | None = None) -> Filler:
        """What replaces a blanked token of the source."""
        return find_filler(self.tokenizer, name, self.name)

    def blankable(self, tokens: Tokens, query: int) -> list[int]:
        """The tokens of the source, without special ones."""
        words = tokens.word_ids or [0] * len(tokens)
        return [
            at
            for at, segment in enumerate(tokens.segments or ())
            if segment == "source" and words[at] is not None
        ]

    def blank(self, tokens: Tokens, positions: Sequence[int], filler: Filler) -> Tokens:
        """The pair with a filler at each of these positions of the source."""
        return blank_tokens(tokens, positions, filler)

    def _sides(self, batch: Sequence[Tokens]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        return self._batch(batch, SOURCE), self._batch(batch, {"decoder_input_ids": "input_ids"})

    def _batch(self, batch: Sequence[Tokens], names: dict[str, str]) -> dict[str, Tensor]:
        items = [{to: t.inputs[of] for of, to in names.items()} for t in batch]
        for item in items:
            item.setdefault("attention_mask", [1] * len(item["input_ids"]))
        inputs = network.pad(items, {"input_ids": self.tokenizer.pad_token_id or 0})
        device = network.device_of(self.network)
        return {name: tensor.to(device) for name, tensor in inputs.items()}

    def _expect(self, sites: Sequence[Sequence[Site]], source: int, target: int) -> None:
        encoder, decoder = self._depths()
        shapes = ((source, source), (target, target), (target, source))
        for found, count, shape in zip(sites, (encoder, decoder, decoder), shapes, strict=True):
            network.expect(found, count, shape)

    def _activations(
        self, sites: Sequence[Sequence[Site]], item: int, tokens: Tokens
    ) -> Activations:
        segments = tokens.segments or ()
        source, target = segments.count("source"), segments.count("target")
        encoder = [place(network.cut(s, item, source, source), target, 0) for s in sites[0]]
        decoder = [
            step
            for own, cross in zip(sites[1], sites[2], strict=True)
            for step in (
                place(network.cut(own, item, target, target), source, 1),
                place_cross(network.cut(cross, item, target, source)),
            )
        ]
        first = len(encoder)
        ends = (*range(1, first + 1), *range(first + 2, first + len(decoder) + 1, 2))
        return Activations((*encoder, *decoder), ends=ends)

    def _prediction(self, output: Any, item: int, tokens: Tokens, at: int) -> Prediction | None:
        """What follows a position of the answer; positions of the source predict nothing."""
        source = (tokens.segments or ()).count("source")
        if at < source:
            return None
        logits = output.logits[item, at - source]
        return predict(logits, lambda token: name_token(self.tokenizer, token), at)


def _decoder_inputs(
    source: dict[str, Tensor], target: dict[str, Tensor], encoded: Any = None
) -> dict[str, Any]:
    inputs = {
        "decoder_input_ids": target["input_ids"],
        "decoder_attention_mask": target["attention_mask"],
        "attention_mask": source["attention_mask"],
        "use_cache": False,
    }
    return inputs if encoded is None else {**inputs, "encoder_outputs": encoded}


def place(attention: Tensor, others: int, before: int) -> Tensor:
    """Attention within one side of the pair; the other side's ``others`` positions are carried."""
    size = attention.shape[-1]
    first = others if before else 0
    whole = _identity(attention, size + others)
    whole[..., first : first + size, first : first + size] = attention
    return whole


def place_cross(attention: Tensor) -> Tensor:
    """Attention of the target to the source, which is carried."""
    target, source = attention.shape[-2:]
    whole = _identity(attention, source + target)
    whole[..., source:, :source] = attention
    whole[..., source:, source:] = 0
    return whole


def _identity(like: Tensor, size: int) -> Tensor:
    eye = torch.eye(size, dtype=like.dtype)
    return eye.expand(*like.shape[:-2], size, size).clone()


def _join_word_ids(source: Tokens, target: Tokens, count: int) -> tuple[int | None, ...] | None:
    if source.word_ids is None or target.word_ids is None:
        return None
    first = len(source.word_texts)
    moved = (None if word is None else word + first for word in target.word_ids[:count])
    return (*source.word_ids, None, *moved)
