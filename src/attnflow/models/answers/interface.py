"""A prompt and its answer in one forward pass, for models that write.

The token at position p of an answer was predicted at position p − 1, which has seen all that comes
before: one pass over prompt and answer shows how every token of the answer came about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.models.adapter import Tokens
from attnflow.models.outputs import objective_value, predict
from attnflow.models.text.writing import Writing
from attnflow.records import Activations, Prediction

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter
    from attnflow.models.capture.spec import CaptureSpec

PROMPT, ANSWER = "prompt", "answer"  # segments of causal models; pairs have source and target


class Towards(Protocol):
    """What is special to some tokens of an answer."""

    def __call__(
        self, numbers: Sequence[int], *, keep: bool = True, instead: int | None = None
    ) -> Activations:
        """The activations towards the sum of these tokens; or of one, rather than ``instead``."""


@dataclass(frozen=True, eq=False)
class AnswerPass:
    """What a model computed on a prompt and its answer.

    Attributes:
        tokens: Prompt and answer.
        activations: What the model computed.
        positions: The positions of the answer's tokens; each was predicted one position before.
        predictions: What the model predicted there.
        log_probabilities: ``[answer]``: of the tokens that were written.
        towards: The activations with what is special to some tokens of the answer, by their
            numbers: gradients of the sum of their log-probabilities (or, for relevance, centred
            logits), and readout, where they were requested. With ``keep=False`` no others follow,
            and the memory of gradients is freed.
        warnings: Caveats about the model.
    """

    tokens: Tokens
    activations: Activations
    positions: tuple[int, ...]
    predictions: tuple[Prediction, ...]
    log_probabilities: Tensor
    towards: Towards
    warnings: tuple[str, ...] = ()


class Answers(Protocol):
    """How a model reads a prompt, writes an answer and accounts for it."""

    @property
    def model(self) -> ModelAdapter:
        """The model itself."""

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer."""

    @property
    def keeps_rows(self) -> bool:
        """Whether `run` can keep the rows alone at which tokens were predicted (``queries``)."""

    def read(
        self,
        given: str | Sequence[int],
        *,
        truncate: bool | None = False,
        special: bool = True,
    ) -> Tokens:
        """A prompt, a text or token ids, as tokens.

        Without ``special``, the text has its special tokens already.
        """

    def write(self, prompt: Tokens, writing: Writing) -> Tokens:
        """Prompt and answer."""

    def run(self, tokens: Tokens, spec: CaptureSpec) -> AnswerPass:
        """One forward pass over prompt and answer."""

    def log_probabilities(self, batch: Sequence[Tokens]) -> list[Tensor]:
        """``[answer]`` for every prompt with its answer, in float64."""


def answers_of(model: ModelAdapter) -> Answers:
    """How this model writes answers; an error for one that writes none."""
    found = model.answers()
    if found is None:
        raise ModelError(model.why_no_answers)
    return found


def answer_positions(tokens: Tokens) -> tuple[int, ...]:
    """The positions of the answer's tokens, without the token that starts a decoder's."""
    segments = tokens.segments or ()
    start = segments.index("target") if "target" in segments else -1
    return tuple(
        at for at, each in enumerate(segments) if each in (ANSWER, "target") and at != start
    )


def make_pass(  # noqa: PLR0913 - what every kind of model has found
    model: ModelAdapter,
    tokens: Tokens,
    seen: Activations,
    rows: Tensor,
    ids: Sequence[int],
    positions: tuple[int, ...],
    towards: Towards,
    warnings: tuple[str, ...],
) -> AnswerPass:
    """What was computed, with what was predicted and what was written."""
    predictions = tuple(
        predict(row, model.output_name, at - 1) for row, at in zip(rows, positions, strict=True)
    )
    known = written_log_probabilities(rows.detach(), ids)
    return AnswerPass(tokens, seen, positions, predictions, known, towards, warnings)


def summed_value(
    logits: Tensor,
    rows: Sequence[int],
    ids: Sequence[int],
    instead: int | None = None,
    *,
    centred: bool,
) -> Tensor:
    """The sum of what some tokens are explained by, from logits ``[position, vocabulary]``."""
    values = [
        objective_value(row, number, instead, multi_label=False, centred=centred)
        for row, number in zip(logits[list(rows)].unbind(), ids, strict=True)
    ]
    return torch.stack(values).sum()


def written_log_probabilities(rows: Tensor, ids: Sequence[int]) -> Tensor:
    """The log-probabilities of tokens, ``[answer]``, by the logits of their positions."""
    values = [row.double().log_softmax(-1)[number] for row, number in zip(rows, ids, strict=True)]
    return torch.stack(values).cpu()
