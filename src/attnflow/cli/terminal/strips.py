"""The tokens of a text in a row, each as strong as its score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from attnflow.cli.terminal import label, paint
from attnflow.records import Attribution

LONGEST = 24


def strip(attribution: Attribution, console: Console, width: int) -> Text:
    """All tokens with their levels, wrapped to the width between tokens."""
    values = attribution.values
    merged = values.mean(0) if values.ndim == 2 else values
    levels = paint.levels(merged, paint.ordinary(attribution))
    chips = [
        _chip(token, float(level), attribution.method, colours=not paint.plain(console))
        for token, level in zip(attribution.tokens, levels, strict=True)
    ]
    return Text("\n").join(Text.assemble(*line) for line in _lines(chips, width))


def _chip(token: str, level: float, method: str, *, colours: bool) -> Text:
    name = label(token, LONGEST)
    if colours:
        return Text(f" {name} ", paint.style(level, method))
    return Text(f"{name}{paint.block(level)} ")


def _lines(chips: Sequence[Text], width: int) -> Iterator[list[Text]]:
    line: list[Text] = []
    room = width
    for chip in chips:
        needed = cell_len(chip.plain.rstrip())
        if line and needed > room:
            yield line
            line, room = [], width
        line.append(chip)
        room -= cell_len(chip.plain)
    yield line
