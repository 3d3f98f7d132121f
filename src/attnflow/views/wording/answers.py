"""What was found about an answer, in sentences: which sources it rests on, and what scores say.

One rule, `judge`, makes what the terminal, the page, figures and JSON say. Sources are compared
with each other, not with the question; where there are none, all parts that have a name. What
deletions measure comes before what scores claim.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from attnflow.io.units import cut_spans
from attnflow.records.arrays import round_scores
from attnflow.records.citations import LEAST as CITED
from attnflow.records.generation import Generation, Span
from attnflow.records.parts import ANSWER, INSTRUCTIONS, QUESTION, SOURCE, Part, PartScore
from attnflow.views.wording.labels import LONGEST, isolate, label, printable
from attnflow.views.wording.names import unit_of
from attnflow.views.wording.numbers import join_names, number, percent, share

MOST_NAMED = 3
LONGEST_QUOTE = 60  # cells
# Names that don't say what a part holds: units that were cut, and messages by their roles.
UNTOLD = re.compile(r".*, (sentence|paragraph) \d+|(user|assistant|model|tool|function)( .*)?")
WORTH_NAMING = 0.05  # of all scores
# What is a small change of an answer's log-probability, and what decides: half and a quarter as
# likely; or, of a longer answer, each token nine and eight tenths as likely.
SMALL, SMALL_EACH = math.log(2), 0.1
DECIDES, DECIDES_EACH = math.log(4), 0.2
LEAST = 0.0001  # probability that is told without a power of ten
LEAST_BOTH = 1e-7  # the same of two that are compared
ONE_PERCENT = 0.0095  # what is told as 1 %
MOST_LOG = 300.0
MOST_DIGITS = 9  # of a number that is written out
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
BESIDE = 0.25  # of the largest drop: a source with as much decides, too
HALF = 0.5  # of it: a source with more is no wrong one to point to; of all: several add up to it
WHOLE = 0.05  # a less likely answer is told by its typical token
TYPICAL, MEANS = "the typical probability of its tokens", " (their geometric mean)"
UNTESTED = "No part was deleted to test this; --deletions (deletions=True)"
COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Judgement:
    """What may be concluded about an answer, or about a span of it.

    Attributes:
        text: A few sentences. Where work was interrupted they begin with what was finished.
        rests_on: The parts without which it would be much less likely, most of all first; empty
            where there is none, ``None`` where nothing was deleted, or only the answer's
            beginning is explained.
        together: Whether it is much less likely without all sources only: they stand in for one
            another, or each of them adds a little.
    """

    text: str
    rests_on: tuple[str, ...] | None
    together: bool = False


def conclude(found: Generation, span: Span = None) -> str:
    """What a reader may conclude, in a few sentences."""
    return judge(found, span).text


def judge(found: Generation, span: Span = None) -> Judgement:
    """What may be concluded about an answer: by deletions where there are any, else by scores."""
    judged = _judge(found, span)
    text = judged.text.replace(TYPICAL, f"{TYPICAL}{MEANS}", 1)
    if span is None and not found.complete:
        text = f"{_finished(found)}: {text[0].lower()}{text[1:]}"
        return replace(judged, text=text, rests_on=None)
    return replace(judged, text=text)


def _judge(found: Generation, span: Span) -> Judgement:
    case = _case(found, span)
    if len(case.named) == 1 and found.scores is not None:
        return Judgement(case.ended(case.by_tokens()), None)
    if any(row.drop is None for row in case.rivals):
        return Judgement(f"{case.ended(case.by_scores())} {case.untested()}", None)
    deciding = case.deciding()
    if deciding:
        first, together = case.rests(deciding), False
    else:
        first, together = case.rests_on_none()
        against = case.against(case.rivals)
        first = f"{first}. {against}" if against else first
    asked = "" if deciding or together or case.all_parts else case.question()
    said = [first, asked, "" if case.all_parts else case.instructions(), case.other()]
    text = " ".join(f"{each}." for each in said if each)
    return Judgement(text, tuple(row.name for row in deciding), together)


def _finished(found: Generation) -> str:
    """What an answer's verdict is about where work was interrupted: "Of the first sentence"."""
    count, each = len(found.pieces), str(found.options.get("each", "tokens"))
    first = each.removesuffix("s") if count == 1 else f"{_count(count)} {each}"
    every = found.statistics.get("all_pieces")
    of = "" if every is None else f"{count} of {every}; "
    return f"Of the first {first} ({of}interrupted)"


def _rows(found: Generation, span: Span) -> list[tuple[PartScore, Part]]:
    return list(zip(found.table(span), found.parts, strict=True))


def odds_of(found: Generation, span: Span = None) -> Odds:
    """How likely an answer is, or a span of it."""
    logs = found.log_probabilities[found.numbers(found.rows(span))]
    other = found.contrast
    if other is not None:
        count = max(len(logs), len(other.tokens)) - other.shared
        return Margin(float(logs.sum()) - other.log_probability, count)
    return Odds(float(logs.sum()), len(logs))


def _case(found: Generation, span: Span) -> _Case:
    rows = _rows(found, span)
    named = [(row, part) for row, part in rows if part.named]
    sources = [row for row, part in named if part.role == SOURCE]
    joint, citable = None, False
    if found.without_sources is not None:
        numbers = found.numbers(found.rows(span))
        joint = float(found.without_sources[numbers].sum())
        joint -= found.contrast.without_sources or 0.0 if found.contrast is not None else 0.0
        each = _by_sentences(found, numbers) if found.contrast is None else [joint]
        citable = max(each) >= CITED
    return _Case(
        found=found,
        span=span,
        subject=_subject(found, span),
        named=[row for row, _ in named],
        rivals=sources or [row for row, _ in named],
        all_parts=not sources,
        instructing=[row for row, part in named if part.role == INSTRUCTIONS],
        own=sum(row.share or 0.0 for row, part in rows if part.role == ANSWER),
        asking=[row for row, part in named if part.role == QUESTION],
        odds=odds_of(found, span),
        joint=joint,
        citable=citable,
    )


def _by_sentences(found: Generation, numbers: Sequence[int]) -> list[float]:
    """What these tokens lose without all sources, by the answer's sentences, as `cite` has it."""
    drops, inside = np.asarray(found.without_sources), set(numbers)
    pieces: Sequence[tuple[int, int]] = [(0, len(drops))]
    if found.spans is not None:
        spans = [found.spans[at] for at in found.answer]
        pieces = cut_spans(spans, found.answer_text, "sentences")
    return [float(drops[sorted(inside & set(range(*piece)))].sum()) for piece in pieces]


@dataclass(frozen=True)
class Odds:
    """How likely an answer is, and how its change is told.

    Attributes:
        log_probability: Of all its tokens together.
        count: How many tokens it has.
    """

    log_probability: float
    count: int

    @property
    def several(self) -> bool:
        """Whether what is told is a plural."""
        return False

    @property
    def small(self) -> float:
        """The least change of the log-probability that is worth a word."""
        return max(SMALL, SMALL_EACH * self.count)

    @property
    def decides(self) -> float:
        """The least drop of the log-probability by which an answer rests on something."""
        return max(DECIDES, DECIDES_EACH * self.count)

    @property
    def by_token(self) -> bool:
        """Whether it is so unlikely as a whole that its mean token is told instead."""
        return self.count > 1 and math.exp(self.log_probability) < WHOLE

    @property
    def what(self) -> str:
        """What is told."""
        return TYPICAL if self.by_token else "its probability"

    def told(self, drop: float = 0.0) -> str:
        """The probability after a drop; of the mean token, the geometric mean."""
        log = (self.log_probability - drop) / (self.count if self.by_token else 1)
        value = math.exp(log)
        if value < LEAST:
            return one_in(-log) if drop == 0 or self.tiny else f"<{100 * LEAST:g} %"
        return percent(value) if value < ONE_PERCENT else share(value)

    @property
    def tiny(self) -> bool:
        """Whether it is too small for two digits after the decimal point already."""
        return self.log_probability / (self.count if self.by_token else 1) < math.log(LEAST)

    def change(self, drop: float) -> str:
        """What becomes of it: "its probability falls from 38 % to 1 %"."""
        before, after, s = self.told(), self.told(drop), "" if self.several else "s"
        if before == after:
            return f"{self.what} stay{s} at {before}"
        return f"{self.what} {'fall' if drop > 0 else 'rise'}{s} from {before} to {after}"

    def next_change(self, drop: float, before: float) -> str:
        """What becomes of it in another case, after what a drop ``before`` does: "to 1 %"."""
        now, then = self.told(drop), self.told(before)
        it, s = ("they", "") if self.several else ("it", "s")
        if now == self.told():
            return f"{it} stay{s} at {now}"
        if (drop > 0) == (before > 0) and then != self.told():
            return f"to {now}"
        return f"{it} {'fall' if drop > 0 else 'rise'}{s} to {now}"


@dataclass(frozen=True)
class Margin(Odds):
    """How much likelier an answer is than another one; ``log_probability`` is the difference."""

    what = "its odds against the other"
    several = True

    @property
    def by_token(self) -> bool:
        """Odds are those of whole answers."""
        return False

    def told(self, drop: float = 0.0) -> str:
        """The odds after a drop, as of a bet.

        >>> Margin(math.log(4), 2).told(), Margin(0.0, 2).told(1.0), Margin(0.0, 2).told(33.4)
        ('4.0:1', '1:2.7', '1:10¹⁴')
        """
        value = self.log_probability - drop
        size = math.exp(min(abs(value), MOST_LOG))
        one = f"{size:.1f}" if size < 10 else f"{size:.0f}" if size < 1e4 else _large(abs(value))
        return f"{one}:1" if value >= 0 else f"1:{one}"


def one_in(log: float) -> str:
    """A small probability, whose logarithm is given without its sign, as a chance.

    >>> one_in(math.log(70_900)), one_in(math.log(10) * 400.5)
    ('1 in 71,000', '1 in 10⁴⁰⁰')
    """
    return f"1 in {_large(log)}"


def _large(log: float) -> str:
    """A number in two digits, whose logarithm is given; without them above a thousand million."""
    digits = int(log / math.log(10))
    if digits >= MOST_DIGITS:
        return f"10{str(digits).translate(RAISED)}"
    size = 10 ** (digits - 1)
    return f"{round(math.exp(log) / size) * size:,}"


def _both(first: float, second: float) -> tuple[str, str]:
    """Two probabilities, by their logarithms, in one unit: percent, unless one is next to nothing.

    >>> _both(-math.log(56_000), math.log(0.0062)), _both(math.log(0.5), math.log(0.042))
    (('0.0018 %', '0.62 %'), ('50 %', '4 %'))
    """
    if not LEAST_BOTH <= math.exp(min(first, second)) < LEAST:
        return Odds(first, 1).told(), Odds(second, 1).told()
    return _two_digits(100 * math.exp(first)), _two_digits(100 * math.exp(second))


def _two_digits(size: float) -> str:
    return f"{size:.{max(0, 1 - math.floor(math.log10(size)))}f} %"


@dataclass(frozen=True)
class _Case:
    """What is known of an answer, or of a span of it.

    Attributes:
        found: The result.
        span: The span.
        subject: What it is called in sentences.
        named: The rows of all parts with a name.
        rivals: The rows of those that are compared.
        all_parts: Whether these are all parts, since none is a source.
        instructing: The rows of instructions.
        asking: The rows of questions.
        own: The share of all scores that the answer's own tokens have.
        odds: How likely the span is.
        joint: By how much its log-probability falls without all sources, where that was measured.
        citable: Whether some sentence loses enough by that for `cite` to name sources of it.
    """

    found: Generation
    span: Span
    subject: str
    named: Sequence[PartScore]
    rivals: Sequence[PartScore]
    all_parts: bool
    instructing: Sequence[PartScore]
    asking: Sequence[PartScore]
    own: float
    odds: Odds
    joint: float | None
    citable: bool

    @property
    def kind(self) -> str:
        """What is compared."""
        return "part of the prompt" if self.all_parts else "source"

    @property
    def leading(self) -> list[PartScore]:
        """Those with the highest score, if that is above 0."""
        scores = round_scores(np.array([row.score for row in self.rivals]))
        best = scores.max()
        pairs = zip(self.rivals, scores, strict=True)
        return [row for row, score in pairs if score == best] if best > 0 else []

    # -- By deletions

    def deciding(self) -> list[PartScore]:
        """Those without which the span is much less likely, the most important first."""
        order = sorted(self.rivals, key=lambda row: -_drop(row))
        least = max(self.odds.decides, BESIDE * _drop(order[0]))
        return [row for row in order if _drop(row) >= least]

    def rests(self, deciding: Sequence[PartScore]) -> str:
        """That it rests on some, what becomes of it without each, and what the others matter."""
        top, shown = deciding[0], deciding[:MOST_NAMED]
        names = join_names([f"{_name(row)}{self.quote(row)}" for row in shown])
        more = len(deciding) - len(shown)
        also = f" and {_count(more)} more" if more else ""
        misled = [row for row in self.leading if row not in deciding]
        if len(self.leading) > 1 or (misled and _drop(misled[0]) > HALF * _drop(top)):
            misled = []
        # What a person would do better not to believe comes first.
        start = ""
        if misled:
            start = f"The scores point to {_name(misled[0])}{self.quote(misled[0])}, but "
        subject = f"{self.subject[0].lower()}{self.subject[1:]}" if start else self.subject
        without = "it" if len(shown) == 1 and not start else _name(top)
        said = f"{start}{subject} rests on {names}{also}: without {without} "
        said += self.odds.change(_drop(top))
        for row in [*shown[1:], *misled]:
            said += f", without {_name(row)} {self.odds.next_change(_drop(row), _drop(top))}"
        if BESIDE * (self.joint or 0.0) > _drop(top):  # nothing else to be told of the others
            it = "it" if len(deciding) == 1 else "them"
            said += f", without all sources {self.odds.next_change(self.joint or 0.0, _drop(top))}"
            said += f": others stand in for {it}"
        else:
            told = [*deciding, *misled]
            said += self._others([row for row in self.rivals if row not in told])
        against = self.against([row for row in self.rivals if row not in misled])
        return f"{said}. {against}" if against else said

    def _others(self, others: Sequence[PartScore]) -> str:
        """How much the others matter."""
        less = [row for row in others if _drop(row) >= self.odds.small]
        little = [row for row in others if row not in less and not self._pulls(row)]
        said = ""
        if less:
            names = [_name(row) for row in less[:MOST_NAMED]]
            names += [f"{_count(len(less) - MOST_NAMED)} more"][: len(less) > MOST_NAMED]
            said += f"; {join_names(names)} {'matters' if len(less) == 1 else 'matter'} less"
        if len(little) == 1:
            said += f"; {_name(little[0])} hardly matters"
        elif little:
            count = _count(len(little))
            rest = f"{count} others" if any(map(self._pulls, others)) else f"the other {count}"
            said += f"; {rest} hardly matter"
        return said

    def quote(self, row: PartScore) -> str:
        """The beginning of a part, in brackets, whose name doesn't say what it holds."""
        spans = self.found.spans
        if spans is None or not UNTOLD.fullmatch(row.name):
            return ""
        (places,) = (each.positions for each in self.found.parts if each.name == row.name)
        last = next(at for at in places if at + 1 not in places)  # other parts may be inside
        text = self.found.text[spans[places[0]][0] : spans[last][1]]
        return f" (“{label(text.strip(), LONGEST_QUOTE)}”)"

    def rests_on_none(self) -> tuple[str, bool]:
        """That none of them alone decides; and whether all of them together do."""
        top = max(self.rivals, key=_drop)
        if len(self.rivals) == 1:
            said = f"{self.subject} does not rest on {_name(top)}: without it "
            return f"{said}{self.odds.change(_drop(top))}{self._knew()}", False
        if self.joint is None:
            said = (
                f"{self.subject} rests on no one {self.kind}: even without {_name(top)}"
                f"{self.quote(top)}, the one "
            )
            return f"{said}that matters most, {self.odds.change(_drop(top))}", False
        without = f"without all of them {self.odds.change(self.joint)}"
        one = f"{_name(top)}{self.quote(top)}, the one that matters most"
        if self.joint >= self.odds.decides:
            least = self.odds.next_change(_drop(top), self.joint)
            least = f"only {least}" if least.startswith("to ") else least
            alone = "one source alone" if self.citable else "source clearly"
            said = f"{self.subject} rests on no {alone}: {without}, without {one}, {least}"
            if not self.citable:
                return said, False
            # What each does alone may add up to what all do; else another one can do it, too.
            apart = sum(max(0.0, _drop(row)) for row in self.rivals) >= HALF * self.joint
            if apart:
                return f"{said}. Each of them adds a little", True
            return f"{said}. They stand in for one another: attnflow cite tells which", True
        many = f"the {_count(len(self.rivals))} sources"
        if max(self.joint, _drop(top)) < self.odds.small:
            none = "neither" if len(self.rivals) == 2 else "none"
            return f"{self.subject} rests on {none} of {many}: {without}{self._knew()}", False
        said = f"{self.subject} rests little on {many}: without {one}, "
        said += f"{self.odds.change(_drop(top))}, without all of them "
        return f"{said}{self.odds.next_change(self.joint, _drop(top))}", False

    def _knew(self) -> str:
        """Where else it may come from; what begins an answer says nothing of all of it."""
        if self.span is None and not self.found.complete:
            return ""
        return ". The model knew it, made it up, or has it from the rest of the prompt"

    def _pulls(self, row: PartScore) -> bool:
        return -_drop(row) >= self.odds.small

    def against(self, among: Sequence[PartScore]) -> str:
        """What makes it less likely."""
        rows = sorted(filter(self._pulls, among), key=_drop)
        if not rows:
            return ""
        more = len(rows) - 1
        too = f", and without {_count(more)} other{'s'[: more > 1]} it rises, too" if more else ""
        return f"Without {_name(rows[0])} {self.odds.change(_drop(rows[0]))}{too}"

    def question(self) -> str:
        """That the question decides, where it does."""
        top = max(self.asking, key=_drop, default=None)
        if top is None or _drop(top) < self.odds.decides:
            return ""
        return f"The question decides: without {_name(top)} {self.odds.change(_drop(top))}"

    def instructions(self) -> str:
        """How much rests on the instructions."""
        rows = [row for row in self.instructing if row.drop is not None]
        if not rows:
            return ""
        top = max(rows, key=_drop)
        if abs(_drop(top)) < self.odds.small:
            return "The instructions hardly matter"
        name = f" ({_name(top)})"
        return f"Without the instructions{name} {self.odds.change(_drop(top))}"

    def other(self) -> str:
        """Why not the other answer: how likely it was."""
        if self.found.contrast is None:
            return ""
        second = self.found.contrast
        first = float(self.found.log_probabilities.sum())
        theirs, ours = _both(second.log_probability, first)
        return (
            f"The model gives {_quoted(second.text)} a probability of {theirs}, and "
            f"{_quoted(self.found.answer_text)} one of {ours}"
        )

    def ended(self, said: str) -> str:
        """A sentence, and how likely the other answer was."""
        return " ".join(f"{each}." for each in (said, self.other()) if each)

    # -- By scores

    def by_tokens(self) -> str:
        """Of a prompt of one part, which of its tokens it comes from."""
        top = f"comes most from {_top_tokens(self.found, self.span)}"
        if self.own < WORTH_NAMING:
            return f"{self.subject} {top}"
        lower = f"{self.subject[0].lower()}{self.subject[1:]}"
        return f"Of the prompt, {lower} {top}{self._itself()}"

    def by_scores(self) -> str:
        """Which source it comes from, if scores are to be believed."""
        leading = self.leading
        if not leading:
            return f"{self.subject}: no {self.kind} has a score above 0"
        if len(leading) > 1:
            names = join_names([_name(row) for row in leading[:MOST_NAMED]])
            rest = len(leading) - MOST_NAMED
            more = f" and {rest} more" if rest > 0 else ""
            method = self.found.method
            return f"{self.subject}: {method} can't tell {names}{more} apart, which score the same"
        lower = f"{self.subject[0].lower()}{self.subject[1:]}"
        own = self._itself() if self.own >= WORTH_NAMING else ""
        first = leading[0]
        said = f"comes most from {_name(first)}{self.quote(first)}{self._size(first)}"
        if len(self.rivals) == 1:
            return f"{self.subject} has {said.removeprefix('comes most from ')} as its only source"
        told = [row for row in self.instructing if row not in self.rivals]
        shown = told[:1] if told and told[0].share is not None else []
        ordered = "".join(f"; {share(row.share or 0.0)} are of the instructions" for row in shown)
        of = "prompt's parts" if self.all_parts else "sources"
        return f"Of the {of}, {lower} {said}{ordered}{own}"

    def untested(self) -> str:
        """That scores alone claim this, and how to test it."""
        return f"{UNTESTED}{' does so' if self.all_parts else ' and attnflow cite do so'}."

    def _size(self, row: PartScore) -> str:
        if self.found.ratios:
            return f" ({number(row.score, ratio=True)} chance)"
        if row.share is not None:
            return f" ({share(row.share)} of all scores)"
        unit = unit_of(self.found.method, self.found.options)
        return f" ({number(row.score)} {unit})" if unit else f" (score {number(row.score)})"

    def _itself(self) -> str:
        return f"; {share(self.own)} of all scores are of the answer's own tokens"


def _subject(found: Generation, span: Span) -> str:
    """What a sentence is about: the answer, a span of it, or the answer rather than another one."""
    if found.contrast is not None:
        first, second = found.answer_text, found.contrast.text
        return f"{_quoted(first)} rather than {_quoted(second)}"
    if span is None:
        return "The answer" if found.complete else "This part of the answer"
    return _quoted(_text_of(found, span))


def _quoted(text: str) -> str:
    return f"“{label(text.strip(), LONGEST)}”"


def asked_text(found: Generation) -> str:
    """What a reader knows the prompt by: the question, without documents and a template's marks."""
    if found.spans is None or all(part.role in (QUESTION, ANSWER) for part in found.parts):
        return found.text
    for kind in ((QUESTION,), (SOURCE, INSTRUCTIONS)):
        places = sorted(at for part in found.parts if part.role in kind for at in part.positions)
        runs = [
            [place for _, place in run]
            for _, run in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0])
        ]
        pieces = [found.text[found.spans[run[0]][0] : found.spans[run[-1]][1]] for run in runs]
        kept = [piece.strip() for piece in pieces if piece.strip()]
        if kept:
            return " … ".join(kept)
    return found.text


def _drop(row: PartScore) -> float:
    return row.drop or 0.0


def _count(number: int) -> str:
    return COUNTS[number] if number < len(COUNTS) else str(number)


def _name(row: PartScore) -> str:
    return f"“{label(row.name, LONGEST)}”"


def _text_of(found: Generation, span: Span) -> str:
    if isinstance(span, str):
        return span
    rows = found.rows(span)
    if len(rows) == 1 or found.spans is None or rows != list(range(rows[0], rows[-1] + 1)):
        return " ".join(found.piece_texts[row] for row in rows)
    numbers = found.numbers(rows)
    first, last = (found.spans[found.answer[number]] for number in (numbers[0], numbers[-1]))
    return found.answer_text[first[0] : last[1]].strip() or found.piece_texts[rows[0]]


def _top_tokens(found: Generation, span: Span) -> str:
    """The prompt's tokens with the highest scores."""
    values = found.mean(span).values
    words = found.word_ids or (0,) * len(found.tokens)
    (part,) = found.named
    places = [at for at in part.positions if words[at] is not None] or list(part.positions)
    told = [at for at in places if any(map(str.isalnum, found.tokens[at]))]
    best = sorted(told or places, key=lambda at: -values[at])
    # A word that occurs twice is named once.
    names = list(dict.fromkeys(isolate(printable(found.tokens[at])) for at in best))
    return join_names([f"“{name}”" for name in names[:MOST_NAMED]])
