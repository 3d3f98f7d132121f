"""What a model says without some of its attention edges, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnflow.records.knockout import Knockout, Outcome
from attnflow.views.terminal.lines import model_name, paragraph, title, warning_lines
from attnflow.views.wording.knockouts import count_edges
from attnflow.views.wording.labels import label
from attnflow.views.wording.numbers import as_sentence, number, percent

LABEL = 24


def show_knockout(found: Knockout, console: Console) -> None:
    """Print what was removed, the sentence, and the numbers behind it."""
    removed = Text(found.label, "bold")
    kept = f"; {found.kept} own edges stay" if found.kept else ""
    removed.append(f" · {count_edges(found)}{kept} · {model_name(found.model)}", "not bold dim")
    summary = paragraph(as_sentence(found.summary), console.width)
    lines: list[RenderableType] = [title(found.text), removed, summary]
    lines += [*warning_lines(found.warnings), Text(""), _table(found)]
    console.print(Group(*lines))


def _table(found: Knockout) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for _ in range(3 if found.contrast is not None else 2):
        table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    contrast = [] if found.contrast is None else [Text("logits apart", "dim")]
    predicts = [] if found.answer is not None else [Text("prediction", "dim")]
    name = "the answer" if found.answer is not None else label(found.target, LABEL)
    table.add_row("", Text(name, "dim"), Text("log p", "dim"), *contrast, *predicts)
    _add(table, "as it is", [found.before])
    _add(table, "without these edges", [found.after])
    if found.random:
        _add(table, f"random edges, mean of {len(found.random)}", found.random)
    return table


def _add(table: Table, name: str, outcomes: Sequence[Outcome]) -> None:
    cells = [
        percent(fmean(each.probability for each in outcomes)),
        number(fmean(each.log_probability for each in outcomes)),
    ]
    margins = [each.margin for each in outcomes if each.margin is not None]
    if margins:
        cells.append(number(fmean(margins)))
    predicted = {each.prediction.label for each in outcomes if each.prediction is not None}
    if predicted:
        cells.append(", ".join(label(each, LABEL) for each in sorted(predicted)))
    table.add_row(name, *cells)
