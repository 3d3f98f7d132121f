"""Options of data sets: their columns, and how the work on them is divided."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
