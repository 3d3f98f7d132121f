"""``attnflow run``: explain every row of a data set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from attnflow.cli import model_options, options, parsing
from attnflow.cli.errors import printable

_INPUT, _WORK = "Input", "Work"

Input = Annotated[
    Path,
    typer.Argument(
        metavar="INPUT",
        help="A JSONL, CSV, TSV, Parquet or text file, or the folder of a Hugging Face data set.",
    ),
]
Out = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="DIR", help="The folder to write, or to go on with."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="jsonl, csv, tsv, parquet, text or dataset.",
        show_default="what the file's name tells",
        rich_help_panel=_INPUT,
    ),
]
TextColumn = Annotated[
    str,
    typer.Option(
        "--text-column", metavar="NAME", help="The column of the text.", rich_help_panel=_INPUT
    ),
]
TargetColumn = Annotated[
    str | None,
    typer.Option(
        "--target-column",
        metavar="NAME",
        help="The column of the target, where something depends on one.",
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id-column",
        metavar="NAME",
        help="A column that names each row.",
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
PairColumn = Annotated[
    str | None,
    typer.Option(
        "--pair-column",
        metavar="NAME",
        help="The column of the second text, where the model reads two as one input.",
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
ManyEdges = Annotated[
    list[str] | None,
    typer.Option(
        "--edges",
        metavar="RULE",
        help="What the edges are made of: {edges}.",
        rich_help_panel="Selection",
        show_default="auto; in evaluate attention, too; repeat for several",
    ),
]
BatchSize = Annotated[
    int,
    typer.Option(
        "--batch-size",
        metavar="N",
        min=1,
        help="How many texts run through the model together.",
        rich_help_panel=_WORK,
    ),
]
ShardSize = Annotated[
    int,
    typer.Option(
        "--shard-size",
        metavar="N",
        min=1,
        help="How many rows a file has.",
        rich_help_panel=_WORK,
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        help="How many processes work; each loads the model.",
        rich_help_panel=_WORK,
    ),
]
Threads = Annotated[
    int,
    typer.Option(
        "--threads",
        metavar="N",
        min=1,
        help="How many threads each of them uses.",
        rich_help_panel=_WORK,
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Let workers run on a Ray cluster: auto, host:6379, or local to start one here.",
        rich_help_panel=_WORK,
        show_default=False,
    ),
]
GpusPerWorker = Annotated[
    float,
    typer.Option(
        "--gpus-per-worker",
        metavar="N",
        min=0,
        help="On a Ray cluster: how many GPUs each worker has, such as 1 or 0.5.",
        rich_help_panel=_WORK,
    ),
]


def run(  # noqa: PLR0913 - one argument per option
    source: Input,
    *,
    out: Out,
    file_format: Format = None,
    text_column: TextColumn = "text",
    target_column: TargetColumn = None,
    id_column: IdColumn = None,
    pair_column: PairColumn = None,
    model: options.Model = None,
    contrast: options.Contrast = None,
    start: options.Source = "position",
    truncate: options.Truncate = False,
    bos: options.Bos = False,
    strict: options.Strict = False,
    device: model_options.Device = None,
    dtype: model_options.Dtype = None,
    revision: model_options.Revision = None,
    trust_remote_code: model_options.Trust = False,
    method: options.Methods = None,
    edges: ManyEdges = None,
    steps: options.Steps = None,
    layer: options.Layer = None,
    layers: options.Layers = None,
    query: options.Query = None,
    heads: options.Heads = "mean",
    residual: options.Residual = None,
    correction: options.Correction = "auto",
    words: options.Words = False,
    batch_size: BatchSize = 16,
    shard_size: ShardSize = 1000,
    workers: Workers = 1,
    threads: Threads = 1,
    ray: Ray = None,
    gpus_per_worker: GpusPerWorker = 0,
    plugin: options.Plugins = None,
) -> None:
    """Explain every row of a data set, into a folder of Parquet files.

    Files appear whole or not at all: after a crash the same command goes on.

    Example: attnflow run reviews.jsonl -o explained --layers all --workers 2
    """
    from attnflow.api.run import run as explain_rows

    try:
        made = explain_rows(
            source,
            out,
            model_options.choose(model, device, dtype, revision, trust_remote_code),
            text_column=text_column,
            target_column=target_column,
            id_column=id_column,
            pair_column=pair_column,
            format=file_format,
            methods=parsing.parse_methods(method) or None,
            edges=edges or "auto",
            layer=layer,
            layers=parsing.parse_layers(layers),
            query=parsing.parse_query(query),
            heads=parsing.parse_heads(heads),
            residual=residual,
            correction=parsing.parse_correction(correction),
            words=words,
            contrast=parsing.parse_target(contrast),
            source=start,
            steps=steps,
            truncate=truncate,
            bos=bos,
            strict=strict,
            batch_size=batch_size,
            shard_size=shard_size,
            workers=workers,
            threads=threads,
            ray=ray,
            gpus_per_worker=gpus_per_worker,
            plugins=plugin or (),
            progress=sys.stderr.isatty(),
        )
    except KeyboardInterrupt:
        typer.echo("what is finished is kept: the same command goes on", err=True)
        raise
    count = made.manifest["finished"]["errors"]
    typer.echo(f"{made.rows} rows, {len(made)} attributions in {made.folder}")
    if count:
        first = made.errors[0]
        rows = "1 row" if count == 1 else f"{count} rows"
        told = f"{rows} could not be explained; row {first.row}: {first.error}"
        typer.echo(printable(told), err=True)
    if count == made.rows:
        raise typer.Exit(1)
