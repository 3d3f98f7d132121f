"""The highest scores with bars, side by side where the terminal is wide enough."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnflow.records import Attribution
from attnflow.records.rounding import round_scores
from attnflow.views.findings import Finding, merged_scores
from attnflow.views.labels import distinct_labels
from attnflow.views.methods import is_signed, name_of
from attnflow.views.numbers import listed, power_for, unit
from attnflow.views.scaling import colour_top
from attnflow.views.sentences import is_ratio
from attnflow.views.terminal import paint

NARROWEST = 26  # a column with token, bar and number
WIDEST = 60
SHORTEST_BAR = 4
SHORTEST_NAME = 6
POSITION = 4  # ":123", where a token occurs twice


def top_tables(
    attributions: Sequence[Attribution], findings: Sequence[Finding], console: Console, k: int
) -> RenderableType:
    """The k highest tokens of each method, without special ones."""
    side_by_side = console.width // len(attributions) >= NARROWEST
    width = (console.width - 2) // len(attributions) - 2 if side_by_side else console.width - 2
    pairs = zip(attributions, findings, strict=True)
    tables = [_top(attribution, found, min(width, WIDEST), k) for attribution, found in pairs]
    if not side_by_side:
        return Group(*tables)
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in tables:
        grid.add_column()
    grid.add_row(*tables)
    return grid


def _top(attribution: Attribution, finding: Finding, width: int, k: int) -> RenderableType:
    """Token, bar, number; the method above the bars, or above all where these are too short."""
    ratio, signed = is_ratio(attribution), is_signed(attribution)
    values = merged_scores(attribution)
    places = finding.ranked[:k]
    power = 0 if ratio else power_for(colour_top(attribution))
    numbers = [listed(float(values[at]), power, ratio=ratio) for at in places]
    beside = max(map(cell_len, [*numbers, unit(power)]), default=0) + 2
    names = _names(attribution, places, width - beside - SHORTEST_BAR)
    room = max(width - beside - max(map(cell_len, names), default=0), SHORTEST_BAR)
    largest = max((abs(float(values[at])) for at in places), default=0.0) or 1.0
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(width=room, no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    of = Text("× chance" if ratio else unit(power), "dim")
    title = Text(name_of(attribution), paint.ink(attribution.method))
    above = cell_len(name_of(attribution)) > room
    if of.plain or not above:
        table.add_row("", "" if above else title, of)
    for at, name, amount in zip(places, names, numbers, strict=True):
        bar = paint.bar(abs(float(values[at])) / largest, room)
        ink = paint.sign_ink(float(values[at])) if signed else paint.ink(attribution.method)
        table.add_row(name, Text(bar, ink), amount)
    if places:
        rounded = round_scores(values)
        equal = sum(rounded[at] == rounded[places[-1]] for at in finding.ranked[k:])
        if equal:
            table.add_row("", Text(f"{equal} more", "dim"), Text(numbers[-1], "dim"))
    return Group(title, table) if above else table


def _names(attribution: Attribution, places: Sequence[int], width: int) -> list[str]:
    """Labels of tokens in at most that many cells, positions of repeated ones included."""
    names: list[str] = []
    for size in (width, width - POSITION):
        labels = distinct_labels(attribution.tokens, max(size, SHORTEST_NAME))
        names = [labels[at] for at in places]
        if max(map(cell_len, names), default=0) <= width:
            break
    return names
