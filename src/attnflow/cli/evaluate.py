"""``attnflow evaluate``: methods against each other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attnflow.cli import options as own
from attnflow.cli.command import Given, command, parse_methods
from attnflow.cli.estimate import MANY, estimate_rows
from attnflow.cli.streams import echo
from attnflow.io.files import check_target
from attnflow.options.tables import EvaluateOptions

if TYPE_CHECKING:
    from attnflow.evaluation.result import Evaluation

Save = Annotated[
    Path | None, own.flag("--result FILE", "Save every number as JSON, for Evaluation.load.")
]
Tables = Annotated[
    list[Path] | None,
    own.flag(
        "--table FILE",
        "Save the table as .csv, .json, .md or .tex; repeat for several.",
        show_default=False,
    ),
]
Curves = Annotated[
    Path | None, own.flag("--curves FILE", "Draw the curves of deletion and insertion.")
]
Ranks = Annotated[
    Path | None,
    own.flag(
        "--ranks FILE",
        "Draw the mean ranks by the first metric, and which ranks do not differ significantly.",
    ),
]


@command(EvaluateOptions, several=["methods", "edges", "metrics", "replacement"])
def evaluate(  # noqa: PLR0913 - one argument per option of its own
    data: own.DataSet,
    *,
    options: Given,
    model: Any,
    result: Save = None,
    table: Tables = None,
    curves: Curves = None,
    ranks: Ranks = None,
    force: own.Force = False,
    dry_run: own.DryRun = False,
    plugin: own.Plugins = None,
) -> None:
    """Evaluate methods on a data set, with intervals, next to baselines.

    Example: attnflow evaluate reviews.tsv -m my-classifier --limit 100 --table table.md
    """
    from attnflow.evaluation.evaluate import evaluate as measure
    from attnflow.evaluation.tables import check_table
    from attnflow.views.figures.files import check_file
    from attnflow.views.figures.files import save as save_figure

    if result is not None:
        check_target(result, overwrite=force)
    for file in table or ():
        check_table(file, overwrite=force)
    for figure in (curves, ranks):
        if figure is not None:
            check_file(figure, overwrite=force)
    options["methods"] = parse_methods(options.get("methods")) or None
    estimate_rows(
        *(data, model, options),
        lambda row, loaded, how: measure([row], loaded, **how),
        many=None if dry_run else MANY,
    )
    if dry_run:
        return
    found = measure(data, model, **options, progress=sys.stderr.isatty())
    if result is not None:
        found.save(result, overwrite=True)
    for file in table or ():
        found.save_table(file, overwrite=True)
    if curves is not None:
        save_figure(found.figure("curves"), curves, overwrite=True)
    if ranks is not None:
        save_figure(found.figure("ranks"), ranks, overwrite=True)
    _show(found)


def _show(found: Evaluation) -> None:
    from rich.console import Console

    from attnflow.views.terminal.evaluations import show_evaluation

    show_evaluation(found, Console(highlight=False))
    if found.skipped:
        row, why = found.skipped[0]
        many = "1 row was" if len(found.skipped) == 1 else f"{len(found.skipped)} rows were"
        echo(f"{many} skipped; row {row}: {why}", err=True)
