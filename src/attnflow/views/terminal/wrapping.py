"""Lines that break between parts and never inside one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text


def wrap_parts(parts: Sequence[Text], width: int) -> Text:
    """The parts one after the other, in as many lines of that many cells as they need."""
    return Text("\n").join(Text.assemble(*line) for line in _lines(parts, width))


def _lines(parts: Sequence[Text], width: int) -> Iterator[list[Text]]:
    line: list[Text] = []
    room = width
    for part in parts:
        if line and cell_len(part.plain) > room:
            yield line
            line, room = [], width
        line.append(part)
        room -= cell_len(part.plain)
    yield line
