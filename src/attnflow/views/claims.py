"""What may be claimed of the words that a method puts first: what blanking them out says.

A score has no direction: a word may score high and speak against the answer. Where the model was
run without each word, sentences take their direction from that; elsewhere they claim none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from attnflow.evaluation.blanking_check import BlankingCheck, Removal
from attnflow.views.labels import label
from attnflow.views.numbers import percent, points

LITTLE = 0.01  # of probability: what changes an answer by less is neither for nor against it
REASON = 0.5  # of the largest fall: without a word that is called the reason it falls by this share
COUNTER = 0.2  # of the largest change: one of this size in the other direction is named
LONGEST = 40  # cells of a label

Role = Literal["", "said", "token", "for", "against"]


class Part(NamedTuple):
    """A piece of a sentence; tokens have a position.

    ``"for"`` and ``"against"`` are tokens that are claimed to speak for the answer or against it.
    """

    text: str
    role: Role = ""
    position: int | None = None


@dataclass(frozen=True)
class Claims:
    """The words that a method names, sorted by what blanking says of them.

    Attributes:
        check: What blanking says.
        order: The tokens of the input.
        name: A token's word.
        kind: Before a name, where it is no word: ``"patch "``.
    """

    check: BlankingCheck
    order: Sequence[int]
    name: Callable[[int], str]
    kind: str = ""

    def role(self, at: int) -> Role:
        """Whether a word speaks for the answer; "token" where it hardly changes it."""
        removal = self.check.removals[at]
        if removal is None:
            return "token"
        if self._turns(removal) and removal.change < 0:
            return "for"
        if abs(removal.change) < LITTLE:
            return "token"
        return "for" if removal.change < 0 else "against"

    def _is_reason(self, at: int) -> bool:
        """Whether a word speaks for the answer, and no other does far more."""
        removal, first = self.check.removals[at], self.strongest(-1)
        if removal is None or first is None or self.role(at) != "for":
            return False
        return self._turns(removal) or removal.change <= REASON * self._change(first)

    def names(self, places: Sequence[int], because: str, points_to: str) -> list[Part]:
        """Named words, with the verb that holds for each."""
        reasons = [at for at in places if self._is_reason(at)]
        others = [at for at in places if at not in reasons]
        if not reasons:
            return [Part(points_to + plural(self.kind, len(others))), *self._doubted(others)]
        named = plural(self.kind, len(reasons))
        parts = [Part(because + named), *listed([self._part(at) for at in reasons])]
        for at in others:
            high = Part(f" scores high, too, {self._doubt([at], 'but it', 'but without it')}")
            parts += [Part(f"; {self.kind}"), self._part(at), high]
        return parts

    def _doubted(self, places: Sequence[int]) -> list[Part]:
        """Words that are no reasons: those against the answer, those that change little, others."""
        parts: list[Part] = []
        for role, known in (("for", True), ("against", True), ("token", True), ("token", False)):
            same = [at for at in places if self._is(at, role, known=known)]
            if same:
                words = listed([self._part(at) for at in same])
                doubtful = known and role != "for"
                doubt = f", {self._doubt(same, 'which', 'without which')}" if doubtful else ""
                parts += [*([Part(", and ")] if parts else []), *words, Part(doubt)]
        return parts

    def _is(self, at: int, role: str, *, known: bool) -> bool:
        return self.role(at) == role and (self.check.removals[at] is not None) == known

    def _doubt(self, places: Sequence[int], which: str, without: str) -> str:
        """That words pull the other way, or change little."""
        one = len(places) == 1
        if self.role(places[0]) == "for":
            return "but matters less"
        if self.role(places[0]) == "against":
            return f"{which} pull{'s' if one else ''} the other way"
        if one:
            return f"{without} the {self._matter} hardly changes"
        return f"{which} hardly change the {self._matter}, each alone"

    @property
    def _matter(self) -> str:
        return "choice" if self.check.contrast else "answer"

    def supporter(self, named: Sequence[int]) -> list[Part]:
        """The word that blanking names, where none of the named ones is a reason."""
        first = self.strongest(-1)
        reasons = [at for at in named if self._is_reason(at)]
        if reasons or first is None or self.role(first) != "for":
            return []
        return [Part(f"; blanking points to {self.kind}"), self._part(first)]

    def against(self, named: Sequence[int]) -> list[Part]:
        """The word that speaks most against the answer, unless it was named or matters little."""
        most, first = self.strongest(1), self.strongest(-1)
        if most is None or self.role(most) != "against":
            return []
        fall = 0.0 if first is None else max(0.0, -self._change(first))
        known = {self.name(at) for at in named}
        if self.name(most) in known or self._change(most) < COUNTER * fall:
            return []
        other = any(self.role(at) == "against" for at in named)
        pulls = " pulls that way, too" if other else " pulls the other way"
        return [Part(f"; {self.kind}"), self._part(most), Part(pulls)]

    def strongest(self, sign: int = 0) -> int | None:
        """The token of the word whose removal changes most: up, down, or by size."""
        known = [at for at in self.order if self.check.removals[at] is not None]
        by = abs if sign == 0 else lambda change: sign * change
        return max(known, key=lambda at: by(self._change(at)), default=None)

    def effects(self, named: Sequence[int]) -> str:
        """What happens without the first word that is named, and without the one that does most."""
        known = [at for at in named if self.check.removals[at] is not None]
        strongest = self.strongest()
        if strongest is None:
            return ""
        of_source = self.check.places is not None and not self.kind
        every = [self.check.removals[at] for at in self.order]
        if self.check.places is not None:
            every = [each for each in every if each is not None]
        small = all(each and abs(each.change) < LITTLE and not self._turns(each) for each in every)
        asked = label(self.check.target, LONGEST)
        if self.check.contrast:
            asked += f" against {label(self.check.contrast, LONGEST)}"
        before = f"{asked} {percent(self.check.probability)}"
        if small and len({self.name(at) for at in self.order}) > 1:
            one = f"{self.kind.strip() or 'word'}{' of the source' if of_source else ''}"
            return f"Without any one {one}, {before} changes by less than {100 * LITTLE:.0f} point."
        first = known[0] if known else strongest
        said = f"Without {self.kind}“{self.name(first)}”: {before} → {self._then(first)}."
        if self.name(strongest) == self.name(first):
            return said
        most = self._then(strongest)
        largest = f"{self.kind}“{self.name(strongest)}”"
        return f"{said} The largest change is without {largest}: → {most}."

    def _then(self, at: int) -> str:
        removal = self.check.removals[at]
        change = self._change(at)
        then = f"{percent(self.check.probability + change)} ({points(change)})"
        if removal is None or not self._turns(removal):
            return then
        other = f"“{label(removal.label, LONGEST)}”"
        if self.check.contrast:
            return f"{then}, and {other} becomes the likelier"
        return f"{then}, and the answer becomes {other}"

    def _turns(self, removal: Removal) -> bool:
        return bool(removal.label) and removal.label != self.check.label

    def _change(self, at: int) -> float:
        removal = self.check.removals[at]
        return 0.0 if removal is None else removal.change

    def _part(self, at: int) -> Part:
        return Part(self.name(at), self.role(at), at)


def plural(kind: str, count: int) -> str:
    """What so many are called, before their names; nothing where they are words."""
    return "patches " if kind and count > 1 else kind


def listed(named: Sequence[Part]) -> list[Part]:
    """Parts with commas and an "and" between them."""
    parts: list[Part] = []
    for at, part in enumerate(named):
        if at:
            parts.append(Part(" and " if at == len(named) - 1 else ", "))
        parts.append(part)
    return parts
