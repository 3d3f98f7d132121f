"""Parts of a prompt, and what each gave to an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from attnflow.errors import InputError, shown
from attnflow.records import checks

Role = Literal["source", "instructions", "question", "template", "answer"]
ROLES: tuple[Role, ...] = get_args(Role)
SOURCE, INSTRUCTIONS, QUESTION, TEMPLATE, ANSWER = ROLES
GIVEN = ROLES[:3]  # those that a part of a prompt may be given


@dataclass(frozen=True)
class Part:
    """Some tokens of a prompt under one name: a message, a document, a question.

    Attributes:
        name: Its name, such as ``"user"``.
        positions: Its tokens' positions.
        role: What it is to the answer: a ``"source"`` (a document, a tool's result, an example),
            ``"instructions"``, the ``"question"``; ``"template"``, the tokens of the prompt that
            have no other name; ``"answer"``, the answer itself, whose tokens read each other.
    """

    name: str
    positions: tuple[int, ...]
    role: Role = SOURCE

    def __post_init__(self) -> None:
        checks.check_text("the part's name", self.name)
        check_role(self.name, self.role)
        found = checks.check_numbers(f"the positions of {self.name!r}", self.positions, 0)
        object.__setattr__(self, "positions", found)

    @property
    def named(self) -> bool:
        """Whether it has a name of its own, and can be deleted: not the template or the answer."""
        return self.role not in (TEMPLATE, ANSWER)


def check_role(name: str, role: object, among: tuple[Role, ...] = ROLES) -> None:
    """Refuse a role that there is not."""
    if role not in among:
        allowed = ", ".join(map(repr, among))
        msg = f"role={shown(role)} of part {name!r} is unknown; allowed: {allowed}"
        raise InputError(msg)


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
