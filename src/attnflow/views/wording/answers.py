"""What was found about an answer, in sentences: which part it came from, and if deleting agrees."""

from __future__ import annotations

import numpy as np

from attnflow.records.generation import Generation, Span
from attnflow.records.parts import ANSWER, Part, PartScore
from attnflow.records.rounding import round_scores
from attnflow.views.wording.labels import LONGEST, isolate, label, printable
from attnflow.views.wording.numbers import join_names, number, share

MOST_NAMED = 3
WORTH_NAMING = 0.05  # of all scores


def named_rows(found: Generation, span: Span = None) -> list[PartScore]:
    """The rows of parts that have a name of their own."""
    return [row for row, part in _rows(found, span) if part.named]


def conclude(found: Generation, span: Span = None) -> str:
    """What a reader may conclude, in one or two sentences."""
    rows = named_rows(found, span)
    what = "The answer" if span is None else f"“{label(_text_of(found, span), LONGEST)}”"
    own = sum(row.share or 0.0 for row, part in _rows(found, span) if part.role == ANSWER)
    itself = f"; {share(own)} of all scores are of the answer's own tokens"
    if len(rows) == 1 and found.scores is not None:
        top = f"comes most from {_top_tokens(found, span)}"
        if own < WORTH_NAMING:
            return f"{what} {top}."
        return f"Of the prompt, {what[0].lower()}{what[1:]} {top}{itself}."
    scores = round_scores(np.array([row.score for row in rows]))
    leading = [row for row, score in zip(rows, scores, strict=True) if score == scores.max()]
    if scores.max() <= 0:
        first = f"{what}: no part of the prompt has a score above 0"
    elif len(leading) > 1:
        names = join_names([_name(row) for row in leading[:MOST_NAMED]])
        more = f" and {len(leading) - MOST_NAMED} more" if len(leading) > MOST_NAMED else ""
        first = f"{what}: {found.method} can't tell {names}{more} apart, which have the same score"
    else:
        first = f"{what} comes most from {_name(leading[0])}{_size(found, leading[0])}"
        if own >= WORTH_NAMING:
            first = f"Of the prompt's parts, {first[0].lower()}{first[1:]}{itself}"
    return f"{first}{_checked(rows, leading)}."


def _rows(found: Generation, span: Span) -> list[tuple[PartScore, Part]]:
    return list(zip(found.table(span), found.parts, strict=True))


def _checked(rows: list[PartScore], leading: list[PartScore]) -> str:
    """What deleting parts says to it."""
    drops = [row.drop for row in rows if row.drop is not None]
    if not drops:
        return ""
    hurting = max((row for row in rows if row.drop is not None), key=lambda row: row.drop or 0.0)
    size = number(hurting.drop or 0.0)
    if (hurting.drop or 0.0) <= 0:
        return "; but deleting any one part makes the answer no less likely"
    if len(leading) == 1 and hurting == leading[0]:
        return f"; deleting {_name(hurting)} hurts the answer most, too (log-probability −{size})"
    return f"; but deleting {_name(hurting)} hurts it most (log-probability −{size})"


def _name(row: PartScore) -> str:
    return f"“{label(row.name, LONGEST)}”"


def _size(found: Generation, row: PartScore) -> str:
    if found.ratios:
        return f" ({number(row.score, ratio=True)} chance)"
    return "" if row.share is None else f" ({share(row.share)} of all scores)"


def _text_of(found: Generation, span: Span) -> str:
    if isinstance(span, str):
        return span
    return " ".join(found.piece_texts[row] for row in found.rows(span))


def _top_tokens(found: Generation, span: Span) -> str:
    """The prompt's tokens with the highest scores."""
    values = found.mean(span).values
    words = found.word_ids or (0,) * len(found.tokens)
    (part,) = found.named
    places = [at for at in part.positions if words[at] is not None] or list(part.positions)
    best = sorted(places, key=lambda at: -values[at])
    # A word that occurs twice is named once.
    names = list(dict.fromkeys(isolate(printable(found.tokens[at])) for at in best))
    return join_names([f"“{name}”" for name in names[:MOST_NAMED]])
