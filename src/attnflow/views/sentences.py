"""The words for what an attribution says: a sentence in parts, and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attnflow.evaluation.blanking_check import BlankingCheck
from attnflow.models.outputs import has_label
from attnflow.models.sizes import independent_labels, labels_tokens
from attnflow.records import Attribution, FloatArray
from attnflow.views.claims import COUNTER, LONGEST, MOST_NAMED, Claims, Part, listed, plural
from attnflow.views.labels import clip, isolate, label, printable, word_labels
from attnflow.views.methods import info_of, name_of
from attnflow.views.numbers import number

CLOSE = 0.8  # of the highest score: a token that has as much is named, too
FLAT = 1.25  # times the mean: where the highest score is less, no token stands out
NO_LABEL = "none of the labels"  # where labels are independent, and none is likelier than not
LONGEST_SUBJECT = 80  # cells of what a model decides


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


class Verbs(NamedTuple):
    """The words between what is accounted for and the tokens.

    ``because`` claims that these speak for the answer; empty where that is not the question.
    """

    because: str
    points_to: str


@dataclass(frozen=True)
class Wording:
    """The words for one attribution.

    ``own`` is the explained position where it is left out of the ``order``; ``check`` is what
    blanking says of the answer, if it does.
    """

    attribution: Attribution
    order: Sequence[int]
    scores: FloatArray
    tied: int
    ties: str
    own: int | None = None
    check: BlankingCheck | None = None

    @property
    def noun(self) -> str:
        """What is scored."""
        return noun_of(self.attribution)

    @property
    def claims(self) -> Claims | None:
        """What blanking allows to say; ``None`` where it was not tried, or is not the question."""
        if self.check is None or not self._start()[1].because:
            return None
        return Claims(self.check, self.order, self._label, self._kind)

    def evidence(self) -> str:
        """What happens to the answer without the words that matter."""
        return "" if self.claims is None else self.claims.effects(self._chosen())

    def sentence(self) -> list[Part]:
        """All parts, with a capital and a full stop."""
        start, verbs = self._start()
        highest = float(self.scores[self.order[0]])
        chosen = self._chosen()
        if len(self.order) == 1:
            reason = self._only()
        elif highest <= 0:
            reason = [Part(f"; by {name_of(self.attribution)} no {self._one} scores above 0")]
        elif self.tied > MOST_NAMED:
            reason = self._tie(highest)
        elif self.flat:
            reason = self._even(highest)
        else:
            reason = self._named(chosen, verbs)
        lead = [] if self.claims is None else self.claims.lead(chosen, verbs.because)
        lead = [] if len(self.order) == 1 else lead
        return [*start, *lead, *reason, *self._beside(chosen), Part(".")]

    def _start(self) -> tuple[list[Part], Verbs]:
        """What is accounted for, and the words between it and the tokens."""
        of = self.attribution
        info = info_of(of)
        asked = of.options.get("query") not in (None, "all")
        here = of.prediction is not None and of.prediction.position in (None, of.query)
        decided = of.layer == of.depth and here and info.reaches_input
        if of.prediction is not None and decided and not (asked and _is_label(of)):
            model = of.statistics.get("model")
            about = subject(model)
            independent = independent_labels(model)
            none = independent and not has_label(of.prediction.probability)
            said = Part(NO_LABEL if none else label(of.prediction.label, LONGEST), "said")
            start = [Part(about), said] if about else [said]
            if labels_tokens(model):
                start = [Part(self._label(of.query), "token", of.query), Part(" is "), said]
            asked_for = _asked_for(of, always=none)
            if asked_for:  # the model said one thing, and the scores are of another
                named = f"; for {asked_for}, {name_of(of)} points to "
                because = f"; what speaks for {asked_for} is "
                chosen = of.options.get("target") in (None, of.prediction.label)
                if chosen and not independent:  # an input may have both of two such labels
                    because = f" rather than “{_contrast(of)}”, because of "
                return start, Verbs(because, named)
            return start, Verbs(", because of ", f"; {name_of(of)} points to ")
        token = None if of.pooled else of.query
        name = printable(of.explained) if of.pooled else self._label(of.query)
        where = f" at layer {of.layer} of {of.depth}" if info.layered else ""
        verb = " comes most from " if info.reaches_input else " attends most to "
        shown = Part(isolate(name), "token" if token is not None else "", token)
        return [shown, Part(where)], Verbs("", verb)

    @property
    def close(self) -> list[int]:
        """The tokens whose scores come close to the highest, that one included."""
        return [at for at in self.order if self.scores[at] >= CLOSE * self.scores[self.order[0]]]

    @property
    def flat(self) -> bool:
        """Whether scores are so even that the highest says nothing."""
        highest = float(self.scores[self.order[0]])
        mean = float(np.mean([self.scores[at] for at in self.order]))
        return len(self.order) > 1 and 0 < highest < FLAT * mean

    def _chosen(self) -> list[int]:
        """The tokens that stand out, one of each word; none where the scores single none out."""
        if self.tied > MOST_NAMED or self.flat or not self.scores[self.order[0]] > 0:
            return []
        close = self.close
        few = close if len(close) <= MOST_NAMED else close[: self.tied]
        return list({self._label(at): at for at in reversed(few)}.values())[::-1]

    def _only(self) -> list[Part]:
        """There is nothing to choose from."""
        other = "" if self.own is None else "other "
        only = self.order[0]
        named = Part(self._label(only), "token", only)
        return [Part("; "), named, Part(f" is the only {other}{self._one}")]

    def _even(self, highest: float) -> list[Part]:
        """That no token stands out, and whose score is the highest all the same."""
        first = self.order[0]
        mean = float(np.mean([self.scores[at] for at in self.order]))
        said = f"; by {name_of(self.attribution)} no {self._one} stands out: the highest score, of "
        rest = f", is {number(highest / mean)} × the mean of all {len(self.order)}"
        return [Part(said), Part(self._label(first), "token", first), Part(rest)]

    def _named(self, places: Sequence[int], verbs: Verbs) -> list[Part]:
        """The tokens that stand out, and how many come close to them."""
        if self.claims is None:
            tokens = listed([Part(self._label(at), "token", at) for at in places])
            named = [Part(verbs.points_to + plural(self._kind, len(places))), *tokens]
        else:
            named = self.claims.names(places, verbs.points_to)
        if not named or len(self.close) <= MOST_NAMED:
            return named
        others = len(self.close) - len(places)
        many = f"{others} other {self.noun}" if others > 1 else f"another {self._one}"
        comes = "come" if others > 1 else "comes"
        rest = f", though {many} of {len(self.order)} {comes} close"
        return [*named, Part(rest)]

    @property
    def _kind(self) -> str:
        return "patch " if self.noun == "patches" else ""

    @property
    def _one(self) -> str:
        return "patch" if self.noun == "patches" else self.noun[:-1]

    def _tie(self, highest: float) -> list[Part]:
        """That the highest score is no ranking."""
        size = number(highest, ratio=is_ratio(self.attribution))
        method = name_of(self.attribution)
        many = f"{self.tied} of {len(self.order)} {self.noun} tie at {size}"
        parts = [Part(f"; {method} can't tell which {self.noun} matter: {many}")]
        if self.ties != "text":
            first = self.order[0]
            named = Part(self._label(first), "token", first)
            parts += [Part(f" ({self.ties} puts "), named, Part(" first)")]
        return parts

    def _beside(self, named: Sequence[int]) -> list[Part]:
        """Words that speak for the answer or against it, by blanking or by signs of scores."""
        if len(self.order) == 1:
            return []
        if self.claims is not None:
            return self.claims.against(named)
        highest = max(float(self.scores[self.order[0]]), 0.0)
        lowest = min(self.order, key=lambda at: self.scores[at])
        if self.scores[lowest] > -COUNTER * highest or self.scores[lowest] >= 0:
            return []
        name = Part(self._label(lowest), "against", lowest)
        return [Part("; "), name, Part(" pulls the other way")]

    def _label(self, at: int) -> str:
        return self._labels[at]

    @cached_property
    def _labels(self) -> list[str]:
        return word_labels(self.attribution, LONGEST)

    def notes(self, *, full: bool) -> list[str]:
        """Of ties and ratios, in sentences."""
        notes = []
        if self.tied > 1 and full:
            own = None if self.attribution.pooled else self.attribution.query
            name = printable(self.attribution.explained) if own is None else self._label(own)
            source = name if own is None else f"“{name}”"
            notes.append(
                f"{self.tied} of {len(self.order)} {self.noun} have exactly 1, the most that "
                f"{name_of(self.attribution)} can be: the cut lies at {source}, where all that it "
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


def _contrast(of: Attribution) -> str:
    return label(str(of.options["contrast"]), LONGEST)


def _asked_for(of: Attribution, *, always: bool = False) -> str:
    """What the scores are towards, where that is not simply what the model said, or always."""
    said = of.prediction.label if of.prediction else ""
    target, contrast = of.options.get("target"), of.options.get("contrast")
    if contrast is not None:
        named = label(str(said if target is None else target), LONGEST)
        return f"“{named}” rather than “{_contrast(of)}”"
    if target in (None, said):
        return f"“{label(said, LONGEST)}”" if always else ""
    return f"“{label(str(target), LONGEST)}”"
