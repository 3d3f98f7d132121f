"""The routes of a flow and its bottleneck, in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from rich.console import Console, Group
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attnflow.records import Edge, FlowTrace, Route
from attnflow.views.terminal import paint
from attnflow.views.terminal.lines import (
    model_name,
    paragraph,
    prediction_lines,
    title,
    warning_lines,
    wrap_parts,
)
from attnflow.views.wording.labels import distinct_labels, written
from attnflow.views.wording.names import describe_edges, info_of, name_of
from attnflow.views.wording.numbers import (
    as_sentence,
    listed,
    number,
    percent,
    power_for,
    share,
    unit,
)
from attnflow.views.wording.traces import main_edges, runs, steps_between, trace_sentence

WIDTH = 16
BAR = 12
NUMBER = 8  # 0.000123
EDGES_SHOWN = 4  # of each layer of the cut
LEAST = 0.01  # of a value that something else must have to be told
ROUNDING = 1e-12  # a smaller gap is a rounding error


def show_routes(trace: FlowTrace, console: Console, top: int, predicts: str = "") -> None:
    """What flows, what the cut says, the largest routes; ``predicts``: what the model predicts."""
    tokens = distinct_labels(written(trace), WIDTH)
    warnings = warning_lines(trace.warnings)
    predicted = [
        paragraph(each, console.width) for each in prediction_lines(trace.prediction, predicts)
    ]
    console.print(Group(title(trace.text), *predicted, *warnings))
    console.print(_value(trace, tokens))
    proof = "exact" if trace.gap < ROUNDING else f"exact to {trace.gap:.0e}"
    edges = describe_edges(trace.options).removeprefix(", ")
    named = [edges] if edges else []
    about = [*([proof] if trace.cut else []), *named, *_correction(trace), model_name(trace.model)]
    console.print(Text(" · ".join(about), style="dim"))
    console.print()
    if not trace.value:
        console.print("no route: nothing flows between them")
        return
    console.print(paragraph(trace_sentence(trace), console.width))
    if trace.knockout is not None:
        console.print(paragraph(as_sentence(trace.knockout.summary), console.width))
    console.print()
    if not trace.routes:
        console.print(_strongest(trace, tokens, top))
        return
    console.print(_routes(trace, tokens, top, console.width))
    left = abs(trace.value) - sum(route.amount for route in trace.routes[:top])
    rest = len(trace.routes) - top
    if rest > 0:
        more = f"{rest} smaller routes carry the other {percent(left / abs(trace.value))}"
        console.print(paragraph(f"{more} (--top N shows more)", console.width, "dim"))
    if trace.cut:
        console.print()
        _show_cut(trace, tokens, console)


def _value(trace: FlowTrace, tokens: Sequence[str]) -> Text:
    """The score, from which token to where."""
    line = Text(f"{name_of(trace)} ")
    signed = bool(trace.carries_from)
    line.append(number(abs(trace.value) if signed else trace.value), _ink(trace))
    line.append(" logits from " if signed else " from ")
    line.append(f"“{tokens[trace.key]}”", "bold")
    if not signed:
        return line.append(f" to “{tokens[trace.query]}” at layer {trace.layer}")
    said, contrast = trace.options.get("target") or "the answer", trace.options.get("contrast")
    sides = ("for", "against") if trace.value > 0 else ("against", "for")
    line.append(f" {sides[0]} {said}" + ("" if contrast is None else f" rather than {contrast}"))
    size = abs(trace.value)
    if number(size - trace.opposed) != number(size):  # the score is their difference
        line.append(f", {number(trace.opposed)} {sides[1]} it")
    return line


def _ink(trace: FlowTrace) -> Style:
    """The colour of a method; of signed scores, that of the sign."""
    return paint.sign_ink(trace.value) if info_of(trace).signed else paint.ink(trace.method)


def _correction(trace: FlowTrace) -> list[str]:
    """What was done about the receptive field of a causal decoder."""
    if not trace.causal:
        return []
    name = trace.options.get("correction")
    plain = name in (None, "uniform")
    return ["not corrected" if plain else f"corrected ({name})"]


def _routes(trace: FlowTrace, tokens: Sequence[str], top: int, width: int) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(width=BAR, no_wrap=True)
    table.add_column(no_wrap=True)
    largest = trace.routes[0].amount
    power = power_for(largest)
    shown = [listed(route.amount, power) for route in trace.routes[:top]]
    room = width - max(map(len, [*shown, unit(power)])) - BAR - 3
    if power:
        table.add_row(Text(unit(power), "dim"), "", "")
    for route, amount in zip(trace.routes, shown, strict=False):
        bar = Text(paint.bar(route.amount / largest, BAR), _ink(trace))
        path = wrap_parts(_path(route, tokens, trace.to_layer), room)
        table.add_row(amount, bar, path)
    return table


def _strongest(trace: FlowTrace, tokens: Sequence[str], top: int) -> Table:
    """The steps between tokens that carry most, for methods without routes."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(width=BAR, no_wrap=True)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True)
    edges = steps_between(trace)
    order = np.argsort(-edges, axis=None, kind="stable")[:top]
    largest = float(edges.max())
    power = power_for(largest)
    if power:
        table.add_row(Text(unit(power), "dim"), "", "", "")
    for layer, query, key in zip(*np.unravel_index(order, edges.shape), strict=True):
        amount = float(edges[layer, query, key])
        if amount > 0:
            bar = Text(paint.bar(amount / largest, BAR), _ink(trace))
            ends = f"{tokens[key]} → {tokens[query]}"
            table.add_row(listed(amount, power), bar, _step(int(layer) + trace.to_layer + 1), ends)
    return table


def _path(route: Route, tokens: Sequence[str], base: int) -> list[Text]:
    """From the input up, in parts between which a line may break."""
    steps = runs(route, base)
    parts = []
    for run in steps:
        arrow = "" if run is steps[-1] else " → "
        parts.append(Text.assemble((tokens[run.position], "bold"), (f" {run.span}{arrow}", "dim")))
    return parts


def _show_cut(trace: FlowTrace, tokens: Sequence[str], console: Console) -> None:
    """The edges of the minimum cut, layer by layer, the largest first.

    Of a flow of relevance, those that carry most of it: the edges that the sentence is about.
    """
    shown = main_edges(trace.cut) if trace.carries_from else list(trace.cut)
    line = Text("bottleneck", "bold")
    line.append(f": {_count(len(trace.cut), 'edge')}, full; no more can pass", "not bold")
    if len(shown) < len(trace.cut):
        carried = sum(edge.capacity for edge in shown) / sum(edge.capacity for edge in trace.cut)
        line.append(f" ({len(shown)} that carry {share(carried)} of it)", "not bold dim")
    console.print(paragraph(line, console.width))
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    room = console.width - max(len(_step(edge.layer)) for edge in shown) - NUMBER - 3
    by_layer = sorted(shown, key=lambda edge: (-edge.layer, -edge.capacity))
    for layer, group in groupby(by_layer, key=lambda edge: edge.layer):
        edges = list(group)
        total = sum(edge.capacity for edge in edges)
        table.add_row(_step(layer), number(total), wrap_parts(_edges(edges, tokens), room))
    console.print(table)


def _step(layer: int) -> str:
    return f"{'input' if layer == 1 else f'L{layer - 1}'} → L{layer}"


def _edges(edges: Sequence[Edge], tokens: Sequence[str]) -> list[Text]:
    rest = len(edges) - EDGES_SHOWN
    parts = []
    for edge in edges[:EDGES_SHOWN]:
        comma = "" if rest <= 0 and edge is edges[-1] else ", "
        ends = f"{tokens[edge.key]} → {tokens[edge.query]} "
        parts.append(Text.assemble(ends, (f"{number(edge.capacity)}{comma}", "dim")))
    return [*parts, Text(f"and {rest} more", "dim")] if rest > 0 else parts


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
