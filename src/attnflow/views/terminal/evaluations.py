"""An evaluation as tables that fit the terminal, with as many metrics side by side as fit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnflow.evaluation.result import Evaluation, Line
from attnflow.evaluation.tables import SURE, describe, grids

BEST = "*"
"""Behind the best of a column, beside bold type, which pipes and files have not."""
BETWEEN = 2  # cells between columns

Column = tuple[str, list[Line]]


def show_evaluation(found: Evaluation, console: Console) -> None:
    """A table for each filler, reference or rationale, and what the numbers are."""
    for against, titles, rows in grids(found):
        labels = [label for label, _ in rows]
        columns = [(title, [cells[at] for _, cells in rows]) for at, title in enumerate(titles)]
        console.print(Text(against, "bold"))
        for part in _parts(columns, console.width - max(map(len, labels)) - BETWEEN):
            console.print(_table(labels, part))
            console.print()
    console.print(Text(describe(found, best=BEST), "dim"))


def _parts(columns: Sequence[Column], space: int) -> list[list[Column]]:
    """The columns in groups that fit side by side."""
    parts: list[list[Column]] = [[]]
    left = space
    for title, lines in columns:
        width = max(cell_len(title), *(cell_len(_cell(line).plain) for line in lines)) + BETWEEN
        if parts[-1] and width > left:
            parts.append([])
            left = space
        parts[-1].append((title, lines))
        left -= width
    return parts


def _table(labels: Sequence[str], columns: Sequence[Column]) -> Table:
    table = Table(box=None, padding=(0, BETWEEN, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    for title, _ in columns:
        table.add_column(title, no_wrap=True)
    for at, label in enumerate(labels):
        table.add_row(label, *(_cell(lines[at]) for _, lines in columns))
    return table


def _cell(line: Line) -> Text:
    """The mean with its interval; the best in bold, what may be as good with a dagger."""
    if math.isnan(line.mean):
        return Text("undefined", "dim")
    text = Text(_number(line.mean), "bold" if line.best else "")
    if not math.isnan(line.low):
        text.append(f" [{_number(line.low)}, {_number(line.high)}]", "not bold dim")
    if line.best:
        text.append(f" {BEST}", "bold")
    if not line.best and line.p >= SURE:
        text.append(" †", "not bold")
    if line.undefined:
        text.append(f" ({line.undefined})", "not bold dim")
    return text


def _number(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")
