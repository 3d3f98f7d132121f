"""What may be claimed of an answer: what the model said without each word.

A score has no direction, and the word that scores highest need not be the one that the answer
depends on. Where the model was run without each word, the sentence begins with what that experiment
showed, and then says what the method found; elsewhere it claims nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from attnflow.evaluation.blanking_check import BlankingCheck, Removal
from attnflow.views.labels import label
from attnflow.views.numbers import percent, points

LITTLE = 0.01  # of probability: what changes an answer by less is neither for nor against it
SLIGHT = 0.05  # of probability: a change that is smaller is called small
UNLIKELY = 0.1  # an answer that is less likely than this has no reason
ALIKE = 0.8  # of the largest fall: without such a word the answer falls about as much
REASON = 0.5  # of the largest fall: a word that the method names is then called a reason, too
COUNTER = 0.2  # of the largest change: one of this size in the other direction is named
MOST_NAMED = 3
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

    @property
    def first(self) -> int | None:
        """The word without which the answer falls most, if it falls at all."""
        found = self.strongest(-1)
        return found if found is not None and self.role(found) == "for" else None

    def lead(self, named: Sequence[int], because: str) -> list[Part]:
        """What the experiment says, with the words that a method named where it confirms them."""
        first = self.first
        if first is None:
            return []
        alike = {self.name(at) for at in self.order if self._falls_alike(at, first)}
        one = self.kind.strip() or "word"
        if self.check.probability < UNLIKELY and not self.check.contrast:
            unlikely = f"; it is only {percent(self.check.probability)} likely, and falls most"
            return [Part(f"{unlikely} without {self.kind}"), self._part(first)]
        if len(alike) > MOST_NAMED:
            falls = "changes" if self._turns_at(first) else "falls by about as much"
            any_of = f"without any of {len(alike)} {plural(self.kind, 2).strip() or 'words'}"
            return [Part(f"; no single {one} decides: {any_of} the {self._matter} {falls}")]
        if self._is_slight(first):
            little = f"; it depends little on any one {one}, most on {self.kind}"
            return [Part(little), self._part(first)]
        reasons = self._reasons(named)
        return [Part(because + plural(self.kind, len(reasons))), *self._listed(reasons)]

    def names(self, named: Sequence[int], points_to: str) -> list[Part]:
        """The words that a method names, as far as the experiment has not named them."""
        known = {self.name(at) for at in self._named_by_lead(named)}
        others = [at for at in named if self.name(at) not in known]
        if not others:
            return []
        if len(others) == len(named):
            return [Part(points_to + plural(self.kind, len(others))), *self._doubted(others)]
        parts: list[Part] = []
        for at in others:
            high = Part(f" scores high, too, {self._doubt([at], 'but it', 'but without it')}")
            parts += [Part(f"; {self.kind}"), self._part(at), high]
        return parts

    def _named_by_lead(self, named: Sequence[int]) -> list[int]:
        """The words in the first part of the sentence."""
        return [part.position for part in self.lead(named, "") if part.position is not None]

    def _reasons(self, named: Sequence[int]) -> list[int]:
        """The word without which the answer falls most, and those of the method that come near."""
        first = self.first
        if first is None:
            return []
        near = [at for at in named if self._falls_alike(at, first, REASON)]
        distinct = {self.name(at): at for at in reversed([first, *near])}
        return list(distinct.values())[::-1]

    def _falls_alike(self, at: int, first: int, share: float = ALIKE) -> bool:
        """Whether the answer falls, or turns, without a word as it does without the first one."""
        if self.role(at) != "for":
            return False
        return self._turns_at(at) or (
            not self._turns_at(first) and self._change(at) <= share * self._change(first)
        )

    def _is_slight(self, at: int) -> bool:
        return not self._turns_at(at) and abs(self._change(at)) < SLIGHT

    def _turns_at(self, at: int) -> bool:
        removal = self.check.removals[at]
        return removal is not None and self._turns(removal)

    def _listed(self, places: Sequence[int]) -> list[Part]:
        return listed([self._part(at) for at in places])

    def _doubted(self, places: Sequence[int]) -> list[Part]:
        """Words that the experiment does not name: what happens without them."""
        parts: list[Part] = []
        for role, known in (("for", True), ("against", True), ("token", True), ("token", False)):
            same = [at for at in places if self._is(at, role, known=known)]
            if same:
                doubt = f", {self._doubt(same, 'which', 'without which')}" if known else ""
                parts += [*([Part(", and ")] if parts else []), *self._listed(same), Part(doubt)]
        return parts

    def _is(self, at: int, role: str, *, known: bool) -> bool:
        return self.role(at) == role and (self.check.removals[at] is not None) == known

    def _doubt(self, places: Sequence[int], which: str, without: str) -> str:
        """That words matter less, pull the other way, or change little."""
        one = len(places) == 1
        if self.role(places[0]) == "for":
            return f"{which} matter{'s' if one else ''} less"
        if self.role(places[0]) == "against":
            return f"{which} pull{'s' if one else ''} the other way"
        if one:
            return f"{without} the {self._matter} hardly changes"
        return f"{which} hardly change the {self._matter}, each alone"

    @property
    def _matter(self) -> str:
        return "choice" if self.check.contrast else "answer"

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
        # The experiment's own word first, then the method's, then what changes it most upwards.
        first = strongest if self.first is None else self.first
        said = [f"Without {self._quoted(first)}: {before} → {self._then(first)}."]
        shown = {self.name(first)}
        for at in (*known[:1], strongest):
            if self.name(at) not in shown:
                shown.add(self.name(at))
                said.append(f"Without {self._quoted(at)}: → {self._then(at)}.")
        return " ".join(said)

    def _quoted(self, at: int) -> str:
        return f"{self.kind}“{self.name(at)}”"

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
