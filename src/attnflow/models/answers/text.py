"""Answers of causal language models: they go on where the prompt ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnflow.errors import InputError
from attnflow.models.adapter import Aim, Objective, Tokens
from attnflow.models.answers.interface import (
    ANSWER,
    PROMPT,
    AnswerPass,
    answer_positions,
    make_pass,
    summed_value,
    written_log_probabilities,
)
from attnflow.models.capture import run as network
from attnflow.models.capture.blocks import make_readout
from attnflow.models.capture.towards import add_edges
from attnflow.models.checks.deciding import refuse_looking_ahead
from attnflow.models.checks.mixing import mixing_warnings
from attnflow.models.sizes import limit, vocabulary_of
from attnflow.models.text.answers import join_answer, join_text, read_tokens, with_space_notice
from attnflow.models.text.encoded import check_ids, read_encoded
from attnflow.models.text.model import TextModel
from attnflow.models.text.tokens import check_text, tokenize
from attnflow.models.text.writing import Writing, cut_at, end_tokens, without_ends
from attnflow.records import Activations

if TYPE_CHECKING:
    from attnflow.models.capture.spec import CaptureSpec


MOST_SAID = 1 << 26  # logits that are kept of a written answer


@dataclass(frozen=True, eq=False)
class TextAnswers:
    """Answers of a causal language model: they go on where the prompt ends."""

    model: TextModel

    keeps_rows = True

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
        """A prompt as tokens."""
        model, tokenizer = self.model, self.model.tokenizer
        most = limit(model.network, tokenizer)
        if isinstance(given, str):
            check_text(model.name, given)
            read = tokenize(tokenizer, given, most, truncate=bool(truncate), special=special)
        else:
            size = vocabulary_of(model.network)
            read = read_encoded(tokenizer, given, most, size, truncate=truncate)
        if special:  # what a chat template ends in is its author's choice
            read = with_space_notice(tokenizer, read)
        return replace(read, segments=(PROMPT,) * len(read))

    def write(self, prompt: Tokens, writing: Writing) -> Tokens:
        """The prompt with the tokens that the model writes, or with those of a text."""
        model, tokenizer = self.model, self.model.tokenizer
        most = limit(model.network, tokenizer)
        room = writing.length if most is None else min(writing.length, most - len(prompt))
        stopped: int | None = None
        said: Tensor | None = None
        notices: tuple[str, ...] = ()
        ends = end_tokens(tokenizer, model.network.generation_config) | writing.ends
        if writing.text is not None:
            if isinstance(writing.text, str):
                ids, notices = join_text(tokenizer, prompt.text, writing.text)
            else:
                check_ids(writing.text, vocabulary_of(model.network))
                ids = without_ends(writing.text, ends, model.name)  # as those written here are
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
                "is no space left for an answer. Shorten the prompt"
            )
            raise InputError(msg)
        else:
            options = writing.options(tokenizer, skip_prompt=True)
            inputs = model.inputs([prompt])
            inputs.pop("use_cache", None)
            given = {**inputs, **options}
            made, said = network.generate_with_logits(model.network, given, room, MOST_SAID)
            made = made[len(prompt) :]
            ids, stopped = without_ends(made, ends, model.name), cut_at(made, ends, room)
        answer = read_tokens(tokenizer, ids, before=prompt.inputs["input_ids"])
        if not ids:
            msg = f"answer={writing.text!r} has no tokens; give a text that is not empty"
            raise InputError(msg)
        answer = replace(answer, segments=(ANSWER,) * len(answer), cut_at=stopped, notices=notices)
        more = {"input_ids": list(ids), "attention_mask": [1] * len(ids)}
        inputs = {
            name: [*values, *more.get(name, [values[-1]] * len(ids))]
            for name, values in prompt.inputs.items()
        }
        joined = join_answer(prompt, answer, **inputs)
        return joined if said is None else replace(joined, said=said[: len(ids)])

    def run(self, tokens: Tokens, spec: CaptureSpec) -> AnswerPass:
        """One forward pass; gradients of each token's log-probability are taken on demand.

        With ``spec.queries`` each token has only the rows of attention where it was predicted.
        """
        model, positions = self.model, answer_positions(tokens)
        before = [at - 1 for at in positions]
        inputs = model.inputs([tokens])
        some = model.keeps_some_logits and not spec.readout
        if some:
            inputs["logits_to_keep"] = torch.tensor(before, device=inputs["input_ids"].device)
        said = tokens.said if some else None
        output, capture = network.run(model.network, inputs, spec, [1] * model.depth, said)
        size = len(tokens)
        if spec.queries is None:
            network.expect(capture.sites, model.depth, (size, size), model.network)
            seen = replace(network.square_activations(capture, 0, size), model=model.name)
            refuse_looking_ahead(model.network, list(seen.attention))
        else:
            network.expect(capture.sites, model.depth, (len(before), size), model.network)
            seen = replace(network.chosen_rows(capture, before, size), model=model.name)
            refuse_looking_ahead(model.network, [each[..., before[0] :] for each in seen.attention])
        if spec.zeroing:
            seen = model.zeroed(seen, tokens, spec)
        rows = output.logits[0] if some else output.logits[0, before]
        ids = [tokens.inputs["input_ids"][at] for at in positions]

        def towards(
            numbers: Sequence[int], *, keep: bool = True, instead: int | None = None
        ) -> Activations:
            found, first = seen, numbers[0]
            if spec.towards_target:

                def value(output: Any) -> Tensor:
                    at = [each if some else before[each] for each in numbers]
                    wanted = [ids[each] for each in numbers]
                    return summed_value(
                        output.logits[0], at, wanted, instead, centred=spec.relevance
                    )

                aim = Aim(value, Objective(tokens.names[positions[first]]))
                (found,) = add_edges([found], capture, output, [aim], keep=keep)
            if spec.queries is not None:
                found = _row_of(found, first)
            if spec.readout:
                at = before[first]
                read = make_readout(capture, 0, at, output.logits[0, at], ids[first], None)
                found = replace(found, readout=read)
            return found

        return make_pass(
            model, tokens, seen, rows, ids, positions, towards, mixing_warnings(model, tokens)
        )

    def log_probabilities(self, batch: Sequence[Tokens]) -> list[Tensor]:
        """The log-probabilities of the answers' tokens, given what comes before them."""
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
            ids = [tokens.inputs["input_ids"][at] for at in answer]
            found.append(written_log_probabilities(rows, ids))
        return found


def _row_of(found: Activations, number: int) -> Activations:
    """The activations of one row, ``[head, 1, key]`` per layer."""
    own = slice(number, number + 1)
    gradients = tuple(each[:, own] for each in found.gradients or ())
    return replace(
        found, attention=tuple(each[:, own] for each in found.attention), gradients=gradients
    )
