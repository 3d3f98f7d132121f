"""``attnflow run``: explain every row of a data set."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnflow.cli import options as own
from attnflow.cli.command import Given, command, parse_methods
from attnflow.cli.estimate import estimate_rows
from attnflow.cli.streams import echo
from attnflow.options.tables import RunOptions

if TYPE_CHECKING:
    from attnflow.records import Attribution
    from attnflow.runs.reading import Run

MANY_ROWS = 1000  # of which two more do not matter, nor that the model is loaded for them

Out = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="DIR", help="The folder to write, or to continue."),
]


@command(RunOptions, several=["methods", "edges"])
def run(
    data: own.DataSet,
    *,
    options: Given,
    model: Any,
    out: Out,
    dry_run: own.DryRun = False,
    plugin: own.Plugins = None,
) -> None:
    """Explain every row of a data set, into a folder of Parquet files.

    Files appear whole or not at all; after a crash, run the same command again to continue.

    Example: attnflow run reviews.jsonl -o explained --layers all --workers 2
    """
    from attnflow.api.run import run as explain_rows

    options["methods"] = parse_methods(options.get("methods")) or None
    if dry_run or not out.exists():  # what goes on with a folder has less to do
        with TemporaryDirectory() as folder:
            estimate_rows(
                *(data, model, options),
                lambda row, loaded, how: explain_rows([row], mkdtemp(dir=folder), loaded, **how),
                many=None if dry_run else MANY_ROWS,
            )
    if dry_run:
        return
    how: Given = {"plugins": plugin or (), "progress": sys.stderr.isatty()}
    try:
        made = explain_rows(data, out, model, **options, **how)
    except KeyboardInterrupt:
        echo("finished rows are kept: run the same command again to continue", err=True)
        raise
    count = made.manifest["finished"]["errors"]
    kept = "all of them" if made.kept == made.rows else f"{made.kept} of them"
    before = f"; {kept} had been explained before" if made.kept else ""
    made_by = _made_by(made)
    echo(f"{made.rows} rows, {len(made)} attributions{made_by} in {made.folder}{before}")
    if count:
        first = made.errors[0]
        rows = "1 row" if count == 1 else f"{count} rows"
        told = f"{rows} could not be explained; row {first.row}: {first.error}"
        echo(told, err=True)
    if count == made.rows:
        raise typer.Exit(1)


def _made_by(made: Run) -> str:
    """The methods, the edges that they read and a correction, as the first row has them."""
    _, _, first = next(made.explained(), (0, None, []))
    named = [_name(each) for each in first]
    return f" ({'; '.join(dict.fromkeys(named))})" if named else ""


def _name(of: Attribution) -> str:
    from attnflow.views.wording.names import name_with_edges

    correction = of.options.get("correction")
    return name_with_edges(of) + (f", {correction}" if correction else "")
