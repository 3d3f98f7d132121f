"""What one attribution says: what the model predicted, and which words that came from.

`find` makes a `Finding`; terminal, page, notebook, figures and JSON show its words. Its parts say
which of them are tokens, so that each view can set them apart in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attnflow.evaluation.blanking_check import BlankingCheck, read_blank_out
from attnflow.models.outputs import has_label
from attnflow.models.sizes import independent_labels, labels_tokens
from attnflow.records import Attribution, FloatArray
from attnflow.records.arrays import round_scores
from attnflow.records.attribution import at_each
from attnflow.views.wording.labels import LONGEST, clip, isolate, label, printable, word_labels
from attnflow.views.wording.names import MethodInfo, info_of, is_signed, name_of
from attnflow.views.wording.numbers import number
from attnflow.views.wording.verdicts import (
    COUNTER,
    MOST_NAMED,
    Experiment,
    Phrase,
    Role,
    Verdict,
    listed,
    plural,
)

CLOSE = 0.8  # of the highest score: a token that has as much is named, too
FLAT = 1.25  # times the mean: where the highest score is less, no token stands out
NO_LABEL = "none of the labels"  # where labels are independent, and none is likelier than not
LONGEST_SUBJECT = 80  # cells of what a model decides


@dataclass(frozen=True)
class Finding:
    """What an attribution says, in words.

    Attributes:
        parts: The sentence in pieces.
        method: The method that found it.
        name: What it is called on its edges.
        ranked: The tokens of the input, the highest-scored first; ties as ``ties`` says.
        order: The same without the position that is explained, which the residual favours.
        leading: The one of these whose score is the largest, whatever its sign.
        tied: How many of them share the highest score; 1 where it is one token's own.
        ties: What orders tokens that share a score: a method, or ``"text"``.
        notes: What a reader must know of the scores themselves, in sentences.
        alternative: A method that tells such tokens apart; empty where there is no need.
        evidence: What happens to the answer without the words that matter; empty where the model
            was not run without them.
        verdict: What the answer depends on, where the model was run without each word.
        changes: For each token how the answer's probability changes without its word, ``None``
            where that can't be removed; empty where the model was not run without them.
    """

    parts: tuple[Phrase, ...]
    method: str
    name: str
    ranked: tuple[int, ...]
    order: tuple[int, ...]
    leading: int
    tied: int
    ties: str
    notes: tuple[str, ...] = ()
    alternative: str = ""
    evidence: str = ""
    verdict: Verdict | None = None
    changes: tuple[float | None, ...] = ()

    @property
    def sentence(self) -> str:
        """The sentence as plain text, tokens in quotation marks.

        >>> import attnflow
        >>> find(attnflow.explain("the keys to the cabinet", "verbs", method="rollout")).sentence
        'The number of the verb that comes next: plural; rollout points to “keys”.'
        """
        return "".join(f"“{p.text}”" if p.position is not None else p.text for p in self.parts)


def rank(attribution: Attribution, ties: Attribution | None = None) -> list[int]:
    """Tokens of the input, the highest-scored first; heads are averaged.

    Scores that differ by rounding alone are equal: such tokens are in the order of ``ties``, the
    scores of another method, and then in that of the text.
    """
    scores = merged_scores(attribution)
    seconds = np.zeros_like(scores) if ties is None else merged_scores(ties)
    return _rank(_places(attribution), *round_scores(np.stack([scores, seconds])))


def _rank(places: Sequence[int], values: FloatArray, seconds: FloatArray) -> list[int]:
    return sorted(places, key=lambda at: (-values[at], -seconds[at], at))


def _places(of: Attribution) -> list[int]:
    """The tokens of the input; where all are special, these."""
    return of.ordinary or list(range(len(of.tokens)))


class Common(NamedTuple):
    """What the findings of one attribution have in common, at whatever layer and position."""

    info: MethodInfo
    name: str
    ties: str
    labels: tuple[str, ...]
    places: Sequence[int]

    @classmethod
    def of(cls, attribution: Attribution, ties: Attribution | None) -> Common:
        """That of an attribution, and of the one that orders its ties."""
        info = info_of(attribution)
        return cls(
            info,
            info.name,
            "text" if ties is None else name_of(ties),
            word_labels(attribution, LONGEST),
            _places(attribution),
        )


def find(
    attribution: Attribution,
    ties: Attribution | None = None,
    check: BlankingCheck | None = None,
) -> Finding:
    """What an attribution says.

    ``ties`` is another of the same tokens, which orders ties; ``check`` what blanking says of the
    answer: without it, no word is claimed to speak for the answer or against it.
    """
    common, scores = Common.of(attribution, ties), merged_scores(attribution)
    seconds = np.zeros_like(scores) if ties is None else merged_scores(ties)
    rounded = round_scores(np.stack([scores, seconds]))
    return _find(attribution, check, common, scores, rounded)


def find_each(
    attribution: Attribution,
    ties: Attribution | None,
    places: Sequence[tuple[int, int]],
    check: BlankingCheck | None = None,
) -> list[Finding]:
    """What an attribution says at each of these layers and positions.

    ``check`` is of the layer and the position that it explains.
    """
    common = Common.of(attribution, ties)
    scores = _rows(attribution, places)
    seconds = np.zeros_like(scores) if ties is None else _rows(ties, places)
    rounded = round_scores(np.stack([scores, seconds], axis=1))
    own = (attribution.layer, attribution.query)
    moved = at_each(
        attribution, [(layer, None if query == own[1] else query) for layer, query in places]
    )
    return [
        _find(of, check if place == own else None, common, *rows)
        for of, place, *rows in zip(moved, places, scores, rounded, strict=True)
    ]


def _rows(of: Attribution, places: Sequence[tuple[int, int]]) -> FloatArray:
    """One score per token for each of these layers and positions, heads averaged."""
    layers = [of.layers.index(layer) for layer, _ in places]
    queries = [of.queries.index(query) for _, query in places]
    rows: FloatArray = of.scores[layers, ..., queries, :]
    return rows if rows.ndim == 2 else rows.mean(1)


def _find(
    attribution: Attribution,
    check: BlankingCheck | None,
    common: Common,
    scores: FloatArray,
    both: FloatArray,
) -> Finding:
    """What one row of scores says; ``both`` are these, rounded, and those that order ties."""
    info, rounded = common.info, both[0]
    own = None if attribution.pooled or not (info.layered or info.traced) else attribution.query
    everything = _rank(common.places, *both)
    # The residual connection favours the position that is explained, whatever it says.
    order = [at for at in everything if at != own] or everything
    tied = sum(rounded[at] == rounded[order[0]] for at in order) if scores[order[0]] > 0 else 1
    full = info.full is not None and _is_full(attribution, float(scores[order[0]]), info.full)
    left_out = own if len(order) < len(everything) else None
    check = read_blank_out(attribution) if check is None and not info.layered else check
    words = _Wording(attribution, order, scores, int(tied), common, left_out, check)
    checked = words.experiment
    return Finding(
        parts=tuple(words.sentence()),
        method=attribution.method,
        name=common.name,
        ranked=tuple(everything),
        order=tuple(order),
        leading=max(order, key=lambda at: abs(rounded[at])),
        tied=int(tied),
        ties=common.ties,
        notes=tuple(words.notes(full=full)),
        alternative=info.alternative if tied > MOST_NAMED or words.flat else "",
        evidence="" if checked is None else checked.evidence(words.chosen),
        verdict=words.verdict,
        changes=() if checked is None else checked.changes,
    )


def merged_scores(attribution: Attribution) -> FloatArray:
    """One score per token, heads averaged."""
    values = attribution.values
    merged: FloatArray = values if values.ndim == 1 else values.mean(0)
    return merged


def _is_full(attribution: Attribution, score: float, full: float) -> bool:
    """Whether a score is the highest there can be; ratios and shares have no such limit."""
    changed = is_ratio(attribution) or attribution.options.get("normalize")
    return not changed and abs(score - full) < 1e-9


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


class _Verbs(NamedTuple):
    """The words between what is accounted for and the tokens.

    ``because`` claims that these speak for the answer; empty where that is not the question.
    """

    because: str
    points_to: str


@dataclass(frozen=True)
class _Wording:
    """The words for one attribution.

    ``own`` is the explained position where it is left out of the ``order``; ``check`` is what the
    model predicts without each word, where that is known.
    """

    attribution: Attribution
    order: Sequence[int]
    scores: FloatArray
    tied: int
    common: Common
    own: int | None = None
    check: BlankingCheck | None = None

    @cached_property
    def experiment(self) -> Experiment | None:
        """What the answer depends on; ``None`` where that was not tried, or is not the question."""
        if self.check is None or not self._start[1].because:
            return None
        return Experiment(self.check, self.order, self.common.labels.__getitem__, self._kind)

    @cached_property
    def verdict(self) -> Verdict | None:
        """What the experiment says, if there is one."""
        return None if self.experiment is None else self.experiment.decide(self.chosen)

    def sentence(self) -> list[Phrase]:
        """All parts, with a full stop."""
        start, verbs = self._start
        if len(self.order) == 1:
            return [*start, *self._only(), Phrase(".")]
        named = self.chosen
        if self._highest <= 0:
            reason = self._none_above()
            named = [each.position for each in reason if each.position is not None]
        elif self.tied > MOST_NAMED:
            reason = self._tie()
        elif self.flat:
            reason = self._even()
        else:
            reason = self._named(verbs)
        lead = []
        if self.experiment is not None and self.verdict is not None:
            lead = self.experiment.lead(self.verdict, verbs.because)
        return [*start, *lead, *reason, *self._beside(named), Phrase(".")]

    @cached_property
    def _start(self) -> tuple[list[Phrase], _Verbs]:
        """What is accounted for, and the words between it and the tokens."""
        of, info = self.attribution, self.common.info
        asked = of.options.get("query") not in (None, "all")
        here = of.prediction is not None and of.prediction.position in (None, of.query)
        decided = of.layer == of.depth and here and info.reaches_input
        if of.prediction is not None and decided and not (asked and _is_label(of)):
            model = of.statistics.get("model")
            about = subject(model)
            independent = independent_labels(model)
            none = independent and not has_label(of.prediction.probability)
            predicted = Phrase(NO_LABEL if none else label(of.prediction.label, LONGEST), "said")
            start = [Phrase(about), predicted] if about else [predicted]
            if labels_tokens(model):
                start = [self._part(of.query), Phrase(" is "), predicted]
            target = _explained_target(of, always=none)
            if target:  # the model predicts one thing, and the scores are of another
                because = f"; what speaks for {target} is "
                chosen = of.options.get("target") in (None, of.prediction.label)
                if chosen and not independent:  # an input may have both of two such labels
                    because = f" rather than “{_contrast(of)}”, because of "
                return start, _Verbs(because, f"; for {target}, {self.common.name} points to ")
            return start, _Verbs(", because of ", f"; {self.common.name} points to ")
        where = f" at layer {of.layer} of {of.depth}" if info.layered else ""
        verb = " comes most from " if info.reaches_input else " attends most to "
        if of.pooled:
            return [Phrase(isolate(printable(of.explained))), Phrase(where)], _Verbs("", verb)
        shown = Phrase(isolate(self.common.labels[of.query]), "token", of.query)
        return [shown, Phrase(where)], _Verbs("", verb)

    @property
    def _highest(self) -> float:
        return float(self.scores[self.order[0]])

    @property
    def _mean(self) -> float:
        return float(np.mean([self.scores[at] for at in self.order]))

    @property
    def _close(self) -> list[int]:
        """The tokens whose scores come close to the highest, that one included."""
        return [at for at in self.order if self.scores[at] >= CLOSE * self.scores[self.order[0]]]

    @property
    def flat(self) -> bool:
        """Whether scores are so even that the highest says nothing."""
        return len(self.order) > 1 and 0 < self._highest < FLAT * self._mean

    @cached_property
    def chosen(self) -> list[int]:
        """The tokens that stand out, one of each word; none where the scores single none out."""
        if self.tied > MOST_NAMED or self.flat or not self._highest > 0:
            return []
        close = self._close
        few = close if len(close) <= MOST_NAMED else close[: self.tied]
        return list({self.common.labels[at]: at for at in reversed(few)}.values())[::-1]

    def _only(self) -> list[Phrase]:
        """There is nothing to choose from."""
        other = "" if self.own is None else "other "
        return [
            Phrase("; "),
            self._part(self.order[0]),
            Phrase(f" is the only {other}{self._one}"),
        ]

    def _none_above(self) -> list[Phrase]:
        """That no score is above 0; of signed ones, which is the lowest."""
        of = self.attribution
        lowest = min(self.order, key=lambda at: self.scores[at])
        if not is_signed(of) or self.scores[lowest] >= 0:
            return [Phrase(f"; by {self.common.name} no {self._one} scores above 0")]
        target = _explained_target(of) or "it"
        none = f"; by {self.common.name} no {self._one} speaks for {target}"
        return [Phrase(f"{none}, and most against it is "), self._part(lowest, "against")]

    def _even(self) -> list[Phrase]:
        """That no token stands out, and whose score is the highest all the same."""
        beside = len(self.common.places) < len(self.attribution.tokens)
        aside = "special tokens aside, " if beside and not self._kind else ""
        start = f"; by {self.common.name} no {self._one} stands out: {aside}the highest score, of "
        rest = f", is {number(self._highest / self._mean)} × the mean of all {len(self.order)}"
        return [Phrase(start), self._part(self.order[0]), Phrase(rest)]

    def _named(self, verbs: _Verbs) -> list[Phrase]:
        """The tokens that stand out, and how many come close to them."""
        places = self.chosen
        if self.experiment is not None and self.verdict is not None:
            named = self.experiment.names(self.verdict, places, verbs.points_to)
        else:
            tokens = listed([self._part(at) for at in places])
            named = [
                Phrase(verbs.points_to + (self._kind and plural(self._kind, len(places)))),
                *tokens,
            ]
        if not named or len(self._close) <= MOST_NAMED:
            return named
        others = len(self._close) - len(places)
        many = f"{others} other {self._noun}" if others > 1 else f"another {self._one}"
        comes = "come" if others > 1 else "comes"
        return [*named, Phrase(f", though {many} of {len(self.order)} {comes} close")]

    def _tie(self) -> list[Phrase]:
        """That many tokens share the highest score."""
        size = number(self._highest, ratio=is_ratio(self.attribution))
        many = f"{self.tied} of {len(self.order)} {self._noun} tie at {size}"
        cannot = f"; {self.common.name} can't tell which {self._noun} matter: {many}"
        parts = [Phrase(cannot)]
        if self.common.ties != "text":
            first = self._part(self.order[0])
            parts += [Phrase(f" ({self.common.ties} puts "), first, Phrase(" first)")]
        return parts

    def _beside(self, named: Sequence[int]) -> list[Phrase]:
        """The word that speaks against the answer; without the experiment, only by its score."""
        if self.experiment is not None:
            return self.experiment.against(named)
        lowest = min(self.order, key=lambda at: self.scores[at])
        much = self.scores[lowest] < 0 and self.scores[lowest] <= -COUNTER * max(self._highest, 0.0)
        if not much or lowest in named:
            return []
        return [Phrase("; the highest score against it is that of "), self._part(lowest)]

    def notes(self, *, full: bool) -> list[str]:
        """What a reader must know about ties and ratios, in sentences."""
        of = self.attribution
        notes = []
        if self.tied > 1 and full:
            source = printable(of.explained) if of.pooled else f"“{self.common.labels[of.query]}”"
            notes.append(
                f"{self.tied} of {len(self.order)} {self._noun} have exactly 1, the most that "
                f"{self.common.name} can be: the cut lies at {source}, where all that it "
                "takes in could come from any of them"
            )
        if self.tied > 1 and self.common.ties != "text":
            order = f"are in the order of {self.common.ties}"
            notes.append(f"equal scores of {self.common.name} {order}")
        numbered = [at for at in self.chosen if self.common.labels[at].endswith(f":{at}")]
        if numbered and self._start[1].because:
            name = self.common.labels[numbered[0]]
            notes.append(
                f"“{name}”: the number is its position, from 0, as the word is there more than once"
            )
        if is_ratio(of):
            notes.append("scores are × chance: 1 is what even attention would give")
        if of.options.get("correction") == "sink":
            notes.append(
                f"“{self.common.labels[0]}”, the first token, is left out (correction sink): "
                "decoders put attention there that has nowhere else to go"
            )
        return notes

    def _part(self, at: int, role: Role = "token") -> Phrase:
        return Phrase(self.common.labels[at], role, at)

    @property
    def _noun(self) -> str:
        return noun_of(self.attribution)

    @property
    def _one(self) -> str:
        return "patch" if self._noun == "patches" else self._noun[:-1]

    @property
    def _kind(self) -> str:
        return "patch " if self._noun == "patches" else ""


def _is_label(of: Attribution) -> bool:
    """Whether the prediction is of the whole input, whichever position is explained."""
    return of.prediction is not None and of.prediction.position is None


def _contrast(of: Attribution) -> str:
    return label(str(of.options["contrast"]), LONGEST)


def _explained_target(of: Attribution, *, always: bool = False) -> str:
    """What the scores are towards, where that is not simply the prediction, or always."""
    predicted = of.prediction.label if of.prediction else ""
    target, contrast = of.options.get("target"), of.options.get("contrast")
    if contrast is not None:
        named = label(str(predicted if target is None else target), LONGEST)
        return f"“{named}” rather than “{_contrast(of)}”"
    if target in (None, predicted):
        return f"“{label(predicted, LONGEST)}”" if always else ""
    return f"“{label(str(target), LONGEST)}”"
