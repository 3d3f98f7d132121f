"""A chain of thought as a graph of steps: what each was made of, and what its conclusion needs.

What a step depends on is decided by what was measured, never by scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, get_args

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.records import checks
from attnflow.records.files import SavedRecord, check_fields, read_list
from attnflow.records.selection import is_integer
from attnflow.records.types import FloatArray

if TYPE_CHECKING:
    from attnflow.views.explorer.steps import StepPage

StepKind = Literal["part", "rest", "mark", "thought", "conclusion"]
Role = Literal["needed", "read", "passed on", "against", "unclear", "spared"]

NEEDED = math.log(2)
"""A step counts where a later one is at most half as likely without it."""


@dataclass(frozen=True)
class Step:
    """A part of the prompt, a thought, or the conclusion.

    Attributes:
        name: Its name: that of the part, ``"step 1"`` and so on, or ``"conclusion"``.
        kind: ``"part"``, ``"thought"`` or ``"conclusion"``; ``"rest"`` is what the prompt has
            beside its parts, ``"mark"`` a mark around thoughts such as ``<think>``: neither is
            measured.
        text: Its text; those of the answer's steps make up the answer.
        positions: Its tokens' positions.
    """

    name: str
    kind: StepKind
    text: str
    positions: tuple[int, ...]

    def __post_init__(self) -> None:
        checks.check_text("the step's name", self.name)
        checks.check_text(f"the text of {self.name!r}", self.text)
        if self.kind not in get_args(StepKind):
            msg = f"kind={shown(self.kind)} of step {self.name!r} is unknown"
            raise InputError(msg)
        found = checks.check_numbers(f"the positions of {self.name!r}", self.positions, 0)
        object.__setattr__(self, "positions", found)

    @property
    def in_answer(self) -> bool:
        """Whether it is a piece of the answer."""
        return self.kind not in ("part", "rest")


class StepEdge(NamedTuple):
    """A step that a later one reads: without it, what is read of that is at most half as likely.

    Attributes:
        source: The number of the step that is read.
        target: The number of the step that reads it.
        drop: By how much the target's log-probability falls where the source is hidden from it.
    """

    source: int
    target: int
    drop: float


class StepRow(NamedTuple):
    """What a step is to the conclusion.

    Attributes:
        name: The step's name.
        score: Its score for the conclusion.
        share: Its share of the sizes of all steps' scores; ``None`` where these are 0.
        direct: By how much the conclusion's log-probability falls where it alone cannot read the
            step.
        hidden: The same where nothing after the step can read it.
        deleted: The same where the step is deleted; ``None`` where nothing would be left.
        role: ``"needed"``: the conclusion reads it, and is at most half as likely when it is
            deleted. ``"read"``: it reads it, but can do without. ``"passed on"``: it matters
            through later steps alone. ``"against"``: the conclusion is at least twice as likely
            when it is deleted. ``"spared"``: whichever way it is taken away, the conclusion is
            neither half nor twice as likely. ``"unclear"``: hiding and deleting it disagree.
        through: The numbers of the later steps that pass it on.
    """

    name: str
    score: float
    share: float | None
    direct: float
    hidden: float
    deleted: float | None
    role: Role
    through: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Reasoning(SavedRecord):
    """A prompt, the thoughts of an answer and its conclusion, as a graph of steps.

    Arrays are ``[step, step]``: the first is the one that is explained, the second an earlier one;
    NaN is what was not measured.

    Attributes:
        tokens: Prompt, then answer.
        steps: The parts of the prompt, then the pieces of the answer; every token is in one.
        scores: How much each step came from each earlier one, by the method: of the mean over its
            tokens. Marks have them, too.
        direct: By how much the log-probability of a step falls where it alone cannot read another:
            of the conclusion, and of thoughts that lead to it, by the words that are read of them.
        hidden: The same where nothing behind that other step can read it.
        deleted: The same where the other step is deleted.
        log_probabilities: ``[step]``: of the thoughts and the conclusion, as the model gave them.
        carriers: The positions of these words.
        unmeasured: The parts and thoughts that were not taken away, since work was interrupted.
        spared: The steps without which, one at a time, the conclusion did not change; they were
            taken away all together, too.
        spared_hidden: By how much the conclusion's log-probability falls where all of them are
            hidden.
        spared_deleted: The same where all of them are deleted.
        method: The name of the method.
        layer: The layer that is explained.
        depth: How many layers the model has.
        options: Every option that was used.
        model: The model's name.
        text: The prompt; of a chat, as the model's template has it.
        answer_text: The answer.
        spans: For each token where it stands in ``text``, or in ``answer_text``.
        statistics: What the method reports of its work, and warnings.
    """

    _kind = "reasoning"
    _with_gaps = (
        *("options", "statistics", "scores", "direct", "hidden", "deleted"),
        "log_probabilities",
    )
    _writer = "Reasoning.save or attnflow steps --save"

    tokens: tuple[str, ...]
    steps: tuple[Step, ...]
    scores: FloatArray
    direct: FloatArray
    hidden: FloatArray
    deleted: FloatArray
    log_probabilities: FloatArray
    method: str
    layer: int
    depth: int
    carriers: tuple[int, ...] = ()
    unmeasured: tuple[int, ...] = ()
    spared: tuple[int, ...] = ()
    spared_hidden: float | None = None
    spared_deleted: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    text: str = ""
    answer_text: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    statistics: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size, count = len(checks.check_texts("tokens", self.tokens)), len(self.steps)
        covered = sorted(at for step in self.steps for at in step.positions)
        if covered != list(range(size)):
            msg = f"steps hold the positions {shown(covered)}; every token must be in one of them"
            raise InputError(msg)
        if len(self.spans) != size:
            msg = f"spans has {len(self.spans)} entries; {size} are needed"
            raise InputError(msg)
        if [step.kind for step in self.steps].count("conclusion") != 1:
            msg = "one of the steps must be the conclusion"
            raise InputError(msg)
        for name in ("scores", "direct", "hidden", "deleted"):
            object.__setattr__(self, name, _with_gaps(name, getattr(self, name), (count, count)))
        known = _with_gaps("log_probabilities", self.log_probabilities, (count,))
        object.__setattr__(self, "log_probabilities", known)
        steps = dict.fromkeys(("spared", "unmeasured"), count - 1)
        for name, last in (*steps.items(), ("carriers", size - 1)):
            listed = checks.check_numbers(name, getattr(self, name), 0, last)
            object.__setattr__(self, name, listed)
        for name in ("spared_hidden", "spared_deleted"):
            if getattr(self, name) is not None:
                checks.check_real(name, getattr(self, name))
        checks.keep_checked(
            self, dict.fromkeys(("method", "model", "text", "answer_text"), checks.check_text)
        )
        checks.check_number("layer", self.layer, 1, checks.check_number("depth", self.depth, 1))
        checks.keep_checked(self, dict.fromkeys(("options", "statistics"), checks.check_mapping))

    def __repr__(self) -> str:
        return f"<Reasoning: {len(self.thoughts)} thoughts of {self.model}; {self.summary}>"

    @property
    def conclusion(self) -> int:
        """The number of the conclusion."""
        return next(at for at, step in enumerate(self.steps) if step.kind == "conclusion")

    @property
    def thoughts(self) -> tuple[int, ...]:
        """The numbers of the thoughts."""
        return tuple(at for at, step in enumerate(self.steps) if step.kind == "thought")

    @property
    def sources(self) -> tuple[int, ...]:
        """The numbers of the parts of the prompt and of the thoughts."""
        return tuple(at for at, step in enumerate(self.steps) if step.kind in ("part", "thought"))

    def find(self, step: int | str) -> int:
        """The number of a step, by its name, its number or a piece of its text."""
        if is_integer(step) and -len(self.steps) <= int(step) < len(self.steps):
            return int(step) % len(self.steps)
        named = [at for at, each in enumerate(self.steps) if each.name == step]
        found = named or [
            at for at, each in enumerate(self.steps) if isinstance(step, str) and step in each.text
        ]
        if len(found) != 1 or not step:
            names = ", ".join(each.name for each in self.steps)
            what = "is in several steps" if len(found) > 1 else "is no step"
            msg = f"step={shown(step)} {what}; these are {names}"
            raise InputError(msg)
        return found[0]

    @cached_property
    def edges(self) -> tuple[StepEdge, ...]:
        """Which step reads which, as measured: without it, a step is at most half as likely."""
        with np.errstate(invalid="ignore"):
            places = np.argwhere(self.direct >= NEEDED)
        return tuple(
            StepEdge(int(source), int(target), float(self.direct[target, source]))
            for target, source in places
        )

    def row(self, step: int | str) -> StepRow:
        """What one step is to the conclusion."""
        number = self.find(step)
        if number not in self.sources:
            msg = f"step={shown(step)}: the conclusion is explained by parts and thoughts alone"
            raise InputError(msg)
        if number in self.unmeasured:
            msg = f"step={shown(step)} was not measured, since work was interrupted; run it again"
            raise InputError(msg)
        end = self.conclusion
        score, direct, hidden, deleted = (
            float(each[end, number])
            for each in (self.scores, self.direct, self.hidden, self.deleted)
        )
        total = float(np.abs(self.scores[end, list(self.sources)]).sum())
        role, through = self._role(number, direct, hidden, deleted)
        return StepRow(
            self.steps[number].name,
            score,
            abs(score) / total if total else None,
            direct,
            hidden,
            None if math.isnan(deleted) else deleted,
            role,
            through,
        )

    def table(self) -> list[StepRow]:
        """What each part and each thought is to the conclusion, in the order of the text.

        Those that were not measured are left out.
        """
        return [self.row(number) for number in self.sources if number not in self.unmeasured]

    def _role(
        self, number: int, direct: float, hidden: float, deleted: float
    ) -> tuple[Role, tuple[int, ...]]:
        through = tuple(
            edge.target
            for edge in self.edges
            if edge.source == number and edge.target != self.conclusion
        )
        gone = hidden if math.isnan(deleted) else deleted
        if direct >= NEEDED:
            return ("needed" if gone >= NEEDED else "read"), through
        if through or min(hidden, gone) >= NEEDED:
            return "passed on", through
        if is_spared(direct, hidden, gone):
            return "spared", ()
        return ("against" if gone <= -NEEDED and hidden < NEEDED else "unclear"), ()

    def words_read(self, step: int | str) -> tuple[tuple[int, int], ...]:
        """Where the words of a thought that are read further on stand in the answer's text."""
        own = set(self.steps[self.find(step)].positions) & set(self.carriers)
        found: list[tuple[int, int]] = []
        for at in sorted(own):
            start, end = self.spans[at]
            if found and not self.answer_text[found[-1][1] : start].strip():
                start = found.pop()[0]
            found.append((start, end))
        return tuple(found)

    @property
    def needed(self) -> tuple[int, ...]:
        """The steps that the conclusion depends on, itself or through later ones."""
        return tuple(
            self.find(row.name)
            for row in self.table()
            if row.through or row.role in ("needed", "passed on")
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of these numbers must know."""
        return tuple(self.statistics.get("warnings", ()))

    @property
    def summary(self) -> str:
        """What the conclusion depends on and what it does not need, in some sentences."""
        from attnflow.views.wording.steps import summarize

        return " ".join(summarize(self))

    def explore(self) -> StepPage:
        """A page that shows the graph; ``save`` writes it as one file."""
        from attnflow.views.explorer.steps import StepPage

        return StepPage(self)

    def _repr_html_(self) -> str:
        """The page, for notebooks."""
        return self.explore()._repr_html_()

    @classmethod
    def _read(cls, values: dict[str, Any]) -> Self:
        values["steps"] = tuple(
            Step(**check_fields("step", Step, each)) for each in read_list("steps", values["steps"])
        )
        for name in ("tokens", "carriers", "unmeasured", "spared", "spans"):
            values[name] = read_list(name, values.get(name, ()))
        values["spans"] = tuple(read_list("spans", each) for each in values["spans"])
        return cls(**values)


def is_spared(*drops: float) -> bool:
    """Whether the conclusion is neither half nor twice as likely, however a step is taken away."""
    return all(math.isnan(drop) or abs(drop) < NEEDED for drop in drops)


def _with_gaps(name: str, given: Any, shape: Sequence[int]) -> FloatArray:
    """A read-only copy in float64 that may have NaN."""
    try:
        array = np.array(given, np.float64)
    except (TypeError, ValueError) as error:
        msg = f"{name} must be an array of numbers: {error}"
        raise InputError(msg) from error
    if array.shape != tuple(shape) or np.isinf(array).any():
        msg = f"{name} has shape {array.shape}; these steps need {tuple(shape)}, without infinity"
        raise InputError(msg)
    array.flags.writeable = False
    return array
