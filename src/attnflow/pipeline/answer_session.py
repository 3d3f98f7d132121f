"""The session of a whole answer: one forward pass over prompt and answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from attnflow.errors import AttnflowError, ModelError
from attnflow.methods import Method, Scores
from attnflow.methods.method import merge_statistics
from attnflow.methods.question import Question, Target, no_progress
from attnflow.models.adapter import ForwardPass, Objective
from attnflow.models.answers.interface import AnswerPass, Answers, answer_positions
from attnflow.models.text.edits import first_positions
from attnflow.pipeline.attributions import logit_scores
from attnflow.pipeline.choice import choose, paper_note
from attnflow.pipeline.measured import Advance, Check, find_measure
from attnflow.pipeline.own_rows import own_scores, reads_own_rows
from attnflow.pipeline.request import Request
from attnflow.pipeline.session import Session
from attnflow.pipeline.source import LOGIT
from attnflow.records.arrays import to_numpy
from attnflow.records.selection import Groups

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens


def open_answer(
    tokens: Tokens,
    answers: Answers,
    config: Request,
    *,
    through: bool = False,
    check: Check | None = None,
) -> AnswerSession:
    """One forward pass, with the edges that are chosen, or with others where they are refused.

    ``through`` says that scores are handed on along paths, which the choice must know. ``check`` is
    called between pieces of long work.
    """
    chosen = choose(config, answers.model, tokens, Objective(), paths=through)
    try:
        opened = AnswerSession(answers, tokens, chosen.config, chosen.notes, pause=check)
        opened.check()
    except AttnflowError as error:
        if chosen.fallback is None:
            raise
        notes = (paper_note(chosen.fallback, error),)
        return AnswerSession(answers, tokens, chosen.fallback, notes, pause=check)
    return opened


@dataclass(frozen=True, eq=False)
class AnswerSession:
    """A model's forward pass on a prompt and its answer, under a configuration.

    ``given`` is that pass, with all rows, where another configuration has asked for the same.
    ``pause`` is called between pieces of long work, and may raise to end it.
    """

    answers: Answers
    tokens: Tokens
    config: Request
    notes: tuple[str, ...] = ()
    given: AnswerPass | None = None
    pause: Check | None = None

    @cached_property
    def measure(self) -> Method | None:
        """The method, where it reads no edges."""
        return find_measure(self.config.method)

    @cached_property
    def forward(self) -> AnswerPass:
        """The forward pass."""
        spec, pause = self.config.capture(), self.pause
        if pause is not None:
            spec = replace(spec, progress=lambda _: pause())
        if self.own_rows:
            spec = replace(spec, queries=[at - 1 for at in self.positions])
        found = self.given or self.answers.run(self.tokens, spec)
        if self.config.strict and found.warnings:
            msg = f"{found.warnings[0]} (refused: strict=True)"
            raise ModelError(msg)
        return found

    @cached_property
    def own_rows(self) -> bool:
        """Whether each token needs the rows alone where it was predicted, and no graph."""
        own = reads_own_rows(self.answers, self.config, len(self.tokens))
        return own and self.given is None

    def check(self) -> None:
        """Do what may be refused: run the model, and make a graph where there is one."""
        if self.own_rows:
            own_scores(self.first, self.layer, None)
        elif self.measure is None:
            self.first.graph(self.config.method)

    @property
    def positions(self) -> tuple[int, ...]:
        """Where the answer's tokens stand."""
        return answer_positions(self.tokens)

    @property
    def layer(self) -> int:
        """The layer that is explained."""
        return self.config.resolve_layers(self.answers.model.depth)[1]

    @property
    def correction(self) -> str | None:
        """How scores are corrected for the receptive field."""
        return self.first.correction(self.config.method)

    @property
    def each_alone(self) -> bool:
        """Whether every token of the answer has edges of its own."""
        return self.config.rule.needs.target or self.config.source == LOGIT

    @cached_property
    def first(self) -> Session:
        """The session of the answer's first token, whose graph serves all where it can."""
        return self.session(0)

    def session(self, number: int) -> Session:
        """The session of one token of the answer, with what is special to it."""
        forward, at = self.forward, self.positions[number]
        objective = Objective(self.tokens.names[at])
        seen = ForwardPass(
            self.tokens,
            forward.towards(number),
            at - 1,
            forward.predictions[number],
            objective if self.config.uses_target else None,
            warnings=forward.warnings,
        )
        return Session(self.answers.model, seen, self.config, objective, self.notes)

    def rows(self, keys: Sequence[Groups | None], advance: Advance) -> list[Scores]:
        """``[answer, key]`` for tokens (``None``) and for groups of tokens, in their order."""
        count, method, layer = len(self.positions), self.config.method, self.layer
        if self.measure is None and not self.each_alone:
            queries = [at - 1 for at in self.positions]
            found = [
                self.first.scores(method, (layer,), queries, groups=each, check=self.pause)
                for each in keys
            ]
            return [Scores(scores.values[0], scores.statistics) for scores in found]
        rows: list[list[Scores]] = []
        for number in range(count):
            rows.append(list(self._row(number, keys)))
            advance((number + 1) / count)
        return [
            Scores(
                np.concatenate([row.values for row in of_keys]),
                merge_statistics([row.statistics for row in of_keys]),
            )
            for of_keys in zip(*rows, strict=True)
        ]

    def _row(self, number: int, keys: Sequence[Groups | None]) -> Iterator[Scores]:
        """The scores for one token, ``[1, key]``, of edges or a measure of its own."""
        if self.measure is not None:
            yield from (self._measured(self.measure, number, each) for each in keys)
            return
        session = self.first if number == 0 else self.session(number)
        for each in keys:
            if self.own_rows:
                yield own_scores(session, self.layer, each)
                continue
            if self.config.source == LOGIT:
                scores = logit_scores(session, self.config.method, each)
            else:
                layers, queries = (self.layer,), (session.query,)
                method = self.config.method
                scores = session.scores(method, layers, queries, groups=each, check=self.pause)
            yield Scores(scores.values[0], scores.statistics)

    def _measured(self, measure: Method, number: int, groups: Groups | None) -> Scores:
        """A measure's scores: of the text up to the token, which is all that it was made of."""
        at, model, pause = self.positions[number], self.answers.model, self.pause
        before = first_positions(self.tokens, at)
        token = self.tokens.inputs["input_ids"][at]
        target = Target(token, self.tokens.names[at], at - 1, None)
        alone = tuple((key,) for key in range(at))
        seen = alone if groups is None else tuple(tuple(k for k in g if k < at) for g in groups)
        places = [place for place, group in enumerate(seen) if group]
        asked = Question(
            model,
            before,
            target,
            tuple(seen[place] for place in places),
            self.config.steps if measure.uses_steps else None,
            self.config.batch_size,
            no_progress if pause is None else lambda _: pause(),
        )
        scores = measure.answer(asked)
        values = np.zeros((1, len(self.tokens) if groups is None else len(groups)))
        values[0, places] = to_numpy(scores.values)
        return Scores(values, scores.statistics)
