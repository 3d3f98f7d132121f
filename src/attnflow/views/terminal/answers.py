"""An answer in the terminal: what each part gave, and a map of answer × parts."""

from __future__ import annotations

import numpy as np
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnflow.pipeline.generation import MOST_DELETED
from attnflow.records.generation import Generation
from attnflow.records.parts import SOURCE
from attnflow.views.terminal import paint
from attnflow.views.terminal.lines import model_name, paragraph, title, warning_lines
from attnflow.views.wording.answers import asked_text, conclude, odds_of
from attnflow.views.wording.labels import label, printable
from attnflow.views.wording.names import describe_edges, is_signed, name_of, unit_note, unit_of
from attnflow.views.wording.numbers import listed, power_for, share, unit

NAME, WIDEST_NAME = 16, 28  # cells of a part's name
BESIDE = 72  # cells of the other columns
TOKEN = 18
SENTENCE = 34
SHORTEST_BAR = 8
WIDEST_BAR = 80
MOST_ROWS = 16  # parts in the table
NARROWEST = 3  # cells of a column of the map


def answer_view(found: Generation, console: Console) -> Group:
    """All of it: prompt, what may be concluded, answer, parts and the map."""
    settings = f"{name_of(found)}{describe_edges(found.options)}"
    if found.options.get("correction"):
        settings += f", corrected ({found.options['correction']})"
    if found.options.get("through") == "prompt":
        settings += ", through the answer to the prompt"
    total = float(found.log_probabilities.sum())
    # A unit stands above its column; what sums are of has no place there.
    scores = "" if unit_of(found.method, found.options) else unit_note(found.method, found.options)
    about = f"{settings} · {model_name(found.model)} · log-probability {listed(total)}"
    return Group(
        title(asked_text(found)),
        paragraph(conclude(found), console.width),
        _answer_line(found),
        Text(about, style="dim"),
        *([Text(scores, style="dim")] if scores else []),
        *warning_lines(found.warnings),
        Text(""),
        part_table(found, console),
        Text(""),
        answer_map(found, console),
    )


def _answer_line(found: Generation) -> Text:
    """The answer; what was not explained of it is dim, as is what the model had more to say."""
    whole = printable(found.answer_text)
    first = printable(found.answer_text[: found.explained_to])
    rest = whole.removeprefix(first)
    return Text.assemble(("→ ", "dim"), (first, "bold"), (rest, "dim"), (found.stopped, "dim"))


def part_table(found: Generation, console: Console) -> Table:
    """Each part with its score, its share, and what deleting it costs the answer."""
    rows = found.table()
    signed = is_signed(found)
    ratio = found.ratios
    largest = max((abs(row.score) for row in rows), default=0.0) or 1.0
    power = 0 if ratio else power_for(largest)
    shared = any(row.share is not None for row in rows)
    dropped = found.drops is not None
    odds = odds_of(found)
    told = len({part.role for part in found.parts if part.named}) > 1
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("part", no_wrap=True)
    if told:
        table.add_column("", no_wrap=True, style="dim")
    signs = Text.assemble(("+ for", paint.sign_ink(1)), "  ", ("− against", paint.sign_ink(-1)))
    table.add_column(signs if signed else "", no_wrap=True)
    table.add_column(_unit(found, power), justify="right")
    if shared:
        table.add_column("share", justify="right")
    if dropped:
        table.add_column("without it", justify="right")
    name = min(WIDEST_NAME, max(NAME, console.width - BESIDE))
    name = min(name, max(cell_len(printable(part.name)) for part in found.parts))
    space = console.width - name - 14 - 8 * shared - 12 * dropped - 14 * told
    space = min(max(space, SHORTEST_BAR), WIDEST_BAR)
    shown = most_important(found, MOST_ROWS)
    for row, part in ((rows[at], found.parts[at]) for at in shown):
        ink = paint.sign_ink(row.score) if signed else paint.ink(found.method)
        cells: list[RenderableType] = [
            Text(label(row.name, name), "" if part.named else "dim"),
            *([part.role if part.role != part.name else ""] if told else []),
            Text(paint.bar(abs(row.score) / largest, space), ink),
            ("+" if signed and row.score > 0 else "") + listed(row.score, power, ratio=ratio),
        ]
        if shared:
            cells.append("" if row.share is None else share(row.share))
        if dropped:
            cells.append("" if row.drop is None else odds.told(row.drop))
        table.add_row(*cells)
    captions = [f"and {len(rows) - len(shown)} other parts" if len(shown) < len(rows) else ""]
    if dropped:
        whose = "the answer's" if found.complete else "the explained part's"
        of = odds.what.replace("its", whose, 1)
        captions.append(f"without it: {of}; with all parts {odds.told()}")
    elif len(found.named) > MOST_DELETED:
        count = len(found.named)
        captions.append(
            f"--deletions also deletes each of the {count} parts: about {count + 2} forward passes"
        )
    lines = [paragraph(each, console.measure(table).maximum, "dim") for each in captions if each]
    table.caption = Text("\n").join(lines)
    table.caption_justify = "left"
    return table


def most_important(found: Generation, count: int) -> list[int]:
    """The numbers of parts, in their order; of many, without the sources that matter least.

    Those matter most that cost most if they are deleted, or else have the highest scores.
    """
    rows = found.table()
    order = sorted(
        range(len(rows)),
        key=lambda at: (
            found.parts[at].role == SOURCE,
            -(abs(rows[at].score) if rows[at].drop is None else rows[at].drop or 0.0),
        ),
    )
    return sorted(order[:count])


def _unit(found: Generation, power: int) -> str:
    """What the column of scores is headed."""
    if found.ratios:
        return "× chance"
    of = unit_of(found.method, found.options)
    return " ".join(filter(None, ["" if of else "score", unit(power), of]))


def answer_map(found: Generation, console: Console) -> Table:
    """The answer's pieces, down, by the parts, across; each row from 0 to its own highest."""
    longest = TOKEN if len(found.pieces) == len(found.answer) else SENTENCE
    room = (console.width - longest - 9) // (NARROWEST + 1)
    shown = most_important(found, max(1, room))
    values = found.matrix("parts")[:, shown]
    tops = np.abs(values).max(-1, keepdims=True)
    levels = np.divide(values, tops, out=np.zeros_like(values), where=tops > 0)
    likely = [found.probability(row) for row in range(len(found.pieces))]
    width = (console.width - longest - 9) // max(1, len(shown)) - 1
    width = min(max(width, NARROWEST), NAME)
    signed, plain = is_signed(found), paint.is_plain(console)
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("answer", justify="right" if longest == TOKEN else "left", no_wrap=True)
    table.add_column("likely", justify="right", no_wrap=True)
    for part in (found.parts[at] for at in shown):
        table.add_column(label(part.name, width), no_wrap=True, width=width)
    for text, probability, row in zip(found.piece_texts, likely, levels, strict=True):
        cells = [
            paint.cell(float(level), width, found.method, signed=signed, plain=plain)
            for level in row
        ]
        table.add_row(Text(label(text, longest)), Text(share(probability), "dim"), *cells)
    means = "" if longest == TOKEN else "; likely: its tokens' geometric mean"
    left = len(found.parts) - len(shown)
    fewer = f"; {left} parts with less are left out" if left else ""
    table.caption = Text(f"each row from 0 to its own highest score{means}{fewer}", style="dim")
    table.caption_justify = "left"
    return table
