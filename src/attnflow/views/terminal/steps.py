"""A chain of thought in a terminal: its steps, one a line, and arrows from what each one reads."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from attnflow.records.reasoning import Reasoning
from attnflow.views.lanes import lanes_of
from attnflow.views.terminal.lines import model_name, paragraph, title, warning_lines
from attnflow.views.wording.labels import isolate, label, printable
from attnflow.views.wording.names import describe_edges, name_of
from attnflow.views.wording.numbers import listed, share
from attnflow.views.wording.steps import TITLES, UNMEASURED, change, summarize

NAME = 16
TEXT = 12  # cells of a step's text at least
NUMBERS = 43  # cells of all other columns
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8  # where the lines of a cell lead
LINES = " ╵╷│╴╯╮┤╶╰╭├─┴┬┼"
BOLD = ("needed", "passed on")


def show_steps(found: Reasoning, console: Console) -> None:
    """Print what the conclusion depends on, and the steps with the numbers behind it."""
    about = [
        f"{name_of(found)}{describe_edges(found.options)}",
        model_name(found.model),
        "log-probability of the conclusion "
        + listed(float(found.log_probabilities[found.conclusion])),
    ]
    console.print(
        Group(
            title(prompt_of(found)),
            *(paragraph(each, console.width) for each in summarize(found)),
            Text(" · ".join(about), style="dim"),
            *warning_lines(found.warnings),
            Text(""),
            step_table(found, console),
        )
    )


def prompt_of(found: Reasoning) -> str:
    """The parts of the prompt, without what a chat template puts around them."""
    return " ".join(step.text for step in found.steps if step.kind == "part")


def step_table(found: Reasoning, console: Console) -> Table:
    """The steps from above to below, with arrows from each step to those that read it."""
    shown = [*found.sources, found.conclusion]
    arrows = draw_arrows(
        [(shown.index(e.source), shown.index(e.target)) for e in found.edges], len(shown)
    )
    rows = {found.find(row.name): row for row in found.table()}
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("step", no_wrap=True)
    names = [label(found.steps[at].name, NAME) for at in shown]
    room = max(TEXT, console.width - len(arrows[0]) - max(map(cell_len, names)) - NUMBERS)
    table.add_column("", no_wrap=True, overflow="ellipsis", max_width=room)
    for head in ("hidden", "deleted", "score"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for line, name, number in zip(arrows, names, shown, strict=True):
        step, row = found.steps[number], rows.get(number)
        cells = ["", "", "", UNMEASURED if number in found.unmeasured else ""]
        if row is not None:
            gone = "" if row.deleted is None else change(row.deleted)
            carried = "" if row.share is None else share(row.share)
            cells = [change(row.direct), gone, carried, TITLES[row.role]]
        ends = number == found.conclusion
        strong = "bold" if ends or (row and (row.role in BOLD or row.through)) else "dim"
        text = Text(isolate(printable(step.text.strip())), strong)
        table.add_row(Text(line, "cyan"), Text(name, strong), text, *cells)
    table.caption = Text(
        "hidden from the conclusion, deleted: change of its log-probability; score: share of what "
        "it came from; ▶: a step that reads the one where the line starts, as measured",
        style="dim",
    )
    table.caption_justify = "left"
    return table


def draw_arrows(edges: Sequence[tuple[int, int]], rows: int) -> list[str]:
    r"""A line for each row, with a lane for each row that arrows start from.

    >>> print("\n".join(draw_arrows([(0, 2), (1, 2)], 3)))
    ╭───
    │ ╭─
    ╰─┴▶
    """
    lanes = lanes_of(edges)
    width = 2 * (1 + max((lane.column for lane in lanes), default=-1))
    grid = [[0] * width for _ in range(rows)]
    for source, targets, column in lanes:
        for row in range(source, targets[-1] + 1):
            above, below = UP * (row > source), DOWN * (row < targets[-1])
            grid[row][2 * column] |= above | below
    for source, targets, column in lanes:
        for row in (source, *targets):
            # A lane that neither starts nor ends here is crossed, not joined.
            passing = {
                2 * other.column
                for other in lanes
                if other.source < row < other.targets[-1] and row not in other.targets
            }
            grid[row][2 * column] |= RIGHT
            for at in range(2 * column + 1, width):
                grid[row][at] |= 0 if at in passing else LEFT | RIGHT
    lines = ["".join(LINES[cell] for cell in row) for row in grid]
    for _, target in edges:
        lines[target] = lines[target][:-1] + "▶"
    return lines
