"""Extractive question answering: a span of the second text, from its start to its end.

The head gives every token a logit as the start and one as the end. Both are probabilities over all
tokens, and a span's is their product; the answer is the likeliest span of the passage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError, shown
from attnflow.io.inputs import is_pair
from attnflow.models.adapter import Aim, Objective, Query, Tokens
from attnflow.models.capture import run as network
from attnflow.models.outputs import ALTERNATIVES, no_probability, objective_value
from attnflow.models.text.model import TextModel
from attnflow.models.text.tokens import is_encoded
from attnflow.records import Prediction

LONGEST = 30  # tokens of an answer
START, END, SPAN = "start", "end", "span"
TARGETS = (START, END, SPAN)


class Answer(NamedTuple):
    """A span with its probability."""

    start: int
    end: int
    probability: float


class Spans(NamedTuple):
    """The answer to one question, also as a prediction, and all log-probabilities.

    Those are ``[2, position]``: of each token as the start, and as the end.
    """

    best: Answer
    prediction: Prediction
    shares: Tensor


class SpanModel(TextModel):
    """A model that answers a question by a span of a passage; it reads both as a pair."""

    finds_spans = True

    @property
    def description(self) -> dict[str, Any]:
        """What was loaded, and that it decides the answer."""
        return {"decides": "the answer", **super().description}

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """Question and passage as tokens."""
        if not is_pair(item) and not is_encoded(item):
            msg = (
                f"{self.name} answers a question by a span of a passage; give both, as a tuple of "
                f"two texts: (question, passage). This is {shown(item)}"
            )
            raise InputError(msg)
        tokens = super().tokenize(item, truncate=truncate, answer=answer)
        if "second" not in (tokens.segments or ()):
            msg = (
                f"{self.name} needs the encoding of a pair: tokenizer(question, passage)"
                if is_encoded(item)
                else f"nothing is left of the passage: {shown(item[1])}; shorten the question"
            )
            raise InputError(msg)
        return tokens

    def output_indices(self, target: str | int) -> tuple[int, ...]:
        """The number of the target: the start, the end or the whole span."""
        if target not in TARGETS:
            allowed = ", ".join(map(repr, TARGETS))
            msg = f"target={shown(target)} is not a part of the answer; allowed: {allowed}"
            raise InputError(msg)
        return (TARGETS.index(str(target)),)

    def output_name(self, index: int) -> str:
        """Start, end or span."""
        return TARGETS[index]

    def decision(self, tokens: Tokens) -> int:
        """Not defined: an answer has a start and an end."""
        raise no_probability(self.name)

    def spans(self, batch: Sequence[Tokens]) -> list[Spans]:
        """The answers to questions."""
        with torch.no_grad():
            output = network.called(network.in_eval_mode(self.network), self.inputs(batch))
        return [
            Spans(
                self._spans(output, item, tokens)[0],
                self._prediction(output, item, tokens, 0),
                torch.stack(self._both(output, item, tokens)).double().log_softmax(-1).cpu(),
            )
            for item, tokens in enumerate(batch)
        ]

    def _positions(
        self, tokens: Tokens, output: Any, item: int, objective: Objective, *, causal: bool
    ) -> tuple[int, ...]:
        """The answer's first and last token, or the one that is the target."""
        best, *_ = self._spans(output, item, tokens)
        ends = {START: (best.start,), END: (best.end,)}
        both = tuple(dict.fromkeys((best.start, best.end)))
        return ends.get(str(objective.target), both)

    def _notices(
        self, query: Query, tokens: Tokens, output: Any, item: int, objective: Objective
    ) -> tuple[str, ...]:
        """A notice where the model prefers to give no answer, which the first token stands for."""
        start, end = self._shares(output, item, tokens)
        nothing, (best, *_) = float(start[0] * end[0]), self._spans(output, item, tokens)
        if nothing <= best.probability:
            return ()
        return (
            f"the model finds it more likely that there is no answer ({nothing:.1%}); explained is "
            f"the likeliest span",
        )

    def _objective(self, objective: Objective) -> Objective | None:
        """The start or the end can be named as the target, whatever the edges."""
        return None if objective.target in (None, SPAN) else objective

    def _aim(
        self,
        output: Any,
        item: int,
        query: int,
        objective: Objective,
        tokens: Tokens,
        *,
        centred: bool = False,
    ) -> Aim:
        """The log-probability, or the centred logit, of the answer's start, its end, or both."""
        best, *_ = self._spans(output, item, tokens)
        ends = {START: (0,), END: (1,)}.get(str(objective.target), (0, 1))
        places = (best.start, best.end)

        def value(output: Any) -> Tensor:
            both = self._both(output, item, tokens)
            parts = [
                objective_value(both[end], places[end], None, multi_label=False, centred=centred)
                for end in ends
            ]
            return torch.stack(parts).sum()

        return Aim(value, self._objective(objective) or Objective())

    def _spans(self, output: Any, item: int, tokens: Tokens) -> list[Answer]:
        """The likeliest spans of the passage, the best first."""
        start, end = self._shares(output, item, tokens)
        inside = [at for at, segment in enumerate(tokens.segments or ()) if segment == "second"]
        found = [
            Answer(first, last, float(start[first] * end[last]))
            for place, first in enumerate(inside)
            for last in inside[place : place + LONGEST]
        ]
        return sorted(found, key=lambda each: -each.probability)[:ALTERNATIVES]

    def _prediction(self, output: Any, item: int, tokens: Tokens, at: int) -> Prediction:
        """The answer as written in the passage, with its probability."""
        found = self._spans(output, item, tokens)
        ranked = tuple((self._text(tokens, each), each.probability) for each in found)
        return Prediction(*ranked[0], alternatives=ranked)

    def _text(self, tokens: Tokens, answer: Answer) -> str:
        if tokens.spans is None:
            ids = tokens.inputs["input_ids"][answer.start : answer.end + 1]
            return str(self.tokenizer.decode(ids)).strip()
        first, last = tokens.spans[answer.start][0], tokens.spans[answer.end][1]
        return tokens.text[first:last].strip()

    def _both(self, output: Any, item: int, tokens: Tokens) -> tuple[Tensor, Tensor]:
        """``[position]`` of the start and of the end, without padding."""
        found = [getattr(output, f"{name}_logits", None) for name in (START, END)]
        if found[0] is None or found[1] is None:
            msg = (
                f"{type(self.network).__name__} gives no logits of a start and an end to every "
                "token, and can't be explained"
            )
            raise ModelError(msg)
        return found[0][item, : len(tokens)], found[1][item, : len(tokens)]

    def _shares(self, output: Any, item: int, tokens: Tokens) -> list[Tensor]:
        both = self._both(output, item, tokens)
        return [logits.detach().double().softmax(-1) for logits in both]

    def _outcome(self, output: Any, item: int, tokens: Tokens) -> Tensor:
        return torch.stack(self._both(output, item, tokens))
