"""Parts of a prompt, and what each gave to an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from attnflow.errors import InputError, shown
from attnflow.records import checks

Kind = Literal["part", "rest", "answer"]
PART: Kind = "part"
KINDS = get_args(Kind)


@dataclass(frozen=True)
class Part:
    """Some tokens of a prompt under one name: a message, a document, a question.

    Attributes:
        name: Its name, such as ``"user"``.
        positions: Its tokens' positions.
        kind: ``"part"`` for one that was named; ``"rest"``, all other tokens of the prompt (a
            template's marks, say); ``"answer"``, the answer itself, whose tokens read each other.
    """

    name: str
    positions: tuple[int, ...]
    kind: Kind = PART

    def __post_init__(self) -> None:
        checks.check_text("the part's name", self.name)
        if self.kind not in KINDS:
            msg = f"kind={shown(self.kind)} of part {self.name!r} is unknown"
            raise InputError(msg)
        found = checks.check_numbers(f"the positions of {self.name!r}", self.positions, 0)
        object.__setattr__(self, "positions", found)


class PartScore(NamedTuple):
    """What a part gave to the answer, or to a span of it.

    Attributes:
        name: The part's name.
        score: The mean of its scores over the answer's tokens.
        share: Its share of the scores of all parts; ``None`` where scores have signs, or are
            ratios to chance.
        drop: By how much the answer's log-probability falls when the part is deleted; ``None``
            where that was not measured.
    """

    name: str
    score: float
    share: float | None
    drop: float | None
