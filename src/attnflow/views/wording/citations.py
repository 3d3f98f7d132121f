"""Citations in words: markers behind sentences, and a note for each with what was measured."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from attnflow.records.citations import Citation, Citations, CitedSentence, Quote
from attnflow.views.wording.numbers import join_names

NO_SOURCE, NO_SINGLE = "no source", "no single source"
MILLION = 1e6
MOST_NAMED = 3
MARKDOWN = re.compile(r"([\\`*_\[\]<>#|])")


class Noted(NamedTuple):
    """A sentence as it stands in the answer, with the numbers of its citations.

    ``flag`` is what is said in place of numbers, where there are none.
    """

    text: str
    numbers: tuple[int, ...]
    flag: str
    sentence: CitedSentence


def noted_sentences(found: Citations) -> Iterator[Noted]:
    """The sentences in their order; citations are counted from 1."""
    number = 1
    for each in found.sentences:
        numbers = tuple(range(number, number + len(each.citations)))
        flag = "" if numbers else NO_SOURCE if each.drop < found.least else NO_SINGLE
        yield Noted(found.answer[slice(*each.span)], numbers, flag, each)
        number += len(numbers)


def summarize(found: Citations) -> str:
    """How many sentences rest on which sources.

    >>> from attnflow.records.citations import *
    >>> bare = CitedSentence((0, 4), -1.0, 0.2)
    >>> summarize(Citations("Yes.", (bare,), (CitedSource("a", "b"),), "m", "", 3.0, 0.2, 2))
    'the only sentence rests on no source'
    """
    states = [each.flag for each in noted_sentences(found)]
    cited = states.count("")
    times = Counter(at for each in found.sentences for at in each.sources)
    names = [f"“{found.sources[at].name}”" for at in sorted(times)]
    if cited == 1:
        more = len(names) - MOST_NAMED
        on = join_names([*names[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])])
    else:
        counts = [f"{name}: {times[at]}" for name, at in zip(names, sorted(times), strict=True)]
        on = names[0] if len(names) == 1 else f"sources ({', '.join(counts)})"
    parts = []
    if cited:
        parts.append(f"{_sentences(cited, len(states))} on {on}")
    if states.count(NO_SINGLE):
        count = _sentences(states.count(NO_SINGLE), len(states), verb=not parts)
        parts.append(f"{count} on its sources together, and on no single one")
    if states.count(NO_SOURCE):
        parts.append(
            f"{_sentences(states.count(NO_SOURCE), len(states), verb=not parts)} on no source"
        )
    return "; ".join(parts)


def _sentences(count: int, total: int, *, verb: bool = True) -> str:
    if total == 1:
        return "the only sentence rests"
    return f"{count} of {total} sentences rest{'s' * (count == 1)}" if verb else str(count)


def describe(found: Citations, sentence: CitedSentence, citation: Citation) -> str:
    """A citation's sources, what is quoted of them, and what was measured."""
    names = join_names([found.sources[at].name for at in citation.sources], "or")
    count = len(citation.sources)
    quotes = [_quoted(found, each) for each in citation.quotes]
    quoted = join_names(quotes, "and" if count == 1 else "or") if quotes else ""
    enough = "" if count == 1 else f", {'either' if count == 2 else 'any one'} of which is enough"
    gone = "this source" if count == 1 else "both" if count == 2 else "all of them"
    change = _change(sentence, citation.drop)
    if citation.apart:
        gone += " (where the sources that are not cited, which stand in for it, are gone)"
        change = f"log-probability −{citation.drop:.1f}"
    return (
        f"{names}{enough}: {quoted + '. ' if quoted else ''}Without {gone}, the sentence is "
        f"{times(citation.drop)} less likely ({change})."
    )


def legend(found: Citations) -> str:
    """What numbers behind quotes mean; empty where nothing is quoted."""
    if not any(each.quotes for one in found.sentences for each in one.citations):
        return ""
    return (
        "In brackets: the change of the sentence's log-probability without that passage, where "
        "nothing else stands in for it."
    )


def _change(sentence: CitedSentence, drop: float) -> str:
    before = sentence.log_probability
    return f"log-probability {_signed(before)} → {_signed(before - drop)}"


def _signed(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")


def _quoted(found: Citations, quote: Quote) -> str:
    passages = join_names([f"“{' '.join(each.split())}”" for each in found.passages(quote)], "or")
    return f"{passages} ({_signed(-quote.drop)})"


def times(drop: float) -> str:
    """By what factor something is less likely, in two digits.

    >>> times(3), times(7.2), times(11), times(40)
    ('20 times', '1,300 times', '60,000 times', 'over a million times')
    """
    factor = math.exp(min(drop, 50.0))
    if factor >= MILLION:
        return "over a million times"
    digits = 1 - math.floor(math.log10(factor))
    return f"{round(factor, digits):,.{max(digits, 0)}f} times"


def to_text(found: Citations) -> str:
    """The answer with markers, and a line for each of them."""
    answer, notes = [], []
    for each in noted_sentences(found):
        marks = "".join(f"[{number}]" for number in each.numbers) or f"[{each.flag}]"
        answer.append(_behind(each.text, f" {marks}"))
        for number, citation in zip(each.numbers, each.sentence.citations, strict=True):
            notes.append(f"[{number}] {describe(found, each.sentence, citation)}")
    about = [legend(found)] if legend(found) else []
    return "\n".join(
        ["".join(answer).strip() + found.stopped, *([""] if notes else []), *notes, *about]
    )


def to_markdown(found: Citations) -> str:
    """The answer with footnotes; sentences without a source are flagged in brackets."""
    answer, notes = [], []
    for each in noted_sentences(found):
        marks = "".join(f"[^{number}]" for number in each.numbers) or f" *({each.flag})*"
        answer.append(_behind(each.text, marks))
        for number, citation in zip(each.numbers, each.sentence.citations, strict=True):
            notes.append(f"[^{number}]: {_escaped(describe(found, each.sentence, citation))}")
    return "\n\n".join(
        filter(None, ["".join(answer).strip() + found.stopped, *notes, legend(found)])
    )


def _behind(text: str, marks: str) -> str:
    """A sentence with marks behind it, before the blanks that end it."""
    bare = text.rstrip()
    return bare + marks + text[len(bare) :]


def _escaped(text: str) -> str:
    return MARKDOWN.sub(r"\\\1", text)
