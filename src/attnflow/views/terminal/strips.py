"""The tokens of a text in a row, each as strong as its score."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnflow.records import Attribution
from attnflow.views.labels import label
from attnflow.views.methods import is_signed, name_of, signs_note
from attnflow.views.numbers import as_sentence
from attnflow.views.scaling import colour_top, scale_setters
from attnflow.views.terminal import paint
from attnflow.views.terminal.wrapping import wrap_parts

LONGEST = 24


def strips(attributions: Sequence[Attribution], console: Console) -> Group:
    """One strip per method, one below the other, spaced where they have several lines."""
    names = max(len(name_of(item)) for item in attributions) + 1
    rows = [strip(item, console, console.width - names - 2) for item in attributions]
    tables: list[RenderableType] = []
    for item, tokens in zip(attributions, rows, strict=True):
        table = Table.grid(padding=(0, 1, 0, 0))
        table.add_column(width=names, no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_row(Text(name_of(item), paint.ink(item.method)), tokens)
        tables += [Text(""), table] if tables and "\n" in tokens.plain else [table]
    return Group(*tables, *(Text(line, style="dim") for line in _legends(attributions, console)))


def _legends(attributions: Sequence[Attribution], console: Console) -> list[str]:
    """What the shades mean, of methods with and without signs."""
    signed = [item for item in attributions if is_signed(item)]
    lines = []
    if len(signed) < len(attributions):
        lines.append(f"Shades run from 0 to the highest score of {scale_setters(attributions[0])}.")
    if signed:
        names = "" if len(signed) == len(attributions) else f"{_names(signed)}: "
        signs = signs_note(signed[0].options, colours=not paint.is_plain(console))
        lines.append(as_sentence(f"{names}{signs}; the strongest shade is the largest"))
    return lines


def _names(attributions: Sequence[Attribution]) -> str:
    return ", ".join(name_of(item) for item in attributions)


def strip(attribution: Attribution, console: Console, width: int) -> Text:
    """All tokens with their levels, wrapped to the width between tokens."""
    signed = is_signed(attribution)
    levels = paint.levels(attribution.values, colour_top(attribution))
    chips = [
        _chip(token, float(level), attribution.method, not paint.is_plain(console), signed=signed)
        for token, level in zip(attribution.tokens, levels, strict=True)
    ]
    starts = _starts(attribution.segments or ())
    sides = [
        wrap_parts([*([Text(f"{name} ", "dim")] if name else []), *chips[first:last]], width)
        for name, first, last in zip(
            starts, starts.values(), [*list(starts.values())[1:], len(chips)], strict=True
        )
    ]
    return Text("\n").join(sides)


def _starts(segments: Sequence[str]) -> dict[str, int]:
    """Where the texts of a pair begin, each on a line of its own; one line for all else."""
    if "second" not in segments:
        return {"": 0}
    target = {"target": segments.index("target")} if "target" in segments else {}
    return {"first": 0, "second": segments.index("second"), **target}


def _chip(token: str, level: float, method: str, colours: bool, *, signed: bool) -> Text:
    name = label(token, LONGEST)
    if colours:
        return Text(f" {name} ", paint.style(level, method, signed=signed))
    return Text(f"{name}{paint.block(level)} ")
