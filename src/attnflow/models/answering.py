"""A prompt and its answer in one forward pass, for models that write.

The token at position p of an answer was predicted at position p − 1, which has seen all that stands
before: one pass over prompt and answer shows how every token of the answer came about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError
from attnflow.models.adapter import Tokens
from attnflow.models.answers import join_answer, read_tokens, source_size
from attnflow.models.audio.speech import SpeechModel
from attnflow.models.capture import run as network
from attnflow.models.checks.deciding import refuse_seeing_ahead
from attnflow.models.checks.mixing import mixing_warnings
from attnflow.models.heads import CAUSAL, SEQ2SEQ
from attnflow.models.outputs import objective_value, predict
from attnflow.models.pair import sides
from attnflow.models.pair.seq2seq import Seq2SeqModel
from attnflow.models.readouts import make_readout
from attnflow.models.sizes import limit
from attnflow.models.text.model import TextModel
from attnflow.models.text.tokens import check_text, tokenize
from attnflow.models.writing import Writing, end_tokens, without_ends
from attnflow.records import Activations, Prediction

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter
    from attnflow.models.capture.spec import CaptureSpec

PROMPT, ANSWER = "prompt", "answer"  # segments of causal models; pairs have source and target


@dataclass(frozen=True, eq=False)
class AnswerPass:
    """What a model computed on a prompt and its answer.

    Attributes:
        tokens: Prompt and answer.
        activations: What the model computed.
        positions: Where the tokens of the answer stand; each was predicted one position before.
        predictions: What the model predicted there.
        log_probabilities: ``[answer]``: of the tokens that were written.
        towards: The activations with what is special to one token of the answer, by its number:
            gradients and readout, where they were asked for.
        warnings: What a reader must know of the model.
    """

    tokens: Tokens
    activations: Activations
    positions: tuple[int, ...]
    predictions: tuple[Prediction, ...]
    log_probabilities: Tensor
    towards: Callable[[int], Activations]
    warnings: tuple[str, ...] = ()


class Answers(Protocol):
    """How a model reads a prompt, writes an answer and accounts for it."""

    @property
    def model(self) -> ModelAdapter:
        """The model itself."""

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer."""

    def read(self, text: str, *, truncate: bool = False, special: bool = True) -> Tokens:
        """A prompt as tokens; without ``special``, the text has its special tokens already."""

    def write(self, prompt: Tokens, writing: Writing) -> Tokens:
        """Prompt and answer."""

    def run(self, tokens: Tokens, spec: CaptureSpec) -> AnswerPass:
        """One forward pass over prompt and answer."""

    def log_probabilities(self, batch: Sequence[Tokens]) -> list[Tensor]:
        """``[answer]`` for every prompt with its answer, in float64."""


def answers_of(model: ModelAdapter) -> Answers:
    """How this model answers; an error for one that writes nothing."""
    found = _answers(model)
    if found is not None:
        return found
    msg = (
        f"{model.name} writes no text that could be explained token by token; generate= and "
        "answer= are for causal language models and encoder–decoders of texts"
    )
    if isinstance(model, SpeechModel):
        msg = (
            f"what {model.name} writes is explained at its last token, not token by token: leave "
            "out generate= (--generate); the tokens before are positions for query= (--query)"
        )
    raise ModelError(msg)


def reads_prompts(model: ModelAdapter) -> bool:
    """Whether a dict is a prompt with named parts: others read images or sounds of it."""
    return _answers(model) is not None


def _answers(model: ModelAdapter) -> Answers | None:
    if isinstance(model, Seq2SeqModel) and not isinstance(model, SpeechModel):
        return PairAnswers(model) if model.head is SEQ2SEQ else None
    if type(model) is TextModel and model.head is CAUSAL:  # and reads no images
        return TextAnswers(model)
    return None


def answer_positions(tokens: Tokens) -> tuple[int, ...]:
    """Where the answer's tokens stand: without the token that starts a decoder's."""
    segments = tokens.segments or ()
    start = segments.index("target") if "target" in segments else -1
    return tuple(
        at for at, each in enumerate(segments) if each in (ANSWER, "target") and at != start
    )


@dataclass(frozen=True, eq=False)
class TextAnswers:
    """Answers of a causal language model: they go on where the prompt ends."""

    model: TextModel

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return self.model.tokenizer

    def read(self, text: str, *, truncate: bool = False, special: bool = True) -> Tokens:
        """A prompt as tokens."""
        model = self.model
        check_text(model.name, text)
        most = limit(model.network, model.tokenizer)
        read = tokenize(model.tokenizer, text, most, truncate=truncate, special=special)
        return replace(read, segments=(PROMPT,) * len(read))

    def write(self, prompt: Tokens, writing: Writing) -> Tokens:
        """The prompt with the tokens that the model writes, or with those of a text."""
        model, tokenizer = self.model, self.model.tokenizer
        most = limit(model.network, tokenizer)
        room = writing.length if most is None else min(writing.length, most - len(prompt))
        if writing.text is not None:
            ids = tokenizer(writing.text, add_special_tokens=False)["input_ids"]
            room = room if most is None else most - len(prompt)
            if most is not None and len(ids) > room:
                msg = (
                    f"prompt and answer have {len(prompt)} and {len(ids)} tokens; this model takes "
                    f"at most {most} together. Shorten one of them"
                )
                raise InputError(msg)
        elif room < 1:
            msg = (
                f"the prompt has {len(prompt)} tokens and this model takes at most {most}: there "
                "is no room for an answer. Shorten the prompt"
            )
            raise InputError(msg)
        else:
            options = writing.options(tokenizer, skip_prompt=True)
            inputs = model.inputs([prompt])
            inputs.pop("use_cache", None)
            made = network.generate(model.network, {**inputs, **options}, room)[len(prompt) :]
            generation = model.network.generation_config
            ends = end_tokens(tokenizer, generation) | writing.ends
            ids = without_ends(made, ends, model.name)
        answer = read_tokens(tokenizer, ids)
        if not ids:
            msg = f"answer={writing.text!r} has no tokens; give a text that is not empty"
            raise InputError(msg)
        answer = replace(answer, segments=(ANSWER,) * len(answer))
        more = {"input_ids": list(ids), "attention_mask": [1] * len(ids)}
        inputs = {
            name: [*values, *more.get(name, [values[-1]] * len(ids))]
            for name, values in prompt.inputs.items()
        }
        return join_answer(prompt, answer, **inputs)

    def run(self, tokens: Tokens, spec: CaptureSpec) -> AnswerPass:
        """One forward pass; gradients of each token's log-probability are taken when asked for."""
        model, positions = self.model, answer_positions(tokens)
        before = [at - 1 for at in positions]
        inputs = model.inputs([tokens])
        some = model.keeps_some_logits and not spec.readout
        if some:
            inputs["logits_to_keep"] = torch.tensor(before, device=inputs["input_ids"].device)
        output, capture = network.run(model.network, inputs, spec)
        size = len(tokens)
        network.expect(capture.sites, model.depth, (size, size), model.network)
        seen = replace(network.square_activations(capture, 0, size), model=model.name)
        refuse_seeing_ahead(model.network, list(seen.attention))
        if spec.zeroing:
            seen = model.zeroed(seen, tokens, spec)
        rows = output.logits[0] if some else output.logits[0, before]
        ids = [tokens.inputs["input_ids"][at] for at in positions]

        def towards(number: int) -> Activations:
            found = seen
            if spec.gradients:
                value = objective_value(rows[number], ids[number], None, multi_label=False)
                (found,) = network.add_gradients([found], capture, value, keep=True)
            if spec.readout:
                at = before[number]
                read = make_readout(capture, 0, at, output.logits[0, at], ids[number], None)
                found = replace(found, readout=read)
            return found

        return _answer_pass(
            model, tokens, seen, rows, ids, positions, towards, mixing_warnings(model, tokens)
        )

    def log_probabilities(self, batch: Sequence[Tokens]) -> list[Tensor]:
        """Of the answers' tokens, given what stands before."""
        model = self.model
        places = [answer_positions(tokens) for tokens in batch]
        inputs = model.inputs(batch)
        wanted = sorted({at - 1 for each in places for at in each})
        if model.keeps_some_logits:
            device = inputs["input_ids"].device
            inputs["logits_to_keep"] = torch.tensor(wanted, device=device)
            row_of = {at: row for row, at in enumerate(wanted)}
        else:
            row_of = {at: at for at in wanted}
        with torch.no_grad():
            logits = network.called(network.in_eval_mode(model.network), inputs).logits
        found = []
        for item, (tokens, answer) in enumerate(zip(batch, places, strict=True)):
            rows = logits[item, [row_of[at - 1] for at in answer]]
            found.append(_of_written(rows, [tokens.inputs["input_ids"][at] for at in answer]))
        return found


@dataclass(frozen=True, eq=False)
class PairAnswers:
    """Answers of an encoder–decoder: the target side."""

    model: Seq2SeqModel

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return self.model.tokenizer

    def read(self, text: str, *, truncate: bool = False, special: bool = True) -> Tokens:
        """The source."""
        return self.model.read_source(text, truncate=truncate, special=special)

    def write(self, prompt: Tokens, writing: Writing) -> Tokens:
        """The source with the answer that the model writes, or with a text."""
        written = self.model.write_target(prompt, writing)
        if len(written) < 2:
            msg = (
                f"{self.model.name} ends its answer at once: there is nothing to explain. Give "
                "another text, or an answer of your own with answer="
            )
            raise ModelError(msg)
        return self.model.join(prompt, written)

    def run(self, tokens: Tokens, spec: CaptureSpec) -> AnswerPass:
        """One forward pass; gradients of each token's log-probability are taken when asked for."""
        model, positions, source = self.model, answer_positions(tokens), source_size(tokens)
        output, capture = model.run_captured([tokens], spec)
        seen = model.activations(capture, 0, tokens)
        if spec.zeroing:
            seen = model.zeroed(tokens, seen, spec)
        rows = output.logits[0, [at - 1 - source for at in positions]]
        ids = [tokens.inputs["decoder_input_ids"][at - source] for at in positions]

        def towards(number: int) -> Activations:
            if not spec.gradients:
                return seen
            value = objective_value(rows[number], ids[number], None, multi_label=False)
            (found,) = sides.add_gradients([seen], capture, value, keep=True)
            return found

        warnings = model.warnings(tokens)
        return _answer_pass(model, tokens, seen, rows, ids, positions, towards, warnings)

    def log_probabilities(self, batch: Sequence[Tokens]) -> list[Tensor]:
        """Of the answers' tokens, given the source and what stands before."""
        model = self.model
        with torch.no_grad():
            evaluated = network.in_eval_mode(model.network)
            logits = network.called(evaluated, model.inputs(batch)).logits
        found = []
        for item, tokens in enumerate(batch):
            ids = list(tokens.inputs["decoder_input_ids"])
            found.append(_of_written(logits[item, : len(ids) - 1], ids[1:]))
        return found


def _answer_pass(  # noqa: PLR0913 - what both kinds of model have found
    model: TextModel | Seq2SeqModel,
    tokens: Tokens,
    seen: Activations,
    rows: Tensor,
    ids: Sequence[int],
    positions: tuple[int, ...],
    towards: Callable[[int], Activations],
    warnings: tuple[str, ...],
) -> AnswerPass:
    predictions = tuple(
        predict(row, model.output_name, at - 1) for row, at in zip(rows, positions, strict=True)
    )
    known = _of_written(rows.detach(), ids)
    return AnswerPass(tokens, seen, positions, predictions, known, towards, warnings)


def _of_written(rows: Tensor, ids: Sequence[int]) -> Tensor:
    """The log-probabilities of tokens, ``[answer]``, by the logits of their positions."""
    values = [row.double().log_softmax(-1)[number] for row, number in zip(rows, ids, strict=True)]
    return torch.stack(values).cpu()
