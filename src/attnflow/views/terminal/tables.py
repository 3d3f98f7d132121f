"""The highest scores with bars, side by side where the terminal is wide enough."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

import numpy as np
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnflow.records import Attribution
from attnflow.views.methods import is_signed
from attnflow.views.terminal import distinct_labels, paint

TIE = 1e-9  # scores that differ by less are equal: flow is often exactly 1
NARROWEST = 26  # a column with token, bar and number


def top_tables(attributions: Sequence[Attribution], console: Console, k: int) -> RenderableType:
    """The k highest tokens of each method."""
    side_by_side = console.width // len(attributions) >= NARROWEST
    width = (console.width - 2) // len(attributions) - 2 if side_by_side else console.width - 2
    tables = [_top(attribution, min(width, 46), k) for attribution in attributions]
    if not side_by_side:
        return Group(*tables)
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in tables:
        grid.add_column()
    grid.add_row(*tables)
    return grid


def _top(attribution: Attribution, width: int, k: int) -> Table:
    """Token, bar, number."""
    ranked = _rank_tokens(attribution, max(6, width // 3))
    rows = ranked[:k]
    names = [name for name, _ in rows]
    room = width - max(map(cell_len, names), default=0) - 8
    signed = is_signed(attribution)
    largest = max((abs(score) for _, score in rows), default=0.0) or 1.0
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(width=max(room, 4), no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_row("", Text(attribution.method, paint.ink(attribution.method)), "")
    for name, (_, score) in zip(names, rows, strict=True):
        bar = paint.bar(abs(score) / largest, max(room, 4))
        ink = paint.sign_ink(score) if signed else paint.ink(attribution.method)
        table.add_row(name, Text(bar, ink), f"{score:.3f}")
    equal = sum(isclose(score, rows[-1][1], abs_tol=TIE) for _, score in ranked[k:])
    if equal:
        table.add_row("", Text(f"{equal} more", "dim"), Text(f"{rows[-1][1]:.3f}", "dim"))
    return table


def _rank_tokens(attribution: Attribution, width: int) -> list[tuple[str, float]]:
    """Tokens by score, highest first and equal ones as in the text; single heads by their mean.

    Signed scores are ranked by their size.
    """
    values = attribution.values
    merged = values.mean(0) if values.ndim == 2 else values
    sizes = np.abs(merged) if is_signed(attribution) else merged
    order = sorted(range(len(merged)), key=lambda at: (-round(float(sizes[at]) / TIE), at))
    names = distinct_labels(attribution.tokens, width)
    return [(names[at], float(merged[at])) for at in order]
