"""Scores as pictures: tokens in a row, patches, frames over time, and maps of layers and heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attnflow.records import Attribution, FloatArray
from attnflow.views.colours import colour_top, ordinary_patches, scale_setters, top_of
from attnflow.views.terminal import paint
from attnflow.views.terminal.lines import wrap_parts
from attnflow.views.wording.findings import Finding, noun_of
from attnflow.views.wording.labels import distinct_labels, label, written
from attnflow.views.wording.names import is_signed, name_of, signs_note
from attnflow.views.wording.numbers import as_sentence, correlation

LONGEST = 24  # cells of a token in a strip
LABEL = 18  # and beside a map
ROWS = 24  # tokens beside a map where no number is given
CORRELATION = 6  # cells of a rank correlation
PATCH = 2  # two cells of a terminal are about as wide as high


def picture(
    attributions: Sequence[Attribution],
    console: Console,
    *,
    legend: bool = False,
    named: bool = True,
) -> RenderableType:
    """The input itself, each piece as strong as its score; strips of tokens may have no names."""
    grid = attributions[0].grid
    if grid is None:
        return strips(attributions, console, legend=legend, named=named)
    draw = patch_grids if grid.seconds is None else time_strips
    return draw(attributions, console, legend=legend)


def strips(
    attributions: Sequence[Attribution],
    console: Console,
    *,
    legend: bool = False,
    named: bool = True,
) -> RenderableType:
    """One strip of tokens per method, one below the other, spaced where they have several lines."""
    names = max(len(name_of(item)) for item in attributions) + 1 if named else -1
    rows = [_strip(item, console, console.width - names - 2) for item in attributions]
    tables: list[RenderableType] = []
    for item, tokens in zip(attributions, rows, strict=True):
        table = Table.grid(padding=(0, 1, 0, 0))
        if named:
            table.add_column(width=names, no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_row(*([Text(name_of(item), method_ink(item))] if named else []), tokens)
        tables += [Text(""), table] if tables and "\n" in tokens.plain else [table]
    lines = _legends(attributions, console) if legend else []
    return Group(*tables, *(Text(line, style="dim") for line in lines))


def method_ink(of: Attribution) -> Style:
    """How a method's name is written: where colours are those of signs, without a colour."""
    return Style(bold=True) if is_signed(of) else paint.ink(of.method)


def _legends(attributions: Sequence[Attribution], console: Console) -> list[str]:
    """What the shades mean, for methods with and without signs."""
    signed = [item for item in attributions if is_signed(item)]
    lines = []
    if len(signed) < len(attributions):
        lines.append(f"Shades run from 0 to the highest score of {scale_setters(attributions[0])}.")
    if signed:
        names = ", ".join(map(name_of, signed)) + ": " if len(signed) < len(attributions) else ""
        signs = signs_note(signed[0].options, colours=not paint.is_plain(console))
        lines.append(as_sentence(f"{names}{signs}; the strongest shade is the largest"))
    return lines


def _strip(attribution: Attribution, console: Console, width: int) -> Text:
    """All tokens with their levels, wrapped to the width between tokens."""
    signed, plain = is_signed(attribution), paint.is_plain(console)
    levels = paint.levels(attribution.values, colour_top(attribution))
    chips = [
        Text(f"{label(token, LONGEST)}{paint.block(float(level))} ")
        if plain
        else Text(
            f" {label(token, LONGEST)} ",
            paint.style(float(level), attribution.method, signed=signed),
        )
        for token, level in zip(written(attribution), levels, strict=True)
    ]
    starts = _starts(attribution.segments or ())
    ends = [*list(starts.values())[1:], len(chips)]
    sides = [
        wrap_parts([*([Text(f"{name} ", "dim")] if name else []), *chips[first:last]], width)
        for (name, first), last in zip(starts.items(), ends, strict=True)
    ]
    return Text("\n").join(sides)


def _starts(segments: Sequence[str]) -> dict[str, int]:
    """Where the texts of a pair begin, each on a line of its own; one line for all else."""
    if "second" not in segments:
        return {"": 0}
    target = {"target": segments.index("target")} if "target" in segments else {}
    return {"first": 0, "second": segments.index("second"), **target}


def patch_grids(
    attributions: Sequence[Attribution], console: Console, *, legend: bool = False
) -> RenderableType:
    """One grid of patches per method, side by side as far as they fit."""
    width = attributions[0].patches().shape[1] * PATCH + 2
    across = max(1, (console.width + 2) // width)
    parts: list[RenderableType] = []
    for at in range(0, len(attributions), across):
        group = attributions[at : at + across]
        table = Table.grid(padding=(0, 2, 0, 0))
        for _ in group:
            table.add_column(no_wrap=True)
        table.add_row(*(Text(name_of(item), method_ink(item)) for item in group))
        table.add_row(*(_grid(item, plain=paint.is_plain(console)) for item in group))
        parts += [*([Text("")] if parts else []), table]
    if legend:
        shades = "Shades run from the lowest to the highest score; patches are named row,column."
        parts += [Text(""), Text(shades, style="dim")]
    return Group(*parts)


def _grid(attribution: Attribution, *, plain: bool) -> Text:
    signed = is_signed(attribution)
    rows = [
        Text.assemble(
            *(
                Text("·".ljust(PATCH), "dim")  # so that the grid can be seen
                if abs(level) < paint.UNSEEN
                else paint.cell(level, PATCH, attribution.method, signed=signed, plain=plain)
                for level in map(float, row)
            )
        )
        for row in _patch_levels(attribution)
    ]
    return Text("\n").join(rows)


def _patch_levels(attribution: Attribution) -> FloatArray:
    """From −1 to 1; without signs, stretched from the lowest to the highest score."""
    scores, places = attribution.patches(), ordinary_patches(attribution)
    if is_signed(attribution):
        return paint.levels(scores, float(np.abs(scores.ravel()[places]).max()) or 1.0)
    return paint.stretch(scores.ravel(), places).reshape(scores.shape)


def time_strips(
    attributions: Sequence[Attribution], console: Console, *, legend: bool = False
) -> RenderableType:
    """One strip of frames per method, one below the other, over a scale of seconds."""
    grid = attributions[0].grid
    if grid is None or grid.seconds is None:
        return Text("")
    names = max(len(name_of(item)) for item in attributions) + 1
    cells = min(grid.columns, max(10, console.width - names - 2))
    parts: list[RenderableType] = []
    for item in attributions:
        for at, line in enumerate(_frames(item, cells, plain=paint.is_plain(console))):
            name = name_of(item) if not at else ""
            parts.append(Text.assemble((name.ljust(names), method_ink(item)), line))
    seconds = f"{grid.box[2] / grid.image[1] * grid.seconds:.2f} s"
    parts.append(Text(" " * names + "0" + seconds.rjust(cells - 1), style="dim"))
    if legend:
        frames = grid.columns / cells
        shades = "Shades run from the lowest to the highest score of other frames"
        if frames > 1:
            shades += f"; a cell shows the highest of about {frames:.1f} frames"
        parts.append(Text(f"{shades}.", style="dim"))
    return Group(*parts)


def _frames(attribution: Attribution, cells: int, *, plain: bool) -> list[Text]:
    """A line per row, high frequencies first; a cell shows the strongest of its frames."""
    levels = _patch_levels(attribution)
    starts = np.arange(cells) * levels.shape[1] // cells
    high, low = (each.reduceat(levels, starts, axis=1) for each in (np.maximum, np.minimum))
    strongest = np.where(-low > high, low, high)
    signed, method = is_signed(attribution), attribution.method

    def cell(level: float) -> Text:
        if plain:
            return Text("−" if level <= -paint.UNSEEN else paint.block(max(level, 0.0)))
        if abs(level) < paint.UNSEEN:
            return Text("·", "dim")
        return Text(" ", paint.style(level, method, signed=signed))

    return [Text.assemble(*map(cell, map(float, row))) for row in strongest[::-1]]


def layer_maps(
    attributions: Sequence[Attribution],
    found: Finding,
    console: Console,
    rows: int = ROWS,
    *,
    legend: bool = False,
) -> RenderableType:
    """Tokens × layers, one map per method; of many tokens those that ``found`` has first."""
    names = [f"L{layer}" for layer in attributions[0].layers]
    values = [np.stack([item.row(layer) for layer in item.layers]) for item in attributions]
    return _maps(attributions, values, names, found, console, rows, legend=legend)


def head_maps(
    attributions: Sequence[Attribution],
    found: Finding,
    console: Console,
    rows: int = ROWS,
    *,
    legend: bool = False,
) -> RenderableType:
    """Tokens × heads of the layer that is explained, one map per method."""
    names = [f"H{head}" for head in range(len(attributions[0].values))]
    values = [item.values for item in attributions]
    return _maps(attributions, values, names, found, console, rows, legend=legend)


def _maps(  # noqa: PLR0913 - what both kinds of maps share
    attributions: Sequence[Attribution],
    values: Sequence[FloatArray],
    names: Sequence[str],
    found: Finding,
    console: Console,
    rows: int,
    *,
    legend: bool,
) -> RenderableType:
    """Maps of values ``[column, key]``, side by side as far as they fit."""
    tokens = distinct_labels(written(attributions[0]), LABEL)
    places = range(len(tokens)) if len(tokens) <= rows else sorted(found.ranked[:rows])
    labels = max(cell_len(tokens[at]) for at in places)
    wide = max(2, len(names[-1])) + 1
    cell = wide if len(names) * wide < console.width - labels - 2 else 1
    axis = _axis(names, cell)
    across = max(1, (console.width - labels - 2) // (len(axis) + 2))
    parts: list[RenderableType] = []
    for at in range(0, len(attributions), across):
        group = slice(at, at + across)
        table = _map(attributions[group], values[group], axis, cell, console, places)
        parts += [*([Text("")] if parts else []), table]
    notes = []
    if len(places) < len(tokens):
        which = f"The {len(places)} of {len(tokens)} {noun_of(attributions[0])}"
        notes.append(f"{which} with the highest {found.name} scores; --top N lists more.")
    if legend:
        what = "head" if names[0].startswith("H") else "layer"
        setters = scale_setters(attributions[0])
        notes.append(f"Shades run from 0 to the highest score of {setters} in any {what}.")
    return Group(*parts, *([Text("")] if notes else []), *(Text(n, style="dim") for n in notes))


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
    table.add_row("", *(Text(name_of(item), method_ink(item)) for item in attributions))
    table.add_row("", *(Text(axis, style="dim") for _ in attributions))
    tokens = distinct_labels(written(attributions[0]), LABEL)
    own = None if attributions[0].pooled else attributions[0].query
    plain = paint.is_plain(console)
    levels = [
        (item.method, is_signed(item), paint.levels(each, top_of(item, each)))
        for item, each in zip(attributions, values, strict=True)
    ]
    for at in places:
        rows = [
            Text.assemble(
                *(
                    paint.cell(float(level), cell, method, signed=signed, plain=plain)
                    for level in each[:, at]
                )
            )
            for method, signed, each in levels
        ]
        table.add_row(Text(tokens[at], Style(bold=at == own)), *rows)
    return table


def agreement_table(
    layers: Sequence[int], table: Mapping[tuple[str, str], Sequence[float]], console: Console
) -> RenderableType:
    """Rank agreement of pairs of methods, layer by layer; in a narrow terminal, several tables."""
    names = [" · ".join(pair) for pair in table]
    if max(map(len, names)) > console.width // 2:
        names = [" ·\n".join(pair) for pair in table]
    longest = max(len(line) for name in names for line in name.split("\n"))
    across = max(1, (console.width - longest - 2) // CORRELATION)
    parts: list[RenderableType] = [Text("Rank agreement (Spearman’s ρ)", style="dim")]
    for start in range(0, len(layers), across):
        grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
        grid.add_column("", no_wrap=True)
        for layer in layers[start : start + across]:
            grid.add_column(f"L{layer}", justify="right", no_wrap=True)
        for name, row in zip(names, table.values(), strict=True):
            grid.add_row(name, *map(_correlation, row[start : start + across]))
        parts.append(grid)
    return Group(*parts)


def _correlation(value: float) -> Text:
    if np.isnan(value):
        return Text("–", style="dim")
    return Text(correlation(float(value)), Style(bold=value >= 0.7, dim=value < 0.3))
