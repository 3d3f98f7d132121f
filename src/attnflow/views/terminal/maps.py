"""Tokens × layers or heads: what a position attends to in each, for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attnflow.records import Attribution, FloatArray
from attnflow.views.findings import Finding
from attnflow.views.labels import distinct_labels
from attnflow.views.methods import name_of
from attnflow.views.scaling import scale_setters, top_of
from attnflow.views.sentences import noun_of
from attnflow.views.terminal import paint
from attnflow.views.terminal.wrapping import wrap_parts

LABEL = 18
ROWS = 24  # tokens that are listed where nothing else is asked for


def agreement_table(
    layers: Sequence[int], table: Mapping[tuple[str, str], Sequence[float]], console: Console
) -> Table:
    """Rank agreement of pairs of methods; in a narrow terminal each has lines of its own."""
    pairs = [" · ".join(pair) for pair in table]
    wide = console.width >= max(map(len, pairs)) + 2 + 8 * len(layers)
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", title_justify="left")
    grid.title = Text("Rank agreement (Spearman)", style="dim")
    grid.add_column("", no_wrap=True)
    if not wide:
        for pair, row in zip(pairs, table.values(), strict=True):
            each = zip(layers, map(_number, row), strict=True)
            parts = [Text.assemble((f"L{layer} ", "dim"), number, "  ") for layer, number in each]
            grid.add_row(wrap_parts([Text(word) for word in _words(pair)], console.width - 2))
            grid.add_row(wrap_parts(parts, console.width - 2))
        return grid
    for layer in layers:
        grid.add_column(f"L{layer}", justify="right", no_wrap=True)
    for pair, row in zip(pairs, table.values(), strict=True):
        grid.add_row(pair, *map(_number, row))
    return grid


def _words(text: str) -> list[str]:
    return [f"{word} " for word in text.split()]


def _number(value: float) -> Text:
    if np.isnan(value):
        return Text("–", style="dim")
    style = Style(bold=True) if value >= 0.7 else Style(dim=value < 0.3)
    return Text(f"{value:+.2f}".replace("-", "−"), style)


def layer_maps(
    attributions: Sequence[Attribution], found: Finding, console: Console, rows: int = ROWS
) -> RenderableType:
    """Tokens × layers, one map per method; of many tokens those that ``found`` has first."""
    names = [f"L{layer}" for layer in attributions[0].layers]
    values = [np.stack([item.row(layer) for layer in item.layers]) for item in attributions]
    return _maps(attributions, values, names, found, console, rows)


def head_maps(
    attributions: Sequence[Attribution], found: Finding, console: Console, rows: int = ROWS
) -> RenderableType:
    """Tokens × heads of the layer that is explained, one map per method."""
    names = [f"H{head}" for head in range(len(attributions[0].values))]
    values = [item.values for item in attributions]
    return _maps(attributions, values, names, found, console, rows)


def _maps(
    attributions: Sequence[Attribution],
    values: Sequence[FloatArray],
    names: Sequence[str],
    found: Finding,
    console: Console,
    rows: int,
) -> RenderableType:
    """Maps of values ``[column, key]``, side by side as far as they fit."""
    tokens = distinct_labels(attributions[0].tokens, LABEL)
    every = range(len(tokens))
    places = every if len(tokens) <= rows else sorted(found.ranked[:rows])
    labels = max(cell_len(tokens[at]) for at in places)
    wide = max(2, len(names[-1])) + 1
    cell = wide if len(names) * wide < console.width - labels - 2 else 1
    axis = _axis(names, cell)
    across = max(1, (console.width - labels - 2) // (len(axis) + 2))
    parts: list[RenderableType] = []
    for at in range(0, len(attributions), across):
        group = slice(at, at + across)
        table = _map(attributions[group], values[group], axis, cell, console, places)
        parts += [table, Text("")]
    if len(places) < len(tokens):
        which = f"The {len(places)} of {len(tokens)} {noun_of(attributions[0])}"
        listed = f"{which} with the highest {found.method} scores; --top N lists more."
        parts.append(Text(listed, style="dim"))
    what = "head" if names[0].startswith("H") else "layer"
    setters = scale_setters(attributions[0])
    legend = f"Shades run from 0 to the highest score of {setters} in any {what}."
    return Group(*parts, Text(legend, style="dim"))


def _axis(names: Sequence[str], cell: int) -> str:
    """The names above their columns; where those are narrow, only every 5th or 10th."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100) if step * cell > len(names[-1]))
    line = ""
    for at, name in enumerate(names):
        if not at or (int(name[1:]) % step == 0 and len(line) < at * cell):
            line = line.ljust(at * cell) + name
    return line.ljust(len(names) * cell)


def _map(
    attributions: Sequence[Attribution],
    values: Sequence[FloatArray],
    axis: str,
    cell: int,
    console: Console,
    places: Sequence[int],
) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    for _ in attributions:
        table.add_column(no_wrap=True)
    table.add_row("", *(Text(name_of(item), paint.ink(item.method)) for item in attributions))
    table.add_row("", *(Text(axis, style="dim") for _ in attributions))
    levels = [
        paint.levels(each, top_of(item, each))
        for item, each in zip(attributions, values, strict=True)
    ]
    tokens = distinct_labels(attributions[0].tokens, LABEL)
    own = None if attributions[0].pooled else attributions[0].query
    for at in places:
        name = Text(tokens[at], Style(bold=at == own))
        rows = [
            _row(each[:, at], item.method, cell, plain=paint.is_plain(console))
            for item, each in zip(attributions, levels, strict=True)
        ]
        table.add_row(name, *rows)
    return table


def _row(levels: FloatArray, method: str, cell: int, *, plain: bool) -> Text:
    if plain:
        return Text("".join(paint.shade(float(level)) * cell for level in levels))
    return Text.assemble(*((" " * cell, paint.style(float(level), method)) for level in levels))
