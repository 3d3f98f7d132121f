"""What made two texts similar, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnflow.records import FloatArray
from attnflow.records.similarity import SMALLEST, EmbeddedText, Similarity
from attnflow.views.terminal import paint
from attnflow.views.terminal.lines import model_name, title, warning_lines, wrap_parts
from attnflow.views.wording.labels import clip, label, printable
from attnflow.views.wording.names import rule_name
from attnflow.views.wording.numbers import number

CELLS = (6, 3, 2)  # how wide a column of the map may be
LABEL = 16
BAR = 16
WIDE = 100  # cells in which two tables fit beside each other
NAMED = 3  # pairs in the sentence


def show_similarity(of: Similarity, console: Console, top: int) -> None:
    """Print the cosine, what each token gave of it, the map, and the pairs that gave most."""
    edges = rule_name(str(of.options.get("edges", "attention")))
    special = of.cosine - float(of.scores[np.ix_(of.first.ordinary, of.second.ordinary)].sum())
    about = (
        f"{of.pooling} of the last states, traced by {of.method} on {edges} edges; {special:+.3f} "
        "from pairs with special tokens"
    )
    lines: list[RenderableType] = [
        title(of.first.text),
        title(of.second.text),
        _sentence(of),
        Text(f"{about} · {model_name(of.model)}", style="dim"),
        *warning_lines(of.warnings),
        Text(""),
        _tokens(of.first, of.of("first"), console),
        _tokens(of.second, of.of("second"), console),
    ]
    drawn = _map(of, console)
    if drawn is not None:
        lines += [Text(""), drawn]
    if top:
        found = {"contributed most": of.top(top), "belong together": _matches(of, top)}
        tables = [_pairs(name, pairs) for name, pairs in found.items()]
        beside = Table.grid(padding=(0, 4, 0, 0))
        beside.add_row(*tables)
        lines += [Text(""), beside] if console.width >= WIDE else [Text(""), *tables]
    console.print(Group(*lines))


def _sentence(of: Similarity) -> Text:
    """The cosine, and the pairs that belong together most."""
    line = Text("cosine ")
    line.append(f"{of.cosine:.3f}", "bold")
    best = _matches(of, NAMED)
    for at, (one, other, _) in enumerate(best):
        line.append(", " if at else "; ")
        line.append(f"{label(one, LABEL)}–{label(other, LABEL)}", "bold")
    return line.append(" belong together most" if best else "")


def _matches(of: Similarity, count: int) -> list[tuple[str, str, float]]:
    """The pairs that belong together, where that is defined and above 0."""
    if abs(of.cosine) < SMALLEST:
        return []
    return [each for each in of.matches(count) if each[2] > 0]


def _tokens(side: EmbeddedText, values: FloatArray, console: Console) -> Text:
    """A text's tokens, each as strong as what it gave in all."""
    levels = paint.levels(values, float(np.abs(values[side.ordinary]).max(initial=0.0)))
    plain = paint.is_plain(console)
    chips = [
        Text(f"{label(token, 24)}{paint.block(float(level))} ")
        if plain
        else Text(f" {label(token, 24)} ", paint.style(float(level), "", signed=True))
        for token, level in zip(side.tokens, levels, strict=True)
    ]
    return wrap_parts(chips, console.width)


def _map(of: Similarity, console: Console) -> Table | None:
    """Rows of the first text × columns of the second; none where the terminal is too narrow."""
    rows = [clip(printable(token), LABEL) for token in of.first.tokens]
    space = console.width - max(map(cell_len, rows)) - 3
    cell = next((wide for wide in CELLS if wide * len(of.second.tokens) <= space), None)
    if cell is None:
        return None
    inner = np.zeros_like(of.scores, dtype=bool)
    inner[np.ix_(of.first.ordinary, of.second.ordinary)] = True
    largest = float(np.abs(of.scores[inner]).max(initial=0.0))
    levels = paint.levels(of.scores, largest)
    plain = paint.is_plain(console)
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    if cell == CELLS[0]:
        names = [clip(printable(token), cell - 1) for token in of.second.tokens]
        table.add_row("", Text("".join(n + " " * (cell - cell_len(n)) for n in names), "dim"))
    for name, row in zip(rows, levels, strict=True):
        # Without colours, a space keeps columns apart.
        cells = [
            paint.cell(float(level), cell - plain, "", signed=True, plain=plain) for level in row
        ]
        table.add_row(name, Text(" " * plain).join(cells))
    return table


def _pairs(heading: str, best: Sequence[tuple[str, str, float]]) -> Table:
    """Pairs with bars, the largest first."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_row("", "", Text(heading, "dim"), "")
    largest = max((abs(score) for *_, score in best), default=0.0) or 1.0
    for one, other, score in best:
        bar = Text(paint.bar(abs(score) / largest, BAR), paint.sign_ink(score))
        table.add_row(label(one, LABEL), label(other, LABEL), bar, number(score))
    return table
