"""Whether an answer is "because of" a word: `Experiment.decide` is the one place that decides it.

Scores alone don't say so: the word with the highest score need not be the one that the answer
depends on. Where the model was run without each word, that experiment decides what is claimed, and
what the method found is compared with it. Where it was not, nothing of the kind is claimed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from attnflow.evaluation.blanking_check import BlankingCheck, Removal
from attnflow.views.wording.labels import LONGEST, label
from attnflow.views.wording.numbers import digits_for, percent, points

LITTLE = 0.01  # of probability: smaller changes are neither for nor against the answer
SLIGHT = 0.05  # of probability: smaller changes are called small
UNLIKELY = 0.1  # a less likely answer has no reason
NEARLY = 0.9  # of the largest fall: such a word is named with the first one
ALIKE = 0.8  # of the largest fall: without such a word the answer falls about as much
REASON = 0.5  # of the largest fall: a word that the method names is then called a reason, too
COUNTER = 0.2  # of the largest change: a change of this size in the other direction is named
MOST_NAMED = 3

Role = Literal["", "said", "token", "for", "against"]
Kind = Literal["none", "unlikely", "many", "little", "because"]


class Phrase(NamedTuple):
    """A piece of a sentence; tokens have a position.

    ``"for"`` and ``"against"`` are tokens that are claimed to speak for the answer or against it.
    """

    text: str
    role: Role = ""
    position: int | None = None


@dataclass(frozen=True)
class Verdict:
    """What an answer depends on, by the experiment.

    Attributes:
        kind: ``"because"`` of ``words``; ``"little"`` where it falls most without the first of
            them, but not by much; ``"many"`` where it falls as much without any of ``count`` words;
            ``"unlikely"`` where the answer itself is; ``"none"`` where it falls without none.
        words: Their positions, the one that matters most first.
        count: How many words the answer depends on alike.
    """

    kind: Kind
    words: tuple[int, ...] = ()
    count: int = 0


@dataclass(frozen=True)
class Experiment:
    """What a model predicts without each word, and what follows from it.

    Attributes:
        check: The predictions.
        order: The tokens of the input.
        name: A token's word.
        kind: What stands before a name that is not a word: ``"patch "``.
    """

    check: BlankingCheck
    order: Sequence[int]
    name: Callable[[int], str]
    kind: str = ""

    def decide(self, named: Sequence[int]) -> Verdict:
        """What the answer is because of, given the words that a method ``named``."""
        first = self.first
        if first is None:
            return Verdict("none")
        if self.check.probability < UNLIKELY and not self.check.contrast:
            return Verdict("unlikely", (first,))
        alike = {self.name(at) for at in self._alike(first)}
        if len(alike) > MOST_NAMED:
            return Verdict("many", count=len(alike))
        if not self._turns_at(first) and abs(self.change(first)) < SLIGHT:
            return Verdict("little", (first,))
        most = NEARLY * self.change(first) + 1e-9  # rounding
        nearly = [at for at in self.order if self.change(at) <= most]
        equals = sorted((at for at in nearly if self.role(at) == "for"), key=self.change)
        near = [at for at in named if self._falls_alike(at, first, REASON)]
        words: dict[str, int] = {}
        for at in (first, *equals, *near):
            words.setdefault(self.name(at), at)
        return Verdict("because", tuple(words.values()))

    def lead(self, verdict: Verdict, because: str) -> list[Phrase]:
        """A verdict in words; ``because`` are those before its reasons."""
        one = self.kind.strip() or "word"
        words = [self._part(at) for at in verdict.words]
        if verdict.kind == "unlikely":
            likely = percent(self.check.probability)
            return [
                Phrase(f"; it is only {likely} likely, and falls most without {self.kind}"),
                *words,
            ]
        if verdict.kind == "many":
            falls = self._as_much()
            any_of = f"without any one of {verdict.count} {plural(self.kind, 2).strip() or 'words'}"
            return [Phrase(f"; no single {one} decides: {any_of} the {self._matter} {falls}")]
        if verdict.kind == "little":
            return [Phrase(f"; it depends little on any one {one}, most on {self.kind}"), *words]
        if verdict.kind == "because":
            return [Phrase(because + plural(self.kind, len(words))), *listed(words)]
        return []

    def names(self, verdict: Verdict, named: Sequence[int], points_to: str) -> list[Phrase]:
        """The words that a method named and the verdict did not."""
        known = {self.name(at) for at in verdict.words}
        others = [at for at in named if self.name(at) not in known]
        if not others:
            return []
        if len(others) == len(named):
            pointed = Phrase(points_to + plural(self.kind, len(others)))
            counted = self._counted(others) if verdict.kind == "many" else []
            doubted = self._doubted([at for at in others if at not in counted])
            return [pointed, *_both(self._among(counted), doubted)]
        parts: list[Phrase] = []
        for at in others:
            high = Phrase(f" scores high, too, {self._doubt([at], 'but it', 'but without it')}")
            parts += [Phrase(f"; {self.kind}"), self._part(at), high]
        return parts

    def against(self, named: Sequence[int]) -> list[Phrase]:
        """The word that speaks most against the answer, unless it was named or matters little."""
        most, first = self.strongest(1), self.strongest(-1)
        if most is None or self.role(most) != "against":
            return []
        fall = 0.0 if first is None else max(0.0, -self.change(first))
        if self.name(most) in map(self.name, named) or self.change(most) < COUNTER * fall:
            return []
        other = any(self.role(at) == "against" for at in named)
        pulls = " pulls against the answer, too" if other else " pulls the other way"
        return [Phrase(f"; {self.kind}"), self._part(most), Phrase(pulls)]

    def evidence(self, named: Sequence[int]) -> str:
        """What happens without the first word that is named, and without the one that does most."""
        strongest = self.strongest()
        if strongest is None:
            return ""
        before = label(self.check.target, LONGEST)
        if self.check.contrast:
            before += f" against {label(self.check.contrast, LONGEST)}"
        if self._nothing_changes() and len({self.name(at) for at in self.order}) > 1:
            of_source = self.check.places is not None and not self.kind
            one = f"{self.kind.strip() or 'word'}{' of the source' if of_source else ''}"
            before += f" {percent(self.check.probability)}"
            return f"Without any one {one}, {before} changes by less than {100 * LITTLE:.0f} point."
        # The experiment's own word first, then the method's, then what changes it most upwards.
        first = strongest if self.first is None else self.first
        known = [at for at in named if self.check.removals[at] is not None]
        words: dict[str, int] = {}
        for at in (first, *known[:1], strongest):
            words.setdefault(self.name(at), at)
        whole = self.check.probability
        digits = digits_for(whole, [whole + self.change(at) for at in words.values()])
        before += f" {percent(whole, digits)}"
        return " ".join(
            f"Without {self._quoted(at)}: {start}→ {self._then(at, digits)}."
            for at, start in zip(words.values(), (f"{before} ", "", ""), strict=False)
        )

    @property
    def first(self) -> int | None:
        """The word without which the answer falls most, if it falls at all."""
        found = self.strongest(-1)
        return found if found is not None and self.role(found) == "for" else None

    def strongest(self, sign: int = 0) -> int | None:
        """The token of the word whose removal changes most: up, down, or by size."""
        known = [at for at in self.order if self.check.removals[at] is not None]
        by = abs if sign == 0 else lambda change: sign * change
        return max(known, key=lambda at: by(self.change(at)), default=None)

    def role(self, at: int) -> Role:
        """Whether a word speaks for the answer; "token" where it hardly changes it."""
        change = self.change(at)
        if change < 0 and self._turns_at(at):
            return "for"
        if abs(change) < LITTLE:
            return "token"
        return "for" if change < 0 else "against"

    @property
    def changes(self) -> tuple[float | None, ...]:
        """For each token the change without its word, ``None`` where that was not tried."""
        return tuple(None if each is None else each.change for each in self.check.removals)

    def change(self, at: int) -> float:
        """The change of the answer's probability without a word; 0 where that was not tried."""
        removal = self.check.removals[at]
        return 0.0 if removal is None else removal.change

    def _nothing_changes(self) -> bool:
        """Whether every word could be removed, and none of them changes the answer."""
        every = [self.check.removals[at] for at in self.order]
        if self.check.places is not None:
            every = [each for each in every if each is not None]
        return all(each and abs(each.change) < LITTLE and not self._turns(each) for each in every)

    def _falls_alike(self, at: int, first: int, share: float = ALIKE) -> bool:
        """Whether the answer turns without a word, or falls as it does without the first one."""
        much = self._turns_at(at) or self.change(at) <= share * self.change(first)
        return much and self.role(at) == "for"

    def _alike(self, first: int) -> list[int]:
        """The words without which it turns, or falls as much; a full stop or a comma is none."""
        return [
            at
            for at in self.order
            if self._falls_alike(at, first) and not _is_punctuation(self.name(at))
        ]

    def _as_much(self) -> str:
        """What happens without any one of many words."""
        first = self.first
        alike = [] if first is None else self._alike(first)
        if all(self._turns_at(at) for at in alike):
            return "changes"
        most = 0.0 if first is None else ALIKE * self.change(first)
        turned = any(self.change(at) > most for at in alike)
        return f"falls by about as much{', or changes' if turned else ''}"

    def _turns_at(self, at: int | None) -> bool:
        removal = None if at is None else self.check.removals[at]
        return removal is not None and self._turns(removal)

    def _turns(self, removal: Removal) -> bool:
        return bool(removal.label) and removal.label != self.check.label

    def _counted(self, places: Sequence[int]) -> list[int]:
        """Those without which the answer falls as without many others."""
        alike = [] if self.first is None else self._alike(self.first)
        return [at for at in places if at in alike]

    def _among(self, places: Sequence[int]) -> list[Phrase]:
        """Words that are some of many."""
        if not places:
            return []
        some = ", one of them" if len(places) == 1 else ", which are among them"
        return [*listed([self._part(at) for at in places]), Phrase(some)]

    def _doubted(self, places: Sequence[int]) -> list[Phrase]:
        """Words that the experiment does not name: what happens without them."""
        parts: list[Phrase] = []
        for role, known in (("for", True), ("against", True), ("token", True), ("token", False)):
            same = [
                at
                for at in places
                if self.role(at) == role and (self.check.removals[at] is not None) == known
            ]
            if same:
                doubt = f", {self._doubt(same, 'which', 'without which')}" if known else ""
                words = listed([self._part(at) for at in same])
                parts = _both(parts, [*words, Phrase(doubt)])
        return parts

    def _doubt(self, places: Sequence[int], which: str, without: str) -> str:
        """That words matter less, pull the other way, or change little."""
        one = len(places) == 1
        role = self.role(places[0])
        if role == "for":
            return f"{which} matter{'s' if one else ''} less"
        if role == "against":
            return f"{which} pull{'s' if one else ''} the other way"
        if one:
            return f"{without} the {self._matter} hardly changes"
        return f"{which} hardly change the {self._matter}, each alone"

    @property
    def _matter(self) -> str:
        return "choice" if self.check.contrast else "answer"

    def _then(self, at: int, digits: int) -> str:
        change = self.change(at)
        then = f"{percent(self.check.probability + change, digits)} ({points(change)})"
        removal = self.check.removals[at]
        if removal is None or not self._turns(removal):
            return then
        other = f"“{label(removal.label, LONGEST)}”"
        if self.check.contrast:
            return f"{then}, and {other} becomes the more likely one"
        return f"{then}, and the answer becomes {other}"

    def _quoted(self, at: int) -> str:
        return f"{self.kind}“{self.name(at)}”"

    def _part(self, at: int) -> Phrase:
        return Phrase(self.name(at), self.role(at), at)


def _is_punctuation(name: str) -> bool:
    """Whether a name, without its position, is nothing but punctuation."""
    letters = re.sub(r":\d+$", "", name)
    return all(unicodedata.category(each).startswith("P") for each in letters)


def _both(first: list[Phrase], second: list[Phrase]) -> list[Phrase]:
    return [*first, *([Phrase(", and ")] if first and second else []), *second]


def plural(kind: str, count: int) -> str:
    """What so many are called, before their names; nothing where they are words."""
    return "patches " if kind and count > 1 else kind


def listed(named: Sequence[Phrase]) -> list[Phrase]:
    """Parts with commas and an "and" between them."""
    parts: list[Phrase] = []
    for at, part in enumerate(named):
        if at:
            parts.append(Phrase(" and " if at == len(named) - 1 else ", "))
        parts.append(part)
    return parts
