"""Answers of encoder–decoders: the target side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.models.adapter import Aim, Objective, Tokens
from attnflow.models.answers.interface import (
    AnswerPass,
    answer_positions,
    make_pass,
    summed_value,
    written_log_probabilities,
)
from attnflow.models.capture import run as network
from attnflow.models.pair import sides
from attnflow.models.pair.seq2seq import Seq2SeqModel
from attnflow.models.text.answers import source_size
from attnflow.models.text.writing import Writing
from attnflow.records import Activations

if TYPE_CHECKING:
    from attnflow.models.capture.spec import CaptureSpec


@dataclass(frozen=True, eq=False)
class PairAnswers:
    """Answers of an encoder–decoder: the target side."""

    model: Seq2SeqModel

    keeps_rows = False

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return self.model.tokenizer

    def read(
        self,
        given: str | Sequence[int],
        *,
        truncate: bool | None = False,
        special: bool = True,
    ) -> Tokens:
        """The source."""
        return self.model.read_source(given, truncate=truncate, special=special)

    def write(self, prompt: Tokens, writing: Writing) -> Tokens:
        """The source with the answer that the model writes, or with a text."""
        written = self.model.write_target(prompt, writing)
        if len(written) < 2:
            msg = (
                f"{self.model.name} ends its answer immediately: there is nothing to explain. Give "
                "another text, or an answer of your own with answer="
            )
            raise ModelError(msg)
        return self.model.join(prompt, written)

    def run(self, tokens: Tokens, spec: CaptureSpec) -> AnswerPass:
        """One forward pass; gradients of each token's log-probability are taken on demand."""
        model, positions, source = self.model, answer_positions(tokens), source_size(tokens)
        output, capture = model.run_captured([tokens], spec)
        seen = model.activations(capture, 0, tokens)
        if spec.zeroing:
            seen = model.zeroed(tokens, seen, spec)
        rows = output.logits[0, [at - 1 - source for at in positions]]
        ids = [tokens.inputs["decoder_input_ids"][at - source] for at in positions]

        def towards(
            numbers: Sequence[int], *, keep: bool = True, instead: int | None = None
        ) -> Activations:
            if not spec.towards_target:
                return seen

            def value(output: Any) -> Tensor:
                at = [positions[each] - 1 - source for each in numbers]
                wanted = [ids[each] for each in numbers]
                return summed_value(output.logits[0], at, wanted, instead, centred=spec.relevance)

            aim = Aim(value, Objective(tokens.names[positions[numbers[0]]]))
            (found,) = sides.add_edges([seen], capture, output, [aim], keep=keep)
            return found

        warnings = model.warnings(tokens)
        return make_pass(model, tokens, seen, rows, ids, positions, towards, warnings)

    def log_probabilities(self, batch: Sequence[Tokens]) -> list[Tensor]:
        """The log-probabilities of the answers' tokens, given the source and what comes before."""
        model = self.model
        with torch.no_grad():
            evaluated = network.in_eval_mode(model.network)
            logits = network.called(evaluated, model.inputs(batch)).logits
        found = []
        for item, tokens in enumerate(batch):
            ids = list(tokens.inputs["decoder_input_ids"])
            found.append(written_log_probabilities(logits[item, : len(ids) - 1], ids[1:]))
        return found
