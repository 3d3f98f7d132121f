"""The session of a whole answer: one forward pass over prompt and answer, and its pieces.

The token at position p of an answer was predicted at p − 1, so that one pass shows how every token
came about. A piece is a sentence, say. What arrives from a target is that of all its tokens
together: they are handed back at once, one backward pass for each piece, and flow starts at all
positions that predict them. Other scores are those of single tokens, and a piece has their mean:
the graph of the first token serves all of them, unless edges depend on the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attnflow.edges.corrections import ON_MAPS, correct_maps
from attnflow.edges.graph import fuse_layers
from attnflow.errors import InputError, ModelError, shown
from attnflow.methods import METHODS, Method, Scores, find_edge_method
from attnflow.methods.method import merge_statistics
from attnflow.methods.question import Question, Target, no_progress
from attnflow.methods.through import flow_through, hand_on
from attnflow.models.adapter import ForwardPass, Objective
from attnflow.models.answers.interface import AnswerPass, Answers, answer_positions
from attnflow.models.answers.pieces import Span
from attnflow.models.text.edits import first_positions
from attnflow.options.option import refuse
from attnflow.options.tables import AMOUNTS, FROM_LOGIT, AnswerOptions
from attnflow.pipeline.choice import choose
from attnflow.pipeline.prepare import run_chosen
from attnflow.pipeline.request import LOGIT, Request, is_auto, methods_from_logit, starts_at_target
from attnflow.pipeline.session import Advance, Check, Session
from attnflow.records import FloatArray, LayeredGraph, Selection
from attnflow.records.arrays import to_numpy
from attnflow.records.selection import Groups

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens

TOKENS, PROMPT = "tokens", "prompt"


class Divergence(NamedTuple):
    """Where another answer parts from this one.

    Attributes:
        number: The number of the answer's token that the other one has another for.
        instead: The id of that other token.
    """

    number: int
    instead: int


def open_answer(  # noqa: PLR0913 - what opens a session
    tokens: Tokens,
    answers: Answers,
    config: Request,
    *,
    pieces: Sequence[Span] = (),
    choice: Divergence | None = None,
    through: bool = False,
    check: Check | None = None,
) -> AnswerSession:
    """One forward pass, with the edges that are chosen, or with others where they are refused.

    ``pieces`` are those of the answer; without them each token is one. A ``choice`` is explained
    alone. ``through`` says that scores are handed on along paths, which the choice of edges must
    know. ``check`` is called between pieces of long work.
    """
    chosen = choose(config, answers.model, Objective(), paths=through)
    (opened,) = run_chosen(
        chosen,
        [0],
        lambda config, notes, _: [_run(tokens, answers, config, notes, pieces, choice, check)],
    )
    return opened


def _run(  # noqa: PLR0913 - what opens a session
    tokens: Tokens,
    answers: Answers,
    config: Request,
    notes: tuple[str, ...],
    pieces: Sequence[Span],
    choice: Divergence | None,
    check: Check | None,
) -> AnswerSession:
    if choice is not None and not _handed_back(config):
        msg = (
            "contrast= is for methods that start at what is explained, such as flow on relevance, "
            f"and method={config.method!r} on {config.edges!r} edges does not; leave one out"
        )
        raise InputError(msg)
    spec = config.capture()
    if check is not None:
        spec = replace(spec, progress=lambda _: check())
    own_rows = _reads_own_rows(answers, config, len(tokens))
    if own_rows:
        spec = replace(spec, queries=[at - 1 for at in answer_positions(tokens)])
    found = answers.run(tokens, spec)
    if config.strict and found.warnings:
        msg = f"{found.warnings[0]} (refused: strict=True)"
        raise ModelError(msg)
    return of_pass(
        *(answers, found, config, notes),
        pieces=pieces,
        choice=choice,
        own_rows=own_rows,
        pause=check,
    )


def of_pass(  # noqa: PLR0913 - what opens a session
    answers: Answers,
    whole: AnswerPass,
    config: Request,
    notes: tuple[str, ...] = (),
    *,
    pieces: Sequence[Span] = (),
    choice: Divergence | None = None,
    own_rows: bool = False,
    pause: Check | None = None,
) -> AnswerSession:
    """The session of a forward pass over prompt and answer."""
    tokens = tuple((at, at + 1) for at in range(len(whole.positions)))
    pieces = tuple(pieces) or tokens
    handed_back = _handed_back(config)
    targets, instead = pieces if handed_back else tokens, None
    if choice is not None:
        pieces, targets = ((0, len(tokens)),), ((choice.number, choice.number + 1),)
        instead = choice.instead
    keep = len(targets) > 1 or not handed_back
    forward, objective = _pass_of(whole, config, targets[0], instead, keep=keep)
    return AnswerSession(
        answers.model,
        forward,
        config,
        objective,
        notes,
        answers=answers,
        whole=whole,
        pieces=pieces,
        targets=targets,
        own_rows=own_rows,
        pause=pause,
    )


def _handed_back(config: Request) -> bool:
    member = METHODS[config.method]
    return member.reads_edges and starts_at_target(member, config.rule) and config.source != LOGIT


@dataclass(frozen=True, eq=False)
class AnswerSession(Session):
    """The session of an answer's first target, with what is needed for all others.

    Attributes:
        answers: How the model answers.
        whole: The forward pass over prompt and answer.
        pieces: Where each piece of the answer starts and ends among its tokens.
        targets: What rows are computed for: the pieces, or single tokens.
        own_rows: Whether the pass has the rows alone where tokens were predicted, and no graph.
        pause: Called between pieces of long work; it may raise to end it.
    """

    answers: Answers = field(kw_only=True)
    whole: AnswerPass = field(kw_only=True)
    pieces: tuple[Span, ...] = field(kw_only=True)
    targets: tuple[Span, ...] = field(kw_only=True)
    own_rows: bool = field(default=False, kw_only=True)
    pause: Check | None = field(default=None, kw_only=True)

    @property
    def method(self) -> Method:
        """How the answer is explained."""
        return METHODS[self.config.method]

    @property
    def positions(self) -> tuple[int, ...]:
        """Where the answer's tokens stand."""
        return answer_positions(self.tokens)

    @property
    def layer(self) -> int:
        """The layer that is explained."""
        return self.config.resolve_layers(self.adapter.depth)[1]

    @property
    def each_alone(self) -> bool:
        """Whether every token of the answer has edges of its own."""
        return self.config.rule.needs.target or self.config.source == LOGIT

    @property
    def handed_back(self) -> bool:
        """Whether scores are what arrives from a target, which several tokens have together."""
        return _handed_back(self.config)

    def check_edges(self) -> None:
        """Build a graph, or what takes its place, which a model may refuse."""
        if self.own_rows:
            _own_scores(self, self.layer, None)
        elif self.method.reads_edges:
            self.graph(self.config.method)

    def at(self, number: int) -> Session:
        """The session of one target, with what is special to it."""
        if number == 0:
            return self
        more = number < len(self.targets) - 1
        forward, objective = _pass_of(
            self.whole, self.config, self.targets[number], keep=more or not self.handed_back
        )
        return Session(self.adapter, forward, self.config, objective, self.notes)

    def rows(self, keys: Sequence[Groups | None], advance: Advance) -> list[Scores]:
        """``[target, key]`` for tokens (``None``) and for groups of tokens, in their order.

        Where work is interrupted after the first piece, the rows that are there.
        """
        if self.method.reads_edges and not self.each_alone:
            queries = [at - 1 for at in self.positions]
            found = [self._edge_scores(self, queries, each) for each in keys]
            return [Scores(scores.values[0], scores.statistics) for scores in found]
        count = len(self.targets)
        rows: list[list[Scores]] = []
        try:
            for number in range(count):
                rows.append(list(self._row(number, keys)))
                advance((number + 1) / count)
        except KeyboardInterrupt:
            if not rows or self.targets[len(rows) - 1][1] < self.pieces[0][1]:
                raise
        return [
            Scores(
                np.concatenate([row.values for row in of_keys]),
                merge_statistics([row.statistics for row in of_keys]),
            )
            for of_keys in zip(*rows, strict=True)
        ]

    def in_pieces(self, values: FloatArray) -> FloatArray:
        """Rows of targets as those of pieces, ``[piece, key]``: the mean over a piece's tokens."""
        if self.handed_back:
            lengths = [last - first for first, last in self.targets[: len(values)]]
            shared: FloatArray = values / np.array(lengths)[:, None]
            return shared
        whole = [piece for piece in self.pieces if piece[1] <= len(values)]
        return np.stack([values[slice(*piece)].mean(0) for piece in whole])

    def _edge_scores(
        self, session: Session, queries: Sequence[int], groups: Groups | None
    ) -> Scores:
        layers = (self.layer,)
        return session.scores(self.config.method, layers, queries, groups=groups, check=self.pause)

    def _row(self, number: int, keys: Sequence[Groups | None]) -> Iterator[Scores]:
        """The scores for one target, ``[1, key]``, of edges or a measurement of its own."""
        session = self.at(number) if self.method.reads_edges else self
        queries = [self.positions[at] - 1 for at in range(*self.targets[number])]
        for each in keys:
            if not self.method.reads_edges:
                yield self._measured_row(number, each)
                continue
            if self.own_rows:
                yield _own_scores(session, self.layer, each)
                continue
            if self.config.source == LOGIT:
                scores = session.logit_scores(self.config.method, each)
            else:
                scores = self._edge_scores(session, queries, each)
            # What arrives from a target is the same at all positions where it is read.
            yield Scores(scores.values[0, :1], scores.statistics)

    def _measured_row(self, number: int, groups: Groups | None) -> Scores:
        """What a method without edges finds in the text up to a token, all that it was made of."""
        at, pause = self.positions[number], self.pause
        before = first_positions(self.tokens, at)
        token = self.tokens.inputs["input_ids"][at]
        target = Target(token, self.tokens.names[at], at - 1, None)
        alone = tuple((key,) for key in range(at))
        seen = alone if groups is None else tuple(tuple(k for k in g if k < at) for g in groups)
        places = [place for place, group in enumerate(seen) if group]
        asked = Question(
            self.adapter,
            before,
            target,
            tuple(seen[place] for place in places),
            self.config.steps if self.method.uses_steps else None,
            self.config.batch_size,
            no_progress if pause is None else lambda _: pause(),
        )
        scores = self.method.answer(asked)
        values = np.zeros((1, len(self.tokens) if groups is None else len(groups)))
        values[0, places] = to_numpy(scores.values)
        return Scores(values, scores.statistics)


def _pass_of(
    whole: AnswerPass, config: Request, target: Span, instead: int | None = None, *, keep: bool
) -> tuple[ForwardPass, Objective]:
    """The pass over prompt and answer as that of some tokens, with these as its objective."""
    numbers = range(*target)
    last = numbers[-1]
    objective = Objective(" ".join(whole.tokens.names[whole.positions[each]] for each in numbers))
    seen = ForwardPass(
        whole.tokens,
        whole.towards(numbers, keep=keep, instead=instead),
        whole.positions[last] - 1,
        whole.predictions[last],
        objective if config.uses_target else None,
        warnings=whole.warnings,
    )
    return seen, objective


# -- A position's own rows: no map of all positions is made.
#
# Edges towards a target need the gradient by attention. Where a method reads the explained
# position's rows alone, so does the gradient, and a prompt of thousands of tokens takes little
# memory.


def _reads_own_rows(answers: Answers, config: Request, size: int) -> bool:
    """Whether the rows where each token of an answer was predicted are all that is needed.

    A correction may compare with the graph of chance, which has all rows.
    """
    member = METHODS[config.method]
    if not member.reads_edges:
        return False
    correction = config.correction_for(config.method, causal=True, size=size)
    return (
        answers.keeps_rows
        and member.own_rows
        and config.rule.by_row
        and config.rule.needs.gradients
        and config.source != LOGIT
        and not config.discard
        and (correction is None or correction in ON_MAPS)
    )


def _own_scores(session: Session, layer: int, groups: Groups | None) -> Scores:
    """The scores ``[1, key]`` of a session that has the rows of its position alone."""
    config, correction = session.config, session.correction(session.config.method)
    made = config.rule.apply(session.activations)
    rows = correct_maps(fuse_layers(made.layers, config.heads), correction, session.query)
    total = np.stack([to_numpy(each)[0] for each in rows[:layer]]).sum(0)
    if groups is not None:
        total = np.array([total[list(group)].sum() for group in groups])
    return Scores(total[None], made.statistics)


# -- Through the answer: what the model wrote itself hands on to what it was made of.


def check_through(config: Request, through: object) -> None:
    """Refuse what has no meaning where scores are handed on from token to token."""
    if not isinstance(through, str) or through not in (TOKENS, PROMPT):
        msg = f"through={shown(through)} is unknown; allowed: {TOKENS!r}, {PROMPT!r}"
        raise InputError(msg)
    if through == TOKENS:
        return
    member = None if is_auto(config.method) else METHODS[config.method]
    if member is not None and member.from_logit is None:
        msg = (
            f"through='prompt' is not for method={config.method!r}, which does not follow paths; "
            f"it is for {', '.join(methods_from_logit())}"
        )
        raise InputError(msg)
    if config.rule.amounts:
        refuse(AnswerOptions, "through", through, AMOUNTS, f"edges={config.edges!r}")
    if config.source == LOGIT:
        refuse(AnswerOptions, "through", through, FROM_LOGIT, "source='logit'")


def rows_through_prompt(
    found: AnswerSession, keys: Sequence[Groups | None], advance: Advance
) -> list[Scores]:
    """``[answer, key]`` for tokens (``None``) and for groups of tokens, all of the prompt."""
    capacities = find_edge_method(found.config.method).from_logit == "capacities"
    uniform = found.correction(found.config.method) == "uniform"
    if found.each_alone and (capacities or uniform):
        what = "flow" if capacities else "correction='uniform'"
        msg = (
            f"{what} through='prompt' needs one graph, and with edges={found.config.edges!r} every "
            "token of the answer has its own; use edges='attention' or 'alti', or method='rollout' "
            "without a correction"
        )
        raise InputError(msg)
    by = _by_capacities if capacities else _by_ratios
    return [by(found, each, advance) for each in keys]


def _by_capacities(found: AnswerSession, groups: Groups | None, _: Advance) -> Scores:
    """Flow on the graph with the edges that lead back up."""
    sinks = tuple((at,) for at in range(len(found.tokens))) if groups is None else groups
    top = found.step(found.layer)

    def solve(graph: LayeredGraph) -> Scores:
        return flow_through(graph.weights, top, found.positions, sinks)

    return found.corrected(found.config.method, solve)


def _by_ratios(found: AnswerSession, groups: Groups | None, advance: Advance) -> Scores:
    """Rollout in closed form: rows of the usual scores, handed on."""
    if found.each_alone:
        (rows,) = found.rows([None], advance)
        return Scores(_grouped(hand_on(rows.values, found.positions), groups), rows.statistics)
    queries = tuple(at - 1 for at in found.positions)
    keys = tuple(range(len(found.tokens)))
    selection = Selection((found.step(found.layer),), queries, keys)
    method = find_edge_method(found.config.method)

    def solve(graph: LayeredGraph) -> Scores:
        scores = method.apply(graph, selection, found.config.execution)
        handed = hand_on(to_numpy(scores.values)[0], found.positions)
        return Scores(_grouped(handed, groups), scores.statistics)

    return found.corrected(method.name, solve)


def _grouped(rows: FloatArray, groups: Groups | None) -> FloatArray:
    if groups is None:
        return rows
    return np.stack([rows[:, list(group)].sum(-1) for group in groups], axis=-1)
