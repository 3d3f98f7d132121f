"""Layers across, tokens down: what a position attends to in each layer, for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attnflow.cli.terminal import label, paint
from attnflow.records import Attribution

LABEL = 18


def agreement_table(
    layers: Sequence[int], table: Mapping[tuple[str, str], Sequence[float]], console: Console
) -> Table:
    """Rank agreement of pairs of methods; in a narrow terminal layers go down instead of across."""
    wide = console.width >= 22 + 7 * len(layers)
    pairs = [(" · " if wide else " ·\n").join(pair) for pair in table]
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", title_justify="left")
    made.title = Text("rank agreement (Spearman)", style="dim")
    made.add_column("", no_wrap=True)
    for name in [f"L{layer}" for layer in layers] if wide else pairs:
        made.add_column(name, justify="right", no_wrap=True)
    numbers = np.array(list(table.values()))
    if wide:
        for pair, row in zip(pairs, numbers, strict=True):
            made.add_row(pair, *map(_number, row))
    else:
        for layer, row in zip(layers, numbers.T, strict=True):
            made.add_row(f"L{layer}", *map(_number, row))
    return made


def _number(value: float) -> Text:
    if np.isnan(value):
        return Text("–", style="dim")
    style = Style(bold=True) if value >= 0.7 else Style(dim=value < 0.3)
    return Text(f"{value:+.2f}", style)


def heat_maps(attributions: Sequence[Attribution], console: Console) -> RenderableType:
    """One map a method, side by side as far as they fit; colours stretch over each layer."""
    first = attributions[0]
    names = min(LABEL, max(cell_len(label(token, LABEL)) for token in first.tokens))
    layers = len(first.layers)
    cell = max(2, len(f"L{max(first.layers)}")) + 1 if layers * 4 < console.width - names else 1
    each = layers * cell + 2
    across = max(1, (console.width - names - 2) // each)
    groups = [attributions[at : at + across] for at in range(0, len(attributions), across)]
    maps: list[RenderableType] = []
    for group in groups:
        maps += [_map(group, console, cell), Text("")]
    legend = "shades run from the lowest to the highest score of each layer"
    return Group(*maps, Text(legend, style="dim"))


def _map(attributions: Sequence[Attribution], console: Console, cell: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    for _ in attributions:
        table.add_column(no_wrap=True)
    table.add_row("", *(Text(item.method, paint.ink(item.method)) for item in attributions))
    if cell > 1:
        table.add_row("", *(_layer_names(item, cell) for item in attributions))
    drawn = [_levels(item) for item in attributions]
    for at, token in enumerate(attributions[0].tokens):
        name = Text(label(token, LABEL), Style(bold=at == attributions[0].query))
        rows = [
            _row(levels[:, at], item.method, cell, plain=paint.plain(console))
            for item, levels in zip(attributions, drawn, strict=True)
        ]
        table.add_row(name, *rows)
    return table


def _layer_names(attribution: Attribution, cell: int) -> Text:
    return Text("".join(f"L{layer}".ljust(cell) for layer in attribution.layers), style="dim")


def _levels(attribution: Attribution) -> np.ndarray:
    """``[layer, key]``, from 0 to 1 in each layer."""
    rows = np.stack([attribution.row(layer) for layer in attribution.layers])
    return paint.levels(rows, paint.ordinary(attribution))


def _row(levels: np.ndarray, method: str, cell: int, *, plain: bool) -> Text:
    if plain:
        return Text("".join(paint.shade(float(level)) * cell for level in levels))
    return Text.assemble(*((" " * cell, paint.style(float(level), method)) for level in levels))
