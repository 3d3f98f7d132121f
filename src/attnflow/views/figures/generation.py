"""Where a whole answer came from: its pieces × prompt, with the prompt's parts marked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError
from attnflow.records.generation import Generation
from attnflow.records.parts import Part
from attnflow.views.figures import axes, maps
from attnflow.views.figures.axes import Scale, Theme
from attnflow.views.figures.fonts import families_for
from attnflow.views.kinds import Kind
from attnflow.views.wording.labels import clip
from attnflow.views.wording.names import info_of, is_signed, rule_name, title_on, unit_note, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMN = 0.13  # inches of a token of the prompt, as long as they fit
NARROWEST, WIDEST = 2.4, 13.0
MOST_NAMED = 100  # columns that have their tokens below them
LETTER = 0.075  # inches of a part's name
PAGE = 7.0  # inches of a page on which tokens below columns are still apart
SMALLEST = 4.5  # points
WIDEST_NOTE = 100  # characters
LONGEST_ROW = 40  # cells of a sentence


def draw(
    ax: Axes,
    found: Generation,
    theme: Theme,
    *,
    values: bool = False,
    relative: bool = False,
) -> None:
    """The answer's pieces, down, by the tokens of the prompt, across.

    ``values`` writes the numbers into the cells. ``relative`` gives each row colours from 0 to its
    own highest score, so that tokens which were never in doubt show theirs, too.
    """
    places = _prompt(found)
    scores = found.matrix()[:, places]
    signed = is_signed(found)
    # Special tokens collect what has nowhere else to go: they don't set the scale.
    words = found.word_ids or (0,) * len(found.tokens)
    ordinary = [column for column, at in enumerate(places) if words[at] is not None]
    tops = np.abs(scores[:, ordinary]).max(-1, initial=0.0)
    levels = scores / np.where(tops > 0, tops, 1.0)[:, None] if relative else scores
    mesh = maps.cells(ax, levels, theme, method=found.method, signed=signed)
    largest = 1.0 if relative else float(tops.max(initial=0.0))
    if largest:
        mesh.set_clim(-largest if signed else 0.0, largest)
    if values:
        maps.write_values(ax, scores, mesh, theme)
    tokens = axes.labels(found.tokens)
    # Positions of repeated tokens are those in prompt and answer together.
    rows = [
        tokens[found.answer[first]] if last - first == 1 else clip(text, LONGEST_ROW)
        for (first, last), text in zip(found.pieces, found.piece_texts, strict=True)
    ]
    axes.name_ticks(ax.yaxis, rows, theme.ink, Scale(len(rows)).font)
    named = len(places) <= MOST_NAMED
    if named:
        names = [tokens[at] for at in places]
        axes.name_ticks(ax.xaxis, names, theme.ink, _font(len(places)))
        ax.tick_params(axis="x", rotation=90)
    else:
        ax.set_xticks([])
    _mark_parts(ax, found, theme)
    ratio = found.ratios
    meaning = "× chance" if ratio else unit_of(found.method, found.options) or "score"
    maps.colour_scale(ax, mesh, theme, "0 to the highest of each row" if relative else meaning)
    edges = str(found.options.get("edges", "attention"))
    shown = title_on(found.method, edges)
    axes.heading(ax, shown, theme, axes.colour_name(found), above=22)
    less = "" if named else f"{len(places)} tokens of the prompt; "
    through = "; handed on to the prompt" if found.options.get("through") == "prompt" else ""
    of = f"; edges: {rule_name(edges)}" if info_of(found).layered else ""
    unit = unit_note(found.method, found.options)
    sums = f"; {unit}" if unit and not relative else ""
    axes.note(ax, f"{less}rows: the answer{found.stopped}{through}{of}{sums}", theme)
    axes.fit_note(ax, size(found, values=values)[0], most=WIDEST_NOTE)
    axes.remove_frame(ax, theme)


def size(found: Generation, *, values: bool = False, **_: Any) -> tuple[float, float]:
    """Width and height of the drawing in inches, without tokens and title."""
    columns = len(_prompt(found))
    wide = (0.3 if values else COLUMN) * columns
    below = 0.6 if columns <= MOST_NAMED else 0.0
    return min(max(wide, NARROWEST), WIDEST), Scale(len(found.pieces)).height + below


def _prompt(found: object) -> list[int]:
    """The positions of the prompt."""
    if not isinstance(found, Generation):
        msg = "kind 'generation' draws answers; give what explain_answer(…, generate=40) returned"
        raise InputError(msg)
    written = set(found.answer)
    return [at for at in range(len(found.tokens)) if at not in written]


def _font(columns: int) -> float:
    return min(8.0, max(SMALLEST, PAGE / max(columns, 1) * 72 * 0.85))


def _runs(found: Generation) -> Iterator[tuple[Part, int, int]]:
    """The parts in the order of the prompt, each with its first and last column."""
    owner = {at: part for part in found.parts for at in part.positions}
    columns = list(enumerate(_prompt(found)))
    for part, run in groupby(columns, key=lambda pair: owner[pair[1]]):
        inside = [column for column, _ in run]
        yield part, inside[0], inside[-1]


def _length(run: tuple[Part, int, int]) -> int:
    return run[2] - run[1]


def _mark_parts(ax: Axes, found: Generation, theme: Theme) -> None:
    """A bar above each part with its name, and lines between parts."""
    above = ax.get_xaxis_transform()  # y from the bottom of the axes to the top
    width = size(found)[0] / max(1, len(_prompt(found)))
    runs = list(_runs(found))
    longest = {part.name: last - first for part, first, last in sorted(runs, key=_length)}
    for part, first, last in runs:
        if first:
            ax.axvline(first - 0.5, color=theme.rule, linewidth=0.8, zorder=4)
        if not part.named:
            continue
        ax.plot(
            [first - 0.3, last + 0.3],
            [1.02] * 2,
            color=theme.ink,
            linewidth=2.0,
            transform=above,
            clip_on=False,
            solid_capstyle="butt",
        )
        room = int((last - first + 1) * width / LETTER)
        if room >= 2 and longest.get(part.name) == last - first:
            longest.pop(part.name)  # once, at its longest run
            shown = clip(part.name, room)
            ax.text(
                (first + last) / 2,
                1.035,
                shown,
                ha="center",
                va="bottom",
                fontsize=7.5,
                color=theme.ink,
                transform=above,
                fontfamily=families_for([shown]),
                parse_math=False,
            )


MEMBER = Kind("generation", draw, size, shares_rows=False, answers=True)
