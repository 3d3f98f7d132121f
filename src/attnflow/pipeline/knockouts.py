"""What a model says of one input without sets of its attention edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from attnflow.errors import AttnflowError, ModelError
from attnflow.io.inputs import check_choice, check_unicode
from attnflow.methods.question import rows_that_fit
from attnflow.models.adapter import Objective
from attnflow.models.answers.interface import Answers, answer_positions, answers_of
from attnflow.models.answers.prompts import is_chat, make_prompt
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.knockout import ModelEdges, Removed, removing, survey, without_edges
from attnflow.models.outputs import (
    find_outputs,
    is_multi_label,
    objective_value,
    rank_outputs,
    to_probabilities,
)
from attnflow.models.text.spans import END, SPAN, START, Spans
from attnflow.models.text.writing import Writing
from attnflow.options.option import refuse, refuse_all
from attnflow.options.tables import KNOCKOUT, LABELS, NO_PROMPTS, WHOLE_ANSWER, KnockoutOptions
from attnflow.pipeline.edge_sets import EdgeReader, candidates, draw
from attnflow.pipeline.prepare import check_known, read_input, read_parts
from attnflow.pipeline.request import check_batch_size, plain_query
from attnflow.records.checks import check_flag, check_number
from attnflow.records.knockout import Knockout, Outcome
from attnflow.records.parts import Part

if TYPE_CHECKING:
    from attnflow.models.adapter import ForwardPass, ModelAdapter, Tokens
    from attnflow.pipeline.session import Session
    from attnflow.records import FlowTrace

MOST_RANDOM = 1000  # random sets
MOST_WORK = 3 * 10**10  # multiplications: about a second on two cores
RUNS = 8  # that a cut takes: the model as it is, without the cut, and without random edges
LENGTH = 40  # tokens of an answer where no number is given
NOTHING_SAID = (
    "{} predicts nothing here that could change: knockouts need a label, a token or an answer, "
    "which models without a head, regressions and masked models without a mask don't give"
)


@dataclass(frozen=True, kw_only=True)
class KnockoutConfig(KnockoutOptions):
    """The options of `attnflow.knockout`, checked."""

    if TYPE_CHECKING:  # for one input, and not one for each of many
        target: str | int | None = None

    def __post_init__(self) -> None:
        for name in ("target", "contrast"):
            object.__setattr__(self, name, check_choice(name, getattr(self, name)))
        object.__setattr__(self, "query", plain_query(self.query))
        refuse_all(self, KNOCKOUT)
        for each in fields(self):
            if each.type == "bool":
                check_flag(each.name, getattr(self, each.name))
        check_number("random", self.random, 0, MOST_RANDOM)
        check_number("seed", self.seed, 0)
        check_batch_size(self.batch_size)
        if self.generate is not None or self.answer is not None:
            _ = self.writing  # which checks them

    @property
    def by_token(self) -> bool:
        """Whether one token or label is asked about, rather than a whole answer."""
        return any(each is not None for each in (self.target, self.contrast, self.query))

    @property
    def writing(self) -> Writing:
        """The answer: what was given, or what the model writes."""
        length = LENGTH if self.generate in (None, True) else self.generate
        return Writing(length, self.answer)


def knock_out(
    item: Any, adapter: ModelAdapter, sets: Mapping[str, Any], config: KnockoutConfig
) -> dict[str, Knockout]:
    """What the model says without each of these sets of edges, by the names of the sets.

    A set without a name (``""``) is named by what is in it. Everything is checked before the model
    runs, but for the names of tokens that only a run shows, such as the CLS token of an image.
    """
    check_known(Objective(config.target, config.contrast), adapter)
    given = _read(item, adapter, config)
    if not adapter.has_grid:
        for one in sets.values():
            given.reader(given.tokens, adapter.steps).read(one)
    return _knock_out(given, given.run(), sets)


def knock_out_of(session: Session, sets: Mapping[str, Any], random: int = 5) -> dict[str, Knockout]:
    """What the model of a session says without each of these sets of edges."""
    config = KnockoutConfig(
        target=session.objective.target,
        contrast=session.objective.contrast,
        query=session.config.query,
        random=random,
    )
    given = _Given(session.adapter, config, session.read)
    # Not the session's own pass: where edges are read off a backward pass, nobody counts the calls.
    return _knock_out(given, given.run(), sets)


def knock_out_cuts(
    session: Session, traces: Sequence[FlowTrace], random: int = 5
) -> list[Knockout]:
    """What the model of a session says without the cut of each trace, and without random edges."""
    found = knock_out_of(session, {str(at): each for at, each in enumerate(traces)}, random)
    return [
        replace(each, label=f"the cut between “{of.tokens[of.key]}” and “{of.tokens[of.query]}”")
        for of, each in zip(traces, found.values(), strict=True)
    ]


def verified(
    session: Session, traces: Sequence[FlowTrace], verify: bool | None = None
) -> list[FlowTrace]:
    """Traces with what the model says without their cuts; ``None`` asks where that is cheap."""
    if verify is False or (verify is None and not is_cheap(session)):
        return list(traces)
    cut = [each for each in traces if each.cut]
    try:
        found = knock_out_cuts(session, cut) if cut else []
    except AttnflowError:  # a model that predicts nothing, edges that are the residual stream
        if verify:
            raise
        if len(cut) > 1:
            return [one for each in traces for one in verified(session, [each])]
        return list(traces)
    outcomes = iter(found)
    return [replace(each, knockout=next(outcomes)) if each.cut else each for each in traces]


def is_cheap(session: Session) -> bool:
    """Whether a cut is knocked out in about a second: a few runs of the whole input."""
    parameters = int(session.adapter.description.get("parameters", MOST_WORK))
    return parameters * session.size * RUNS <= MOST_WORK


def _knock_out(given: _Given, forward: ForwardPass, sets: Mapping[str, Any]) -> dict[str, Knockout]:
    """What the model says without each of these sets of edges."""
    adapter, config = given.adapter, given.config
    probe = given.probe(forward)
    edges, (first,) = survey(adapter, forward, probe.ask)
    reading = probe.read(first)
    before = reading.outcome(first)
    reader = given.reader(forward.tokens, len(edges.steps))
    removals = {name: (found := reader.read(one), found.of(edges)) for name, one in sets.items()}
    rows: list[Removed] = []
    places: dict[tuple[Any, ...], list[int]] = {}  # of random sets, which sets of one size share
    totals: dict[str, int] = {}
    for name, (_, removal) in removals.items():
        places[(name,)] = [len(rows)]
        rows.append(removal.steps)
        kind = (removal.count, removal.per_head, removal.own)
        among = candidates(edges, removal)
        totals[name] = sum(int(each.sum()) for each in among)
        if kind not in places and removal.count < totals[name]:
            generator = np.random.default_rng(config.seed)
            places[kind] = list(range(len(rows), len(rows) + config.random))
            rows += [draw(among, removal, generator).steps for _ in range(config.random)]
    outcomes = list(map(reading.outcome, _run(adapter, probe, edges, rows, config.batch_size)))
    results = {}
    for name, (found, removal) in removals.items():
        kind = (removal.count, removal.per_head, removal.own)
        results[name] = Knockout(
            label=name or found.label,
            removed=removal.count,
            total=totals[name],
            before=before,
            after=outcomes[places[(name,)][0]],
            random=tuple(outcomes[at] for at in places.get(kind, ())),
            target=reading.target,
            contrast=reading.contrast,
            per_head=removal.per_head,
            independent=given.answer is None and is_multi_label(adapter.labels_of),
            kept=found.kept,
            seed=config.seed,
            tokens=forward.tokens.names,
            text=forward.tokens.text,
            answer=given.answer,
            model=adapter.name,
            warnings=(*forward.warnings, *forward.tokens.notices),
        )
    return results


def _run(
    model: ModelAdapter,
    probe: _Probe,
    edges: ModelEdges,
    rows: Sequence[Removed],
    batch_size: int,
) -> Iterator[Any]:
    """What the model gives without each of these sets, as many as fit in one forward pass."""
    size = rows_that_fit(model, [edges.tokens] * len(rows), batch_size)
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        yield from probe.without([edges] * len(some), some)


@dataclass(frozen=True)
class _Given:
    """One input as it is asked about.

    Attributes:
        adapter: The model.
        config: What is asked.
        tokens: The input; with the answer, where that is asked about.
        parts: Its named parts.
        answers: How the model answers, where an answer is asked about.
    """

    adapter: ModelAdapter
    config: KnockoutConfig
    tokens: Tokens
    parts: tuple[Part, ...] = ()
    answers: Answers | None = None

    @property
    def answer(self) -> str | None:
        """The answer that is asked about."""
        return None if self.answers is None else self.tokens.answer

    def reader(self, tokens: Tokens, steps: int) -> EdgeReader:
        """What makes edge sets for these tokens."""
        model = self.adapter
        writes = () if self.answers is None else tuple(at - 1 for at in answer_positions(tokens))
        return EdgeReader(tokens, model.depth, model.heads, steps, model.name, self.parts, writes)

    def run(self) -> ForwardPass:
        """The model as it is, with all that is checked of it."""
        objective = Objective(self.config.target, self.config.contrast)
        spec = CaptureSpec(fuse=lambda attention: attention.mean(1))
        (forward,) = self.adapter.run([self.tokens], self.config.query, spec, [objective])
        return forward

    def probe(self, forward: ForwardPass) -> _Probe:
        """What is measured."""
        if self.answers is not None:
            return _answer_probe(self.answers, forward)
        if forward.prediction is None:
            raise ModelError(NOTHING_SAID.format(self.adapter.name))
        if self.adapter.finds_spans:
            return _span_probe(self.adapter, forward, self.config)
        if self.config.query is not None and forward.prediction.position is None:
            refuse(self.config, "query", self.config.query, LABELS, self.adapter.name)
        return _label_probe(self.adapter, forward, self.config)


def _read(item: Any, adapter: ModelAdapter, config: KnockoutConfig) -> _Given:
    """The tokens of an input, with its parts and its answer where there are any."""
    item = check_unicode("text", item)
    answers = adapter.writes
    pair = adapter.has_source and adapter.reads_text
    prompt = is_chat(item) or (isinstance(item, Mapping) and answers)
    if config.parts is not None and not answers:
        refuse(config, "parts", config.parts, NO_PROMPTS, adapter.name)
    asked = config.generate is not None or (config.answer is not None and not adapter.reads_sound)
    writes = asked or (answers and pair)
    if asked and not answers and not pair:
        answers_of(adapter)  # an error that says why
    if pair and config.by_token and config.generate is None:
        writes = False  # what follows the answer is asked about, as in `explain`
    if not answers or not (prompt or writes or config.parts is not None):
        tokens = read_input(adapter, item, config, config.answer)
        return _Given(adapter, config, tokens)
    if writes:
        refuse_all(config, WHOLE_ANSWER)
    found = answers_of(adapter)
    text = make_prompt(item, found.tokenizer, adapter.name, config.parts)
    tokens, parts = read_parts(found, text, config)
    if not writes:
        return _Given(adapter, config, tokens, parts)
    whole = found.write(tokens, config.writing)
    parts = (*parts, Part("answer", tuple(range(len(tokens), len(whole))), "answer"))
    return _Given(adapter, config, whole, parts, found)


@dataclass(frozen=True)
class _Probe:
    """What is asked of a model on one input, with and without edges.

    Attributes:
        ask: Runs the model as it is.
        without: Runs it on a batch of copies, each without other edges.
        read: From what the model gives as it is, how all that it gives is read.
    """

    ask: Callable[[], Iterable[Any]]
    without: Callable[[Sequence[ModelEdges], Sequence[Removed]], Iterable[Any]]
    read: Callable[[Any], _Reading]


@dataclass(frozen=True)
class _Reading:
    """How outcomes are read, and the names of the target and the contrast."""

    target: str
    contrast: str | None
    outcome: Callable[[Any], Outcome]


def _label_probe(model: ModelAdapter, forward: ForwardPass, config: KnockoutConfig) -> _Probe:
    """The logits of all labels, or of all tokens at a position."""
    position = None if forward.prediction is None else forward.prediction.position

    def read(start: Tensor) -> _Reading:
        objective = Objective(config.target, config.contrast)
        chosen, contrast = find_outputs(model, objective, start)
        labels_of, name_of = model.labels_of, cache(model.output_name)
        several = is_multi_label(labels_of)

        def value(logits: Tensor, other: int | None) -> float:
            return float(objective_value(logits, chosen, other, multi_label=several))

        def outcome(logits: Tensor) -> Outcome:
            shares = to_probabilities(logits, labels_of, model.name)
            said = rank_outputs(shares, name_of, position)
            margin = None if contrast is None else value(logits, contrast)
            return Outcome(value(logits, None), said, margin)

        return _Reading(name_of(chosen), None if contrast is None else name_of(contrast), outcome)

    return _Probe(
        lambda: model.logits([forward.tokens], [forward.query]),
        lambda edges, removed: without_edges(model, edges, removed),
        read,
    )


def _answer_probe(answers: Answers, forward: ForwardPass) -> _Probe:
    """The log-probabilities of an answer's tokens."""

    def without(edges: Sequence[ModelEdges], removed: Sequence[Removed]) -> list[Tensor]:
        with removing(edges, removed):
            return answers.log_probabilities([each.tokens for each in edges])

    def outcome(row: Tensor) -> Outcome:
        return Outcome(float(row.sum()), log_probabilities=tuple(map(float, row)))

    return _Probe(
        lambda: answers.log_probabilities([forward.tokens]),
        without,
        lambda _: _Reading(forward.tokens.answer or "", None, outcome),
    )


def _span_probe(model: Any, forward: ForwardPass, config: KnockoutConfig) -> _Probe:
    """The log-probabilities of the start and the end of a span."""

    def without(edges: Sequence[ModelEdges], removed: Sequence[Removed]) -> list[Spans]:
        with removing(edges, removed):
            found: list[Spans] = model.spans([each.tokens for each in edges])
            return found

    def read(start: Spans) -> _Reading:
        ends = {START: [(0, start.best.start)], END: [(1, start.best.end)]}
        places = ends.get(str(config.target), [*ends[START], *ends[END]])

        def outcome(found: Spans) -> Outcome:
            return Outcome(sum(float(found.shares[at]) for at in places), found.prediction)

        which = "" if config.target in (None, SPAN) else f" ({config.target})"
        return _Reading(start.prediction.label + which, None, outcome)

    return _Probe(lambda: model.spans([forward.tokens]), without, read)
