"""What each sentence of an answer rests on, by deleting sources and passages from the prompt.

One run without some text shows what becomes of every sentence of the answer at once. Scores (flow
on relevance, a backward pass for each sentence) only decide what is tried first where there is more
than `CitingConfig.checks`; what is claimed was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError, Interrupted, shown
from attnflow.methods.erasing import DELETE, Eraser
from attnflow.methods.question import no_progress
from attnflow.models.answers.interface import Answers, answer_positions
from attnflow.models.answers.pieces import SENTENCES, cut_answer
from attnflow.models.answers.prompts import Prompt, cut_prompt
from attnflow.models.text.writing import Writing
from attnflow.pipeline.answers import open_answer
from attnflow.pipeline.generation import write_behind
from attnflow.pipeline.prepare import read_parts
from attnflow.pipeline.request import Request
from attnflow.records import FloatArray
from attnflow.records.arrays import to_numpy
from attnflow.records.checks import check_number, check_real
from attnflow.records.citations import (
    LEAST,
    Citation,
    Citations,
    CitedSentence,
    CitedSource,
    Quote,
    Span,
)
from attnflow.records.parts import SOURCE, Part

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens
    from attnflow.pipeline.session import Advance

Units = frozenset[int]
Value = Callable[[Units], float]  # a sentence's log-probability without some of the units
SHARE = 0.2
"""The share of what all sources do together that one of them must do to count."""


@dataclass(frozen=True)
class CitingConfig:
    """What is asked about an answer's sources.

    Attributes:
        writing: How the answer is written, or the answer.
        checks: How many sources of a sentence, and passages of a source, are tried at first.
        least: The drop of a sentence's log-probability that counts at least.
    """

    writing: Writing = Writing()  # noqa: RUF009 - frozen
    checks: int = 5
    least: float = LEAST

    def __post_init__(self) -> None:
        check_number("checks", self.checks, 1)
        if check_real("least", self.least) <= 0:
            msg = f"least={shown(self.least)} must be above 0: 3 is a sentence 20 times less likely"
            raise InputError(msg)


@dataclass(frozen=True)
class Support:
    """Units that a sentence rests on: one, or several any one of which is enough.

    ``drop`` is that without all of them; ``apart`` says that it was measured where all units were
    gone that nothing rests on, since these can stand in.
    """

    units: tuple[int, ...]
    drop: float
    apart: bool = False


def find_supports(value: Value, order: Sequence[int], checks: int, least: float) -> list[Support]:
    """What a sentence rests on: all of these together.

    At first the ``checks`` units that are tried are the first in ``order``; there must be more
    where these don't account for it, or where others stand in for them.
    """
    every = frozenset(order)
    whole, bare = value(frozenset()), value(every)
    if whole - bare < least:
        # What one source says against another may be needed nevertheless.
        alone = [Support((unit,), whole - value(frozenset([unit]))) for unit in order[:checks]]
        return [each for each in alone if each.drop >= least]
    least = max(least, SHARE * (whole - bare))
    size = min(checks, len(order))
    while True:
        found = _supports_among(value, every, order[:size], least)
        if size == len(order) or (found is not None and not any(each.apart for each in found)):
            return found or []
        size = min(2 * size, len(order))


def _supports_among(
    value: Value, every: Units, tried: Sequence[int], least: float
) -> list[Support] | None:
    """What a sentence rests on of the units that are tried; ``None`` where these are not enough."""
    whole = value(frozenset())

    def enough(kept: Collection[int]) -> bool:
        return whole - value(every - frozenset(kept)) < least

    if not enough(tried):
        return None
    found = [Support((unit,), whole - value(frozenset([unit]))) for unit in tried]
    found = [each for each in found if each.drop >= least]
    kept = frozenset(unit for each in found for unit in each.units)
    if enough(kept):
        return found
    left = [unit for unit in tried if unit not in kept]
    either = [unit for unit in left if enough(kept | {unit})]
    groups = (
        [tuple(sorted(either))] if either else [(unit,) for unit in _smallest(left, kept, enough)]
    )
    beside = every - kept - frozenset(unit for group in groups for unit in group)
    for group in groups:
        gone = frozenset(group)
        drop = whole - value(gone)
        if drop >= least:
            found.append(Support(group, drop))
        elif (drop := value(beside) - value(beside | gone)) >= least:
            found.append(Support(group, drop, apart=True))
    return found


def _smallest(
    left: Sequence[int], kept: Units, enough: Callable[[Collection[int]], bool]
) -> list[int]:
    """Units that together are enough beside those kept, each of them needed for it."""
    added = next(left[:size] for size in range(len(left) + 1) if enough(kept | set(left[:size])))
    for unit in reversed(added):
        others = [each for each in added if each != unit]
        if enough(kept | set(others)):
            added = others
    return list(added)


# -- An answer


def cite(
    prompt: Prompt,
    answers: Answers,
    config: Request,
    asked: CitingConfig,
    advance: Advance = no_progress,
) -> Citations:
    """What each sentence of an answer rests on.

    `Interrupted` has what was finished, where work is interrupted after the first sentence.
    """
    found = open_citing(prompt, answers, config, asked)
    sentences, whole = list[CitedSentence](), found.whole
    count = len(found.pieces)
    try:
        for number in range(count):
            sentences.append(found.sentence(number))
            advance((number + 1) / count)
    except KeyboardInterrupt:
        if not sentences:
            raise
        told = f"interrupted: {len(sentences)} of {count} sentences of the answer are cited"
        whole = replace(whole, notices=(told, *whole.notices), cut_at=None)
    made = Citations(
        answer=(whole.answer or "")[: sentences[-1].span[1]],
        sentences=tuple(sentences),
        sources=tuple(
            CitedSource(each.name, found.text_of(at)) for at, each in enumerate(found.sources)
        ),
        model=answers.model.name,
        text=whole.text,
        least=asked.least,
        share=SHARE,
        runs=len(found.runs.known),
        options={**_describe(asked), "ranked": "scores" in found.__dict__},
        warnings=tuple(dict.fromkeys(whole.notices)),
        cut_at=whole.cut_at,
    )
    if len(sentences) < count:
        raise Interrupted([made])
    return made


def open_citing(prompt: Prompt, answers: Answers, config: Request, asked: CitingConfig) -> Citing:
    """The answer and its sources, before anything is deleted."""
    tokens, parts = read_parts(answers, prompt, config)
    sources = [part for part in parts if part.role == SOURCE]
    _check_sources(sources, len(tokens))
    whole = write_behind(tokens, prompt, answers, config, asked.writing)
    _, units = read_parts(answers, cut_prompt(prompt, SENTENCES), config)
    return Citing(whole, answers, config, asked, sources, units)


@dataclass(frozen=True, eq=False)
class Citing:
    """An answer and the sources that it may rest on; each set of tokens is deleted once."""

    whole: Tokens
    answers: Answers
    config: Request
    asked: CitingConfig
    sources: Sequence[Part]
    units: Sequence[Part]
    runs: Eraser[FloatArray] = field(init=False)

    def __post_init__(self) -> None:
        starts = [first for first, _ in self.pieces]

        def read(_: object, erased: Sequence[Tokens], __: object) -> list[FloatArray]:
            tokens = map(to_numpy, self.answers.log_probabilities(erased))
            return [np.add.reduceat(each, starts) for each in tokens]

        runs = Eraser(self.answers.model, self.whole, DELETE, read, batch_size=1)
        object.__setattr__(self, "runs", runs)

    @cached_property
    def pieces(self) -> tuple[Span, ...]:
        """Where each sentence of the answer starts and ends among its tokens."""
        return cut_answer(self.whole, SENTENCES)

    @cached_property
    def places(self) -> tuple[frozenset[int], ...]:
        """The positions of each source."""
        return tuple(frozenset(part.positions) for part in self.sources)

    @cached_property
    def passages(self) -> tuple[tuple[frozenset[int], ...], ...]:
        """The positions of each source's sentences."""
        units = [frozenset(unit.positions) for unit in self.units]
        every = [[place & unit for unit in units] for place in self.places]
        return tuple(tuple(filter(None, each)) for each in every)

    @cached_property
    def scores(self) -> tuple[FloatArray, FloatArray]:
        """``[sentence, source]`` and ``[sentence, passage]``: what is tried first."""
        opened = open_answer(self.whole, self.answers, self.config, pieces=self.pieces)
        every = self.places, [each for one in self.passages for each in one]
        groups = [tuple(tuple(sorted(each)) for each in units) for units in every]
        sources, passages = opened.rows(groups, no_progress)
        return opened.in_pieces(sources.values), opened.in_pieces(passages.values)

    def sentence(self, number: int) -> CitedSentence:
        """What a sentence of the answer rests on."""
        found = self._supports(number, self.places, frozenset(), lambda: self.scores[0][number])
        every = frozenset().union(*self.places)
        cited = frozenset().union(*(self.places[at] for each in found for at in each.units))
        citations = []
        for each in found:
            apart = every - cited if each.apart else frozenset()
            quotes = (quote for at in each.units for quote in self._quotes(number, at, each, apart))
            citations.append(Citation(each.units, each.drop, each.apart, tuple(quotes)))
        whole, bare = (self._value(number, gone) for gone in (frozenset(), every))
        return CitedSentence(self.spans[number], whole, whole - bare, tuple(citations))

    def _quotes(
        self, number: int, source: int, support: Support, apart: frozenset[int]
    ) -> Iterator[Quote]:
        """What carries a source's part, where nothing else can stand in for it."""
        others = frozenset(support.units) - {source}
        beside = apart.union(*(self.places[at] for at in others))
        own = self.passages[source]
        first = sum(map(len, self.passages[:source]))
        found = self._supports(
            number, own, beside, lambda: self.scores[1][number, first : first + len(own)]
        )
        for each in found:
            spans = tuple(self._span(source, own[at]) for at in each.units)
            yield Quote(source, spans, each.drop, apart=bool(beside) or each.apart)

    def _supports(
        self,
        number: int,
        units: Sequence[frozenset[int]],
        beside: frozenset[int],
        scores: Callable[[], FloatArray],
    ) -> list[Support]:
        """What a sentence rests on of these units, where the tokens ``beside`` are gone."""
        order: Sequence[int] = range(len(units))
        if len(units) > self.asked.checks:
            order = np.argsort(-scores(), kind="stable").tolist()

        def value(gone: Units) -> float:
            return self._value(number, beside.union(*(units[at] for at in gone)))

        return find_supports(value, order, self.asked.checks, self.asked.least)

    def _value(self, number: int, gone: frozenset[int]) -> float:
        """The log-probability of a sentence without some tokens of the prompt."""
        (found,) = self.runs.without([gone])
        return float(found[number])

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Where each sentence is in the answer's text."""
        text, places = self.whole.answer or "", self.whole.spans
        if places is None:
            return ((0, len(text)),)
        answer = answer_positions(self.whole)
        starts = [places[answer[first]][0] for first, _ in self.pieces]
        return tuple(zip([0, *starts[1:]], [*starts[1:], len(text)], strict=True))

    def text_of(self, source: int) -> str:
        """The text of a source."""
        return self.whole.text[slice(*self._bounds(self.places[source]))]

    def _bounds(self, positions: Collection[int]) -> Span:
        """Where tokens start and end in the prompt's text, without blanks around them."""
        every = self.whole.spans or ()  # parts are read by them
        spans = [every[at] for at in positions]
        start, end = min(first for first, _ in spans), max(last for _, last in spans)
        text = self.whole.text[start:end]
        return start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())

    def _span(self, source: int, positions: Collection[int]) -> Span:
        """Where tokens start and end in the text of their source."""
        before = self._bounds(self.places[source])[0]
        first, last = self._bounds(positions)
        return first - before, last - before


def _describe(asked: CitingConfig) -> dict[str, Any]:
    writing = asked.writing
    own = {"generate": writing.length} if writing.text is None else {"answer_given": True}
    drawn = {"sampling": dict(writing.sampling)} if writing.sampling else {}
    return {**own, **drawn, "checks": asked.checks}


def _check_sources(sources: Sequence[Part], size: int) -> None:
    """Refuse prompts without sources, and those that are nothing else."""
    if not sources:
        msg = (
            "the prompt has no sources to cite; name its documents with parts= (--part NAME=FILE), "
            "or give a dict of named texts"
        )
        raise InputError(msg)
    if sum(len(part.positions) for part in sources) == size:
        msg = (
            "without its sources nothing is left of the prompt, and no answer can be asked for; "
            "give the question, too"
        )
        raise InputError(msg)
