"""A chain of thought as steps: what each came from, and what becomes of it without the others.

A step is taken away in three ways: it is hidden from one later step, hidden from all that follows,
or deleted from the text. The answer stays what it was, and the log-probabilities of its steps are
read off one forward pass for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError, Interrupted, ModelError
from attnflow.io.thoughts import split_thoughts
from attnflow.methods.erasing import DELETE, erase
from attnflow.methods.question import no_progress, rows_that_fit
from attnflow.models.adapter import Objective
from attnflow.models.answers.interface import Answers, answer_positions
from attnflow.models.answers.prompts import Piece, Prompt, owner_of
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.knockout import ModelEdges, Removed, removing, survey
from attnflow.models.text.writing import Writing
from attnflow.options.option import refuse_all
from attnflow.options.tables import ANSWER as EXPLAIN_ANSWER
from attnflow.pipeline.answers import open_answer
from attnflow.pipeline.generation import (
    AnswerConfig,
    make_generation,
    write_behind,
)
from attnflow.pipeline.prepare import check_model, read_parts
from attnflow.pipeline.request import Request
from attnflow.pipeline.session import Advance
from attnflow.records import FloatArray
from attnflow.records.arrays import to_numpy
from attnflow.records.parts import ANSWER, Part
from attnflow.records.reasoning import NEEDED, Reasoning, Step, is_spared

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens

FAINT = 0.1  # where no word alone changes more, all of them are read together
# The share of the time after which scores are there; of the rest, after which each step was taken
# away from the conclusion. Measured on SmolLM2, with eight steps.
SCORED, TAKEN = 0.25, 0.5
Positions = tuple[int, ...]
Hidden = tuple[Positions, Positions]  # who cannot read, and what


@dataclass(frozen=True)
class StepsConfig:
    """What is asked about a chain of thought, beside how its scores are computed.

    Attributes:
        writing: How the answer is written, or the answer.
        by: How thoughts are cut into steps.
        conclusion: Where the conclusion begins, in the answer's own words.
    """

    writing: Writing = Writing()  # noqa: RUF009 - frozen
    by: str = "auto"
    conclusion: str | None = None


def trace_steps(
    prompt: Prompt,
    answers: Answers,
    config: Request,
    asked: StepsConfig,
    advance: Advance = no_progress,
) -> Reasoning:
    """The graph of the steps of one answer.

    `Interrupted` has what was finished, where work is interrupted after the first step was taken
    away from the conclusion.
    """
    refuse_all(config, EXPLAIN_ANSWER, "answers")
    if answers.model.has_source:
        msg = (
            f"{answers.model.name} is an encoder–decoder, and steps are for causal language models,"
            " which think in the text that they go on with; use explain_answer"
        )
        raise ModelError(msg)
    check_model(answers.model, config)
    tokens, parts = read_parts(answers, prompt, config)
    if isinstance(asked.writing.text, str):  # before any work
        split_thoughts(asked.writing.text, asked.by, asked.conclusion)
    whole = write_behind(tokens, prompt, answers, config, asked.writing)
    steps = cut_steps(whole, parts, asked)
    start, targets = whole_start(whole), [at for at, step in enumerate(steps) if step.in_answer]
    pieces = [
        (steps[at].positions[0] - start, steps[at].positions[-1] + 1 - start) for at in targets
    ]
    opened = open_answer(whole, answers, config, pieces=pieces, check=asked.writing.check)
    scored = make_generation(
        opened,
        [Part(step.name, step.positions) for step in steps],
        AnswerConfig(asked.writing, parts_only=True),
        _part(advance, 0, SCORED),
    )
    if not scored.complete:
        raise KeyboardInterrupt
    options = {name: value for name, value in scored.options.items() if name != "each"}
    runs = _Runs(answers, whole, _edges_of(answers, whole), config.batch_size)
    measured, missing = _measure(runs, steps, _part(advance, SCORED, 1))
    (scores,) = _gaps(len(steps), 1)
    for target, row in zip(targets, scored.part_scores, strict=True):
        scores[target, : target + 1] = row[: target + 1]
    found = Reasoning(
        tokens=whole.names,
        steps=steps,
        scores=scores,
        **measured,
        method=scored.method,
        layer=scored.layer,
        depth=scored.depth,
        options={**options, "by": asked.by, "conclusion": asked.conclusion},
        model=scored.model,
        text=scored.text,
        answer_text=scored.answer_text,
        spans=whole.spans or (),
        statistics=_with_warnings(scored.statistics, missing, whole.cut_at),
    )
    if missing:
        raise Interrupted([found])
    return found


def _with_warnings(
    statistics: Mapping[str, Any], missing: str, cut_at: int | None
) -> dict[str, Any]:
    """What was found on the way, what is missing, and of a cut answer that its end may be none."""
    told = [missing] if missing else []
    if cut_at is not None:
        told.append(
            f"the answer was stopped at {cut_at} tokens, and what is taken for its conclusion may "
            "be none; generate= gives it more"
        )
    told = [*told, *statistics.get("warnings", ())]
    return {**statistics, "warnings": told} if told else dict(statistics)


def whole_start(whole: Tokens) -> int:
    """The position of an answer's first token."""
    return answer_positions(whole)[0]


def cut_steps(whole: Tokens, parts: Sequence[Part], asked: StepsConfig) -> tuple[Step, ...]:
    """The parts of the prompt, and the pieces of the answer, by the tokens that they are made of.

    A token belongs to the piece that has most of it; a piece without a token of its own is one with
    the piece behind it.
    """
    answer, spans = whole.answer or "", whole.spans
    if spans is None:
        msg = "the tokenizer gave no offsets in the text, without which there are no steps"
        raise ModelError(msg)
    pieces = split_thoughts(answer, asked.by, asked.conclusion)
    places = [Piece(kind, (start, end), ANSWER) for kind, start, end in pieces]
    owners: list[int] = []
    for at in answer_positions(whole):
        owner = owner_of(spans[at], places, answer)
        last = owners[-1] if owners else 0
        owners.append(last if owner is None else max(owner, last))
    start, text, found = whole_start(whole), "", list[Step]()
    for number, piece in enumerate(pieces):
        own = tuple(start + row for row, owner in enumerate(owners) if owner == number)
        text += answer[piece.start : piece.end]
        if own:
            found.append(Step("", piece.kind, text, own))
            text = ""
    names = _names(found)
    taken = set(names) & {part.name for part in parts}
    if taken:
        msg = f"parts hold {sorted(taken)}, which steps of the answer are named; choose other names"
        raise InputError(msg)
    if not any(step.kind == "thought" for step in found) or found[-1].kind != "conclusion":
        msg = f"the answer {answer!r} has too few tokens to be cut into thoughts and a conclusion"
        raise InputError(msg)
    prompt = [
        Step(part.name, "part" if part.named else "rest", _text(whole, part), part.positions)
        for part in parts
    ]
    return (
        *prompt,
        *(replace(step, name=name) for step, name in zip(found, names, strict=True)),
    )


def _names(steps: Sequence[Step]) -> list[str]:
    names, counts = [], {"thought": 0, "mark": 0}
    for step in steps:
        if step.kind == "conclusion":
            names.append("conclusion")
            continue
        counts[step.kind] += 1
        names.append(f"{'step' if step.kind == 'thought' else 'mark'} {counts[step.kind]}")
    return names


def _text(whole: Tokens, part: Part) -> str:
    """The text of a part of the prompt; between its pieces, where it has several, an ellipsis."""
    spans, pieces, last = whole.spans or (), list[list[int]](), -2
    for at in part.positions:
        start, end = spans[at]
        if at == last + 1:
            pieces[-1][1] = max(pieces[-1][1], end)
        else:
            pieces.append([start, end])
        last = at
    return " … ".join(whole.text[start:end].strip() for start, end in pieces)


def _targets(steps: Sequence[Step]) -> list[int]:
    return [at for at, step in enumerate(steps) if step.kind in ("thought", "conclusion")]


# -- What is measured


def _edges_of(answers: Answers, whole: Tokens) -> ModelEdges:
    """The attention edges that the model has on prompt and answer."""
    spec = CaptureSpec(fuse=lambda attention: attention.mean(1))
    (forward,) = answers.model.run([whole], None, spec, [Objective()])
    edges, _ = survey(answers.model, forward, lambda: answers.log_probabilities([whole]))
    return edges


@dataclass(frozen=True, eq=False)
class _Runs:
    """Runs of one model on one prompt and answer, each without something."""

    answers: Answers
    whole: Tokens
    edges: ModelEdges
    batch_size: int

    def hiding(self, sets: Sequence[Iterable[Hidden]], advance: Advance) -> list[FloatArray]:
        """``[answer]`` for each set: log-probabilities where readers cannot read some tokens."""
        model, found = self.answers.model, list[FloatArray]()
        size = rows_that_fit(model, [self.whole] * max(1, len(sets)), self.batch_size)
        for first in range(0, len(sets), size):
            some = [self._removed(each) for each in sets[first : first + size]]
            with removing([self.edges] * len(some), some):
                given = self.answers.log_probabilities([self.whole] * len(some))
            found += map(to_numpy, given)
            advance(len(found) / len(sets))
        return found

    def rows(self, positions: Positions) -> list[int]:
        """Where these tokens of the answer stand among its log-probabilities."""
        start = whole_start(self.whole)
        return [at - start for at in positions]

    def drop(self, plain: FloatArray, row: FloatArray, positions: Positions) -> float:
        """By how much the log-probability of these tokens falls from one run to another."""
        rows = self.rows(positions)
        return float((plain - row)[rows].sum())

    def _removed(self, pairs: Iterable[Hidden]) -> Removed:
        between = np.zeros((len(self.whole), len(self.whole)), bool)
        for readers, keys in pairs:
            between[np.ix_(readers, keys)] = True
        np.fill_diagonal(between, False)
        return [between] * len(self.edges.steps)

    def deleting(self, sets: Sequence[Positions], advance: Advance) -> list[FloatArray]:
        """``[answer]`` for each set: log-probabilities without these tokens, which have NaN."""
        if not sets:
            return []
        positions = answer_positions(self.whole)
        found = erase(
            self.answers.model,
            [(self.whole, each) for each in sets],
            DELETE,
            lambda _, erased, __: self.answers.log_probabilities(erased),
            batch_size=1,
            advance=advance,
        )
        rows = []
        for deleted, values in zip(sets, found, strict=True):
            row = np.full(len(positions), np.nan)
            row[[at not in set(deleted) for at in positions]] = to_numpy(values)
            rows.append(row)
        return rows


def from_all(step: Step, size: int) -> Hidden:
    """A step hidden from all that follows it.

    Its last token reads it no more, either, since the next one is predicted there.
    """
    own = set(step.positions[:-1])
    after = tuple(at for at in range(step.positions[0] + 1, size) if at not in own)
    return after, _without_first(step.positions)


def from_one(target: Step, positions: Positions) -> Hidden:
    """Tokens hidden from one later step: from the positions where its own are predicted."""
    return tuple(at - 1 for at in target.positions), _without_first(positions)


def _without_first(positions: Positions) -> Positions:
    """Tokens but for the first one of all, where attention is parked whatever it says."""
    return positions[1:] if positions[0] == 0 and len(positions) > 1 else positions


def _measure(runs: _Runs, steps: tuple[Step, ...], advance: Advance) -> tuple[dict[str, Any], str]:
    """All that is measured of the steps, by the names of the record's fields, and what is missing.

    The steps nearest to the conclusion come first, and of each one all that decides its role.
    """
    count, size, targets = len(steps), len(runs.whole), _targets(steps)
    end = targets[-1]
    sources = [at for at, step in enumerate(steps) if step.kind in ("part", "thought")]
    (plain,) = runs.hiding([()], no_progress)

    def drops(row: FloatArray, source: int) -> FloatArray:
        """``[step]``: by how much the log-probabilities of the steps after one fall."""
        values = np.full(count, np.nan)
        for at in targets:
            if at > source:
                values[at] = runs.drop(plain, row, steps[at].positions)
        return values

    before, direct, hidden, deleted = np.full(count, np.nan), *_gaps(count, 3)
    for at in targets:
        before[at] = plain[runs.rows(steps[at].positions)].sum()
    asked = {end: steps[end].positions}
    taken, together, missing = set[int](), dict[str, Any](), ""
    try:
        for source in reversed(sources):
            own = steps[source].positions
            ways = [[from_all(steps[source], size)], [from_one(steps[end], own)]]
            everywhere, there = runs.hiding(ways, no_progress)
            gone = runs.deleting([own] if _leaves_something(steps, [source]) else [], no_progress)
            hidden[:, source] = drops(everywhere, source)
            direct[end, source] = runs.drop(plain, there, steps[end].positions)
            for row in gone:
                deleted[:, source] = drops(row, source)
            taken.add(source)
            advance(TAKEN * len(taken) / len(sources))
        _read_back(runs, steps, plain, direct, asked, _part(advance, TAKEN, 1))
        passing = {source for _, source in np.argwhere(direct >= NEEDED)}
        spared = [
            at
            for at in sources
            if at not in passing and is_spared(direct[end, at], hidden[end, at], deleted[end, at])
        ]
        together = _together(runs, steps, spared, lambda row: float(drops(row, -1)[end]))
    except KeyboardInterrupt:
        if not taken:
            raise
        missing = f"interrupted: {len(taken)} of {len(sources)} steps were taken away"
        if len(taken) == len(sources):
            missing = (
                "interrupted: not all steps are traced back, so arrows may be missing, and what is "
                "called not needed may matter through later steps"
            )
    found = {
        "hidden": hidden,
        "direct": direct,
        "deleted": deleted,
        "carriers": tuple(sorted(at for step in asked if step != end for at in asked[step])),
        "log_probabilities": before,
        "unmeasured": tuple(at for at in sources if at not in taken),
        **together,
    }
    return found, missing


def _read_back(
    runs: _Runs,
    steps: Sequence[Step],
    plain: FloatArray,
    direct: FloatArray,
    asked: dict[int, Positions],
    advance: Advance,
) -> None:
    """Find out which step reads which, ``direct``, from the conclusion back, and by which words.

    ``direct`` and ``asked``, the words that are asked about, have the conclusion already. Of a
    thought that is read, those words are asked about which are read: whether it goes on in the
    same form, with a number or a bullet, is of no interest.
    """
    earlier = _targets(steps)[:-1]
    for done, target in enumerate(reversed(earlier)):
        readers = [at for at in asked if direct[at, target] >= NEEDED]
        if readers:
            words = _words(runs.whole, steps[target])
            sets = [[from_one(steps[at], word) for at in readers] for word in words]
            falls = [
                sum(runs.drop(plain, row, asked[at]) for at in readers)
                for row in runs.hiding(sets, no_progress)
            ]
            least = max(max(falls) / 2, FAINT)
            read = [word for word, fall in zip(words, falls, strict=True) if fall >= least]
            own = tuple(at for word in read or words for at in word)
            sources = [at for at in range(target) if steps[at].kind in ("part", "thought")]
            sets = [[from_one(steps[target], steps[at].positions)] for at in sources]
            rows = runs.hiding(sets, no_progress)
            direct[target, sources] = [runs.drop(plain, row, own) for row in rows]
            asked[target] = own
        advance((done + 1) / len(earlier))


def _words(whole: Tokens, step: Step) -> list[Positions]:
    """The tokens between blanks: a word with the marks that stand at it."""
    words, text, before = list[list[int]](), whole.answer or "", -1
    for at in step.positions:
        start, end = (whole.spans or ())[at]
        if before < 0 or (before < start) or text[start:end][:1].isspace():
            words.append([])
        words[-1].append(at)
        before = end
    return [tuple(word) for word in words]


def _together(
    runs: _Runs, steps: Sequence[Step], spared: list[int], drop: Callable[[FloatArray], float]
) -> dict[str, Any]:
    """What becomes of the conclusion without all that did not change it alone.

    Two steps that say the same can each be spared, and not both.
    """
    if not spared:
        return {}
    size = len(runs.whole)
    (row,) = runs.hiding([[from_all(steps[at], size) for at in spared]], no_progress)
    found: dict[str, Any] = {"spared": tuple(spared), "spared_hidden": drop(row)}
    if _leaves_something(steps, spared):
        positions = tuple(sorted(at for number in spared for at in steps[number].positions))
        (row,) = runs.deleting([positions], no_progress)
        found["spared_deleted"] = drop(row)
    return found


def _leaves_something(steps: Sequence[Step], deleted: Sequence[int]) -> bool:
    """Whether a token is left in front of the conclusion, from which it can be predicted."""
    return any(at not in deleted and step.kind != "conclusion" for at, step in enumerate(steps))


def _part(advance: Advance, start: float, end: float) -> Advance:
    """Progress in one part of the work."""
    return lambda share: advance(start + share * (end - start))


def _gaps(count: int, several: int) -> tuple[FloatArray, ...]:
    return tuple(np.full((count, count), np.nan) for _ in range(several))
