"""Scores of a whole answer: one forward pass over prompt and answer, one row per token of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.aggregation import Measure, Scores
from attnflow.aggregation.aggregator import merge_statistics
from attnflow.errors import AttnflowError, InputError, ModelError, shown
from attnflow.measures.question import Question, Target, no_progress
from attnflow.models.adapter import ForwardPass, Objective
from attnflow.models.answering import AnswerPass, Answers, answer_positions
from attnflow.models.prompts import Prompt, read_prompt
from attnflow.models.text.blanking import first_positions
from attnflow.models.text.bos import put_bos
from attnflow.models.writing import Writing
from attnflow.pipeline.attributions import logit_scores
from attnflow.pipeline.choice import choose, fallback_note
from attnflow.pipeline.config import ExplainConfig, is_auto
from attnflow.pipeline.deletions import measure_drops
from attnflow.pipeline.measured import Advance, find_measure
from attnflow.pipeline.session import Session
from attnflow.pipeline.sessions import check_model
from attnflow.pipeline.source import LOGIT
from attnflow.pipeline.through import PROMPT, check_through, rows_through_prompt
from attnflow.records import FloatArray
from attnflow.records.arrays import ratio, to_numpy
from attnflow.records.generation import Generation, Part
from attnflow.records.selection import Groups

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens


@dataclass(frozen=True)
class AnswerConfig:
    """What is asked about a whole answer, beside how its scores are computed.

    Attributes:
        writing: How the answer is written, or the answer.
        parts_only: Whether parts alone are scored, and not each token.
        through: Where scores end: at ``"tokens"``, or in the ``"prompt"``.
        deletions: Whether each named part is deleted to see what becomes of the answer.
    """

    writing: Writing = Writing()  # noqa: RUF009 - frozen
    parts_only: bool = False
    through: str = "tokens"
    deletions: bool = False


def check_for_answers(config: ExplainConfig) -> None:
    """Refuse options that have no meaning for the tokens of an answer, each of which is asked."""
    given = {
        "target": config.target is not None,
        "contrast": config.contrast is not None,
        "query": config.query is not None,
        "layers": config.layers is not None,
        "words": config.words,
        "heads": config.heads == "each",
    }
    for option, asked in given.items():
        if asked:
            msg = (
                f"{option}={shown(getattr(config, option))} is not for answers: every token of the "
                "answer is explained where it was predicted; leave it out"
            )
            raise InputError(msg)


def explain_answer(
    prompt: Prompt,
    answers: Answers,
    config: ExplainConfig,
    asked: AnswerConfig,
    advance: Advance = no_progress,
) -> Generation:
    """Where every token of an answer came from."""
    check_for_answers(config)
    check_through(config, asked.through)
    check_model(answers.model, config)
    tokens, parts = read_prompt(answers, prompt, truncate=config.truncate)
    if config.bos:
        tokens, parts = put_bos(answers.model, tokens), _behind_bos(parts)
    if not is_auto(config.method) and find_measure(config.method) is not None:
        answers.model.decision(tokens)  # an error where there is no probability to measure by
    whole = answers.write(tokens, asked.writing)
    answer = tuple(range(len(tokens), len(whole)))
    parts = (*parts, Part("answer", answer, "answer"))
    named = [part for part in parts if part.kind == "part"]
    # First, since parts that can't be deleted are refused before long work.
    drops = measure_drops(answers, whole, named, advance) if asked.deletions else None
    found = open_answer(whole, answers, config, through=asked.through == PROMPT)
    return replace(make_generation(found, parts, asked, advance), drops=drops)


def open_answer(
    tokens: Tokens, answers: Answers, config: ExplainConfig, *, through: bool = False
) -> AnswerSession:
    """One forward pass, with the edges that are chosen, or with others where they are refused.

    ``through`` says that scores are handed on along paths, which the choice must know.
    """
    chosen = choose(config, answers.model, tokens, Objective(), paths=through)
    try:
        opened = AnswerSession(answers, tokens, chosen.config, chosen.notes)
        opened.first.graph(chosen.config.method) if opened.measure is None else None
    except AttnflowError as error:
        if chosen.fallback is None:
            raise
        return AnswerSession(answers, tokens, chosen.fallback, (fallback_note(error),))
    return opened


@dataclass(frozen=True, eq=False)
class AnswerSession:
    """A model's forward pass on a prompt and its answer, under a configuration."""

    answers: Answers
    tokens: Tokens
    config: ExplainConfig
    notes: tuple[str, ...] = ()

    @cached_property
    def measure(self) -> Measure | None:
        """The method, where it reads no edges."""
        return find_measure(self.config.method)

    @cached_property
    def forward(self) -> AnswerPass:
        """The forward pass."""
        found = self.answers.run(self.tokens, self.config.capture())
        if self.config.strict and found.warnings:
            msg = f"{found.warnings[0]} (refused: strict=True)"
            raise ModelError(msg)
        return found

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
        return self.config.rule.needs.gradients or self.config.source == LOGIT

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
            found = [self.first.scores(method, (layer,), queries, groups=each) for each in keys]
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
            if self.config.source == LOGIT:
                scores = logit_scores(session, self.config.method, each)
            else:
                layers, queries = (self.layer,), (session.query,)
                scores = session.scores(self.config.method, layers, queries, groups=each)
            yield Scores(scores.values[0], scores.statistics)

    def _measured(self, measure: Measure, number: int, groups: Groups | None) -> Scores:
        """A measure's scores: of the text up to the token, which is all that it was made of."""
        at, model = self.positions[number], self.answers.model
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
        )
        scores = measure.apply(asked)
        values = np.zeros((1, len(self.tokens) if groups is None else len(groups)))
        values[0, places] = to_numpy(scores.values)
        return Scores(values, scores.statistics)


def make_generation(
    found: AnswerSession, parts: Sequence[Part], asked: AnswerConfig, advance: Advance
) -> Generation:
    """The record of an answer's scores."""
    groups = tuple(part.positions for part in parts)
    keys: list[Groups | None] = [groups] if asked.parts_only else [groups, None]
    if asked.through == PROMPT:
        rows = rows_through_prompt(found, keys, advance)
    else:
        rows = found.rows(keys, advance)
    values = [_finished(found, each.values) for each in rows]
    _check_sight(found, values[1] if len(values) > 1 else _first_row(found))
    tokens, config, model = found.tokens, found.config, found.answers.model
    statistics: dict[str, Any] = dict(rows[-1].statistics)
    forward = found.forward
    warnings = (*forward.warnings, *tokens.notices, *found.notes)
    if warnings:
        statistics["warnings"] = list(warnings)
    about = {**model.description, "causal": forward.activations.causal}
    return Generation(
        tokens=tokens.names,
        answer=found.positions,
        scores=None if asked.parts_only else values[1],
        part_scores=values[0],
        log_probabilities=to_numpy(forward.log_probabilities),
        predictions=forward.predictions,
        parts=tuple(parts),
        method=config.method,
        layer=found.layer,
        depth=model.depth,
        options=_describe(found, asked),
        model=model.name,
        text=tokens.text,
        answer_text=tokens.answer or "",
        spans=tokens.spans,
        statistics={**statistics, "model": about},
        word_ids=tokens.word_ids,
        word_texts=tokens.word_texts,
        segments=tokens.segments,
    )


def _finished(found: AnswerSession, values: FloatArray) -> FloatArray:
    return ratio(values, values.sum(-1, keepdims=True)) if found.config.normalize else values


def _check_sight(found: AnswerSession, values: FloatArray) -> None:
    """Refuse a method that scores tokens which were not there yet: it reads all positions."""
    for row, at in zip(values, found.positions, strict=False):
        if row[at:].any():
            msg = (
                f"method={found.config.method!r} with edges={found.config.edges!r} reads all "
                "positions, those behind a token of the answer, too; choose a method that starts "
                "at one position, such as 'direct' or 'rollout'"
            )
            raise InputError(msg)


def _first_row(found: AnswerSession) -> FloatArray:
    """What the answer's first token has from the answer, where tokens have no scores: ``[1, key]``.

    Measures read the text before a token alone, and what starts at a logit does so at its position.
    """
    values = np.zeros((1, len(found.tokens)))
    if found.measure is None and found.config.source != LOGIT:
        queries = (found.positions[0] - 1,)
        own = found.first.scores(
            found.config.method, (found.layer,), queries, groups=(found.positions,)
        )
        values[0, found.positions[0]] = own.values[0, 0, 0]
    return values


def _describe(found: AnswerSession, asked: AnswerConfig) -> dict[str, Any]:
    """The options that the answer and its scores were made with."""
    writing, config = asked.writing, found.config
    if found.measure is None:
        options = found.first.describe(config.method)
        options.pop("target", None)
    else:
        options = {"normalize": config.normalize}
    own = {"generate": writing.length} if writing.text is None else {"answer_given": True}
    drawn = {"sampling": dict(writing.sampling)} if writing.sampling else {}
    seed = {} if writing.seed is None else {"seed": writing.seed}
    return {**options, **own, **drawn, **seed, "through": asked.through}


def _behind_bos(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Parts of a text in front of which BOS was put, which is part of none of them."""
    moved = [replace(part, positions=tuple(at + 1 for at in part.positions)) for part in parts]
    rest = [part for part in moved if part.kind == "rest"]
    named = [part for part in moved if part.kind != "rest"]
    left = (0, *(rest[0].positions if rest else ()))
    return (*named, Part("rest", left, "rest"))
