"""``attnflow evaluate``: methods against each other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnflow.cli import method_options, model_options, options, parsing
from attnflow.cli.data_options import Format, Input, PairColumn, TargetColumn, TextColumn
from attnflow.cli.streams import echo
from attnflow.io.files import check_target

if TYPE_CHECKING:
    from attnflow.evaluation.result import Evaluation

_OUTPUT = "Output"

RationaleColumn = Annotated[
    str | None,
    typer.Option(
        "--rationale-column",
        metavar="NAME",
        help="A column with a number for each word: what people marked.",
        rich_help_panel="Input",
        show_default=False,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        min=1,
        help="Evaluate so many rows at most.",
        rich_help_panel="Input",
        show_default="all",
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="METRIC",
        help="The metric; repeat for several.",
        rich_help_panel="Selection",
        show_default="all that can be measured",
    ),
]
Fillers = Annotated[
    list[str] | None,
    typer.Option(
        "--filler",
        metavar="NAME",
        help="What stands for removed tokens: unk, mask, delete or mean.",
        rich_help_panel="Selection",
        show_default="unk; repeat for several",
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        "--result",
        metavar="FILE",
        help="Save every number as JSON, for Evaluation.load.",
        rich_help_panel=_OUTPUT,
    ),
]
Tables = Annotated[
    list[Path] | None,
    typer.Option(
        "--table",
        metavar="FILE",
        help="Save the table as .csv, .json, .md or .tex; repeat for several.",
        rich_help_panel=_OUTPUT,
        show_default=False,
    ),
]
Curves = Annotated[
    Path | None,
    typer.Option(
        "--curves",
        metavar="FILE",
        help="Draw the curves of deletion and insertion.",
        rich_help_panel=_OUTPUT,
    ),
]
Ranks = Annotated[
    Path | None,
    typer.Option(
        "--ranks",
        metavar="FILE",
        help="Draw the mean ranks by the first metric, and what can't be told apart.",
        rich_help_panel=_OUTPUT,
    ),
]


def evaluate(  # noqa: PLR0913 - one argument per option
    source: Input,
    *,
    file_format: Format = None,
    text_column: TextColumn = "text",
    target_column: TargetColumn = None,
    rationale_column: RationaleColumn = None,
    pair_column: PairColumn = None,
    limit: Limit = None,
    model: options.Model = None,
    bos: options.Bos = False,
    device: model_options.Device = None,
    dtype: model_options.Dtype = None,
    revision: model_options.Revision = None,
    trust_remote_code: model_options.Trust = False,
    method: method_options.ComparedMethods = None,
    edges: method_options.ComparedEdges = None,
    layers: options.Layers = None,
    start: options.Source = "position",
    metric: Metrics = None,
    filler: Fillers = None,
    result: Save = None,
    table: Tables = None,
    curves: Curves = None,
    ranks: Ranks = None,
    force: options.Force = False,
    plugin: options.Plugins = None,
) -> None:
    """Evaluate methods on a data set, with intervals, beside baselines.

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
    found = measure(
        source,
        model_options.choose(model, device, dtype, revision, trust_remote_code),
        methods=parsing.parse_methods(method) or None,
        edges=edges or None,
        layers=parsing.parse_layers(layers),
        source=start,
        metrics=metric,
        fillers=filler or "unk",
        text_column=text_column,
        target_column=target_column,
        rationale_column=rationale_column,
        pair_column=pair_column,
        format=file_format,
        limit=limit,
        bos=bos,
        progress=sys.stderr.isatty(),
    )
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
