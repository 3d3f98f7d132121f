"""Cutting an answer into thoughts and a conclusion.

The pieces cover the answer without gaps or overlaps, and white space belongs to the piece before
it, as in `attnflow.io.units`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

from attnflow.errors import InputError, shown
from attnflow.io.units import Span, split_units

Cut = Literal["auto", "numbers", "paragraphs", "sentences"]
SectionKind = Literal["thought", "mark", "conclusion"]

NAMES = "think|thinking|thought|thoughts|reasoning|reflection"
OPEN = re.compile(rf"<(?:{NAMES})>|\[THINK\]", re.IGNORECASE)
CLOSE = re.compile(rf"</(?:{NAMES})>|\[/THINK\]", re.IGNORECASE)
MARK = re.compile(rf"{OPEN.pattern}|{CLOSE.pattern}", re.IGNORECASE)
NUMBERED = re.compile(
    r"^[ \t]*(?:\*\*|__|#{1,6}[ \t]+)?(?:step[ \t]+\d{1,3}\b|\(?\d{1,3}[.):](?=[ \t*]))",
    re.IGNORECASE | re.MULTILINE,
)
NEXT_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*(?=\S)")
NEXT_LINE = re.compile(r"\n\s*(?=\S)")
ENOUGH = 3  # paragraphs; fewer are cut into sentences


class Section(NamedTuple):
    """A piece of an answer: what it is, and where it starts and ends."""

    kind: SectionKind
    start: int
    end: int


def split_thoughts(
    answer: str, by: Cut | str = "auto", conclusion: str | None = None
) -> tuple[Section, ...]:
    """The thoughts of an answer, the marks around them, and its conclusion.

    The conclusion is what follows ``</think>``, or the last piece; or it begins where the text
    ``conclusion`` is last found, and what leads to it in its sentence counts as a mark.

    Examples:
        >>> answer = "<think>It is 3 + 4. That makes 7.</think>Seven."
        >>> for kind, start, end in split_thoughts(answer):
        ...     print(kind, repr(answer[start:end]))
        mark '<think>'
        thought 'It is 3 + 4. '
        thought 'That makes 7.'
        mark '</think>'
        conclusion 'Seven.'
    """
    if by not in get_args(Cut):
        allowed = ", ".join(map(repr, get_args(Cut)))
        msg = f"by={shown(by)} is unknown; allowed: {allowed}"
        raise InputError(msg)
    end = _conclusion_start(answer, conclusion)
    before = len(answer) if end is None else _lead_start(answer, end)
    pieces = list(_pieces(answer[:before], by))
    if end is not None:
        pieces += [Section("mark", before, end)] if before < end else []
        pieces.append(Section("conclusion", end, len(answer)))
    elif pieces:
        *pieces, last = pieces
        pieces.append(Section("conclusion", last.start, last.end))
    if not any(each.kind == "thought" for each in pieces):
        msg = (
            f"the answer has no thoughts before its conclusion: {shown(answer)}; they stand in "
            "<think>…</think>, or are paragraphs or sentences (by=), and conclusion= says where "
            "they end"
        )
        raise InputError(msg)
    return tuple(pieces)


def _conclusion_start(answer: str, conclusion: str | None) -> int | None:
    """Where the conclusion starts; ``None`` where that is its last piece, whichever that is."""
    if conclusion is not None:
        given = conclusion.strip() if isinstance(conclusion, str) else ""
        start = answer.rfind(given) if given else -1
        if start < 0:
            msg = f"conclusion={shown(conclusion)} is not in the answer: {shown(answer)}"
            raise InputError(msg)
        return start
    closed = [each.end() for each in CLOSE.finditer(answer)]
    if closed and answer[closed[-1] :].strip():
        return closed[-1]
    if closed or OPEN.search(answer):
        msg = (
            f"nothing follows the thoughts of this answer: {shown(answer)}; let the model write "
            "more (generate=), or say by conclusion= where the conclusion begins"
        )
        raise InputError(msg)
    return None


def _lead_start(answer: str, end: int) -> int:
    """Where the sentence starts in which a conclusion begins: what leads to it is no thought."""
    starts = [start for start, _ in split_units(answer, "sentences")]
    starts += [each.end() for each in MARK.finditer(answer)]
    start = max(at for at in starts if at <= end)
    return start if answer[start:end].strip() else end


def _pieces(text: str, by: Cut | str) -> Iterator[Section]:
    """Marks, and the thoughts between them."""
    at = 0
    for start, end in [*(each.span() for each in MARK.finditer(text)), (len(text), len(text))]:
        if text[at:start].strip():
            thoughts = text[at:start]
            for first, last in _thoughts(thoughts, by):
                yield Section("thought", at + first, at + last)
            at = start
        if at < end:  # blanks between two marks belong to the second
            yield Section("mark", at, end)
        at = end


def _thoughts(text: str, by: Cut | str) -> tuple[Span, ...]:
    if by in ("auto", "numbers"):
        starts = _numbered(text)
        if len(starts) > 1:
            return _between(starts, text)
        if by == "numbers":
            msg = f"by='numbers': no numbered steps are in {shown(text)}; leave it out"
            raise InputError(msg)
    if by != "sentences":
        found = split_units(text, "paragraphs")
        if by == "paragraphs" or len(found) >= ENOUGH:
            return found
    return split_units(text, "sentences")


def _numbered(text: str) -> list[int]:
    """Where numbered steps start, and what follows the last of them."""
    starts = [each.start() for each in NUMBERED.finditer(text)]
    if len(starts) < 2:
        return []
    lines = [text[first:last].strip() for first, last in _between(starts, text)[:-1]]
    # Where every step is one line, so is the last.
    ends = NEXT_PARAGRAPH if any("\n" in each for each in lines) else NEXT_LINE
    after = ends.search(text, starts[-1])
    return [*starts, *([after.end()] if after else [])]


def _between(starts: list[int], text: str) -> tuple[Span, ...]:
    """From each start to the next; what stands before the first is a piece where it is a text."""
    first = [0, *starts] if text[: starts[0]].strip() else [0, *starts[1:]]
    return tuple(zip(first, [*first[1:], len(text)], strict=True))
