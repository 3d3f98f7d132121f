"""An evaluation as a table: CSV, JSON, Markdown, LaTeX; and what it comes to."""

from __future__ import annotations

import csv
import io
import json
import math
import textwrap
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnflow.errors import InputError, unknown
from attnflow.evaluation.explainers import DRAWN
from attnflow.evaluation.metrics import METRICS
from attnflow.evaluation.result import Evaluation, Line
from attnflow.evaluation.statistics import EXACT, smallest_p
from attnflow.io.files import check_target, write_file

SURE = 0.05
TIES = " ‡"
"""Behind the name of an explainer that has equal scores on some texts."""
NOTE = (
    "Means over {texts} texts with 95 % bootstrap intervals; ↑ higher is better, ↓ lower. {best} "
    "the best; † no significant difference to it (paired, Holm, p ≥ 0.05); undefined texts in ()."
)


def describe(of: Evaluation, best: str = "In bold") -> str:
    """What the numbers of a table are, and whether so few texts can tell methods apart at all.

    ``best`` says how the best of a column is marked.
    """
    note = NOTE.format(texts=of.texts, best=best)
    tied = [f"{each.label} on {n}" for each, n in zip(of.explainers, of.tied, strict=True) if n]
    if tied:
        note = f"{note}{TIES} Equal scores, taken in the order of the text: {', '.join(tied)}."
    if any(each.edges == "attention" for each in of.explainers):
        note = f"{note} Methods without “on” read attention edges, or none."
    pairs = len(of.explainers) * (len(of.explainers) - 1) // 2
    least = smallest_p(of.texts, pairs)
    if pairs == 0 or least < SURE:
        return f"{note} {conclusion(of)}".strip()
    enough = (n for n in range(of.texts + 1, EXACT + 2) if smallest_p(n, pairs) < SURE)
    needed = next(enough, None)
    more = f"; {needed} texts or more can" if needed else "; compare fewer methods"
    return (
        f"{note} Too few texts: with {of.texts} of them and {pairs} pairs of methods no p can be "
        f"below {least:.2g}, so that nothing is told apart{more}."
    )


def conclusion(of: Evaluation) -> str:
    """What the table comes to: the best of its first column, and who can't be told from it."""
    groups = [
        [line for line in of.lines if line.column == each and not math.isnan(line.mean)]
        for each in of.columns
    ]
    compared = [lines for lines in groups if any(line.best for line in lines)]
    if not compared or len(of.explainers) < 2:
        return ""
    first = sorted(compared[0], key=lambda line: not line.best)
    even = [line.explainer for line in first if not line.p < SURE]
    column = first[0].column
    name = f"{METRICS[column.metric].title} ({column.against})"
    found = f"By {name} {even[0].label} is best"
    if len(even) > 1:
        found += f"; not told apart from it: {', '.join(each.label for each in even[1:])}"
    worse = len(first) - len(even)
    found += f"; {worse} of {len(first)} are worse." if worse else "."
    if any(each.method in DRAWN for each in even):
        return f"{found} An order that reads nothing does as well, so that this column ranks none."
    if len(compared) > 1:
        often = {
            each.label: sum(
                not line.p < SURE for lines in compared for line in lines if line.explainer == each
            )
            for each in of.explainers
        }
        most = max(often.values())
        names = [label for label, count in often.items() if count == most]
        found += f" Best or not told apart from the best in most columns, {most} of "
        found += f"{len(compared)}: {', '.join(names)}."
    return found


def records(of: Evaluation) -> list[dict[str, Any]]:
    """One record for each explainer and column."""
    found = []
    for line in of.lines:
        plain = asdict(line)
        explainer, column = plain.pop("explainer"), plain.pop("column")
        higher = METRICS[line.column.metric].higher
        found.append({**explainer, **column, "higher_is_better": higher, **plain})
    return found


def grids(of: Evaluation) -> list[tuple[str, list[str], list[tuple[str, list[Line]]]]]:
    """For each filler, reference or rationale: its metrics, and the explainers' lines."""
    found = []
    for against in dict.fromkeys(column.against for column in of.columns):
        lines = [line for line in of.lines if line.column.against == against]
        names = list(dict.fromkeys(line.column.metric for line in lines))
        titles = [METRICS[name].title + (" ↑" if METRICS[name].higher else " ↓") for name in names]
        rows = [
            (each.label + TIES * (tied > 0), [line for line in lines if line.explainer == each])
            for each, tied in zip(of.explainers, of.tied, strict=True)
        ]
        found.append((against, titles, rows))
    return found


def cell(line: Line) -> str:
    """The mean with its interval, whether it may be as good as the best, and what is left out."""
    if math.isnan(line.mean):
        return "undefined"
    ends = "" if math.isnan(line.low) else f" [{line.low:.3f}, {line.high:.3f}]"
    mark = " †" if not line.best and line.p >= SURE else ""
    return f"{line.mean:.3f}{ends}{mark}" + (f" ({line.undefined})" if line.undefined else "")


def to_csv(of: Evaluation) -> str:
    """A line for each explainer and column."""
    rows = records(of)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]) if rows else ["method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def to_json(of: Evaluation) -> str:
    """The same as JSON."""
    plain = [
        {key: None if isinstance(v, float) and math.isnan(v) else v for key, v in row.items()}
        for row in records(of)
    ]
    return json.dumps(plain, indent=1) + "\n"


def to_markdown(of: Evaluation) -> str:
    """A table for each filler, reference or rationale."""
    parts = []
    for against, titles, rows in grids(of):
        lines = [
            f"### {against}",
            "",
            f"| | {' | '.join(titles)} |",
            "|---" * (len(titles) + 1) + "|",
        ]
        for label, cells in rows:
            shown = [f"**{cell(each)}**" if each.best else cell(each) for each in cells]
            lines.append(f"| {label} | {' | '.join(shown)} |")
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, describe(of)]) + "\n"


def to_latex(of: Evaluation) -> str:
    """The same for LaTeX, with booktabs."""
    parts = []
    for against, titles, rows in grids(of):
        lines = [f"% {against}", rf"\begin{{tabular}}{{l{'r' * len(titles)}}}", r"\toprule"]
        lines.append(" & ".join(["", *map(_latex, titles)]) + r" \\ \midrule")
        for label, cells in rows:
            shown = [rf"\textbf{{{_latex(cell(c))}}}" if c.best else _latex(cell(c)) for c in cells]
            lines.append(" & ".join([_latex(label), *shown]) + r" \\")
        parts.append("\n".join([*lines, r"\bottomrule", r"\end{tabular}"]))
    notes = "\n".join(f"% {line}" for line in textwrap.wrap(describe(of)))
    return "\n\n".join([*parts, notes]) + "\n"


LATEX = {
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "%": r"\%",
    "_": r"\_",
}


def _latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


WRITERS: dict[str, Callable[[Evaluation], str]] = {
    ".csv": to_csv,
    ".json": to_json,
    ".md": to_markdown,
    ".tex": to_latex,
}


def write_table(of: Evaluation, format: str) -> str:
    """The table as text, in a format that is named as a file would end, with or without a dot."""
    writer = WRITERS.get(f".{str(format).removeprefix('.')}")
    if writer is None:
        raise InputError(
            unknown("format", format, [ending.removeprefix(".") for ending in WRITERS])
        )
    return writer(of)


def save_table(of: Evaluation, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write the table in the format that the file's name tells."""
    place = check_table(path, overwrite=overwrite)
    write_file(place, WRITERS[place.suffix](of).encode(errors="backslashreplace"))
    return place


def check_table(path: str | Path, *, overwrite: bool) -> Path:
    """The file's path, if a table may be written there."""
    place = check_target(path, overwrite=overwrite)
    if place.suffix not in WRITERS:
        msg = f"can't tell the format of {place.name!r}; let it end in one of: {', '.join(WRITERS)}"
        raise InputError(msg)
    return place
