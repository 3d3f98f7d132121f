"""The words for what an attribution says: a sentence in parts, and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from attnflow.models.heads import TAGGER
from attnflow.records import Attribution, FloatArray
from attnflow.views.labels import clip, distinct_labels, isolate, label, printable
from attnflow.views.methods import method_info
from attnflow.views.numbers import number

CLOSE = 0.8  # of the highest score: a token that has as much is named, too
FLAT = 0.8  # of all tokens: where more come close, none stands out
MOST_NAMED = 3
COUNTER = 0.2  # of the highest score: a negative one of this size is named
LONGEST = 40  # cells of a label
LONGEST_SUBJECT = 80  # cells of what a model decides

Role = Literal["", "said", "token", "against"]


class Part(NamedTuple):
    """A piece of a sentence; tokens have a position."""

    text: str
    role: Role = ""
    position: int | None = None


def subject(model: object) -> str:
    """What a model decides, to stand before its answer; empty where its description has none."""
    decides = model.get("decides") if isinstance(model, Mapping) else None
    if not isinstance(decides, str) or not decides:
        return ""
    words = clip(decides, LONGEST_SUBJECT)
    return f"{words[0].upper()}{words[1:]}: "


def noun_of(attribution: Attribution) -> str:
    """What is scored: tokens, words, patches, frames or positions of several kinds."""
    grid = attribution.grid
    if grid is not None:
        if not {"text", "source", "target"}.isdisjoint(attribution.segments or ()):
            return "positions"
        return "frames" if grid.seconds is not None and grid.rows == 1 else "patches"
    return "words" if attribution.options.get("words") else "tokens"


def is_ratio(attribution: Attribution) -> bool:
    """Whether scores are ratios to what even attention would give."""
    return attribution.options.get("correction") == "uniform"


@dataclass(frozen=True)
class Wording:
    """The words for one attribution."""

    attribution: Attribution
    order: Sequence[int]
    scores: FloatArray
    tied: int
    ties: str

    @property
    def noun(self) -> str:
        """What is scored."""
        return noun_of(self.attribution)

    def sentence(self) -> list[Part]:
        """All parts, with a capital and a full stop."""
        start, verb = self._start()
        highest = float(self.scores[self.order[0]])
        one = "patch" if self.noun == "patches" else self.noun[:-1]
        if highest <= 0:
            reason = [Part(f"; no {one} of it scores above 0")]
        elif self.tied > MOST_NAMED:
            reason = self._tie(highest)
        elif self.flat:
            reason = [Part(f"; by {self.attribution.method} no {one} stands out: "), *self._near()]
        else:
            reason = [Part(verb), *self._names()]
        return [*start, *reason, *self._against(highest), Part(".")]

    def _start(self) -> tuple[list[Part], str]:
        """What is accounted for, and the words between it and the tokens."""
        of = self.attribution
        info = method_info(of.method)
        asked = of.options.get("query") not in (None, "all")
        here = of.prediction is not None and of.prediction.position in (None, of.query)
        decided = of.layer == of.depth and here and info.reaches_input
        if of.prediction is not None and decided and not (asked and _is_label(of)):
            model = of.statistics.get("model")
            about = subject(model)
            said = Part(label(of.prediction.label, LONGEST), "said")
            start = [Part(about), said] if about else [said]
            if isinstance(model, Mapping) and model.get("head") == TAGGER.name:
                start = [Part(self._label(of.query), "token", of.query), Part(" is "), said]
            asked_for = _asked_for(of)
            if asked_for:  # the model said one thing, and the scores are of another
                return [*start, Part(f"; {asked_for}")], " comes mostly from "
            return start, ", because of "
        token = None if of.pooled else of.query
        name = printable(of.explained) if of.pooled else self._label(of.query)
        where = f" at layer {of.layer} of {of.depth}" if info.layered else ""
        verb = " comes mostly from " if info.reaches_input else " attends most to "
        return [Part(isolate(name), "token" if token is not None else "", token), Part(where)], verb

    @property
    def close(self) -> list[int]:
        """The tokens whose scores come close to the highest, that one included."""
        return [at for at in self.order if self.scores[at] >= CLOSE * self.scores[self.order[0]]]

    @property
    def flat(self) -> bool:
        """Whether so many come close that the highest score says nothing."""
        several = len(self.close) > max(MOST_NAMED, FLAT * len(self.order))
        return several and self.scores[self.order[0]] > 0

    def _near(self) -> list[Part]:
        """How many come close to the highest score, and whose that is."""
        first = self.order[0]
        many = f"{len(self.close)} of {len(self.order)} have at least {CLOSE:.0%} of the score of "
        return [Part(many), Part(self._label(first), "token", first)]

    def _names(self) -> list[Part]:
        """The tokens that stand out, or the first and how many come close."""
        close = self.close
        if len(close) <= MOST_NAMED:
            return self._named(close)
        named = self._named(close[: self.tied])
        rest = f", though {len(close)} of {len(self.order)} {self.noun} come close"
        return [*named, Part(rest)]

    def _named(self, places: Sequence[int]) -> list[Part]:
        """Tokens by their labels; a patch's is two numbers, so it is said what they are of."""
        kind = ("patch " if len(places) == 1 else "patches ") if self.noun == "patches" else ""
        named = _listed([Part(self._label(at), "token", at) for at in places])
        return [Part(kind), *named] if kind else named

    def _tie(self, highest: float) -> list[Part]:
        """That the highest score is no ranking."""
        size = number(highest, ratio=is_ratio(self.attribution))
        method = self.attribution.method
        many = f"{self.tied} of {len(self.order)} tie at {size}"
        parts = [Part(f"; {method} can't say because of which {self.noun}: {many}")]
        if self.ties != "text":
            first = self.order[0]
            named = Part(self._label(first), "token", first)
            parts += [Part(f" ({self.ties} puts "), named, Part(" first)")]
        return parts

    def _against(self, highest: float) -> list[Part]:
        """The token that speaks most against the answer, where scores are signed."""
        lowest = min(self.order, key=lambda at: self.scores[at])
        if self.scores[lowest] > -COUNTER * max(highest, 0) or self.scores[lowest] >= 0:
            return []
        name = Part(self._label(lowest), "against", lowest)
        return [Part("; "), name, Part(" pulls the other way")]

    def _label(self, at: int) -> str:
        return distinct_labels(self.attribution.tokens, LONGEST)[at]

    def notes(self, *, full: bool) -> list[str]:
        """Of ties and ratios, in sentences."""
        notes = []
        if self.tied > 1 and full:
            own = None if self.attribution.pooled else self.attribution.query
            name = printable(self.attribution.explained) if own is None else self._label(own)
            source = name if own is None else f"“{name}”"
            notes.append(
                f"{self.tied} of {len(self.order)} {self.noun} have exactly 1, the most that "
                f"{self.attribution.method} can be: the cut lies at {source}, where all that it "
                "takes in could come from any of them"
            )
        if self.tied > 1 and self.ties != "text":
            notes.append(f"equal scores are in the order of {self.ties}")
        if is_ratio(self.attribution):
            notes.append("scores are × chance: 1 is what even attention would give")
        if self.attribution.options.get("correction") == "sink":
            notes.append(
                f"“{self._label(0)}”, the first token, is left out (correction sink): decoders put "
                "attention there that has nowhere else to go"
            )
        return notes


def _is_label(of: Attribution) -> bool:
    """Whether the prediction is of the whole input, whichever position was asked about."""
    return of.prediction is not None and of.prediction.position is None


def _asked_for(of: Attribution) -> str:
    """What the scores are towards, where that is not simply what the model said."""
    said = of.prediction.label if of.prediction else ""
    target, contrast = of.options.get("target"), of.options.get("contrast")
    if contrast is not None:
        named = label(str(said if target is None else target), LONGEST)
        return f"“{named}” rather than “{label(str(contrast), LONGEST)}”"
    return "" if target in (None, said) else f"what bears on “{label(str(target), LONGEST)}”"


def _listed(named: Sequence[Part]) -> list[Part]:
    """Parts with commas and an "and" between them."""
    parts: list[Part] = []
    for at, part in enumerate(named):
        if at:
            parts.append(Part(" and " if at == len(named) - 1 else ", "))
        parts.append(part)
    return parts
