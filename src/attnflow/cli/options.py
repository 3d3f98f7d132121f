"""What several commands take beside the options of the library's functions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnflow.options.option import INPUT

_OUTPUT = "Output"

Texts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEXT",
        help='Texts, each in quotes (or files of images or sounds); "-" is standard input.',
        show_default=False,
    ),
]
OneText = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT",
        help='The text, in quotes (or the file of an image or sound); "-" is standard input.',
        show_default=False,
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="Read texts from a file, one per line.",
        rich_help_panel=INPUT,
    ),
]
_pair = typer.Option(
    "--pair",
    metavar="TEXT",
    help="The second text, for models that read two as one input; repeat it for several texts.",
    rich_help_panel=INPUT,
    show_default=False,
)
Pair = Annotated[str | None, _pair]
Pairs = Annotated[list[str] | None, _pair]
Chat = Annotated[
    Path | None,
    typer.Option(
        "--chat",
        metavar="FILE",
        help='The prompt as messages: JSON, [{"role": "user", "content": "…"}].',
        rich_help_panel=INPUT,
        show_default=False,
    ),
]
PromptParts = Annotated[
    list[str] | None,
    typer.Option(
        "--part",
        metavar="NAME=FILE",
        help="A named part of the prompt: put before the text, or a piece of a message; "
        "repeatable.",
        rich_help_panel=INPUT,
        show_default=False,
    ),
]
PartRoles = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="NAME=ROLE",
        help="What a part is to the answer: source, instructions or question; repeatable.",
        rich_help_panel=INPUT,
        show_default=False,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        help="Sample the answer's tokens at this temperature.",
        rich_help_panel=INPUT,
        show_default="the most likely token is taken each time",
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p",
        help="Sample from the most likely tokens whose probabilities sum to this.",
        rich_help_panel=INPUT,
        show_default=False,
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        "--top-k",
        help="Sample from this many of the most likely tokens.",
        rich_help_panel=INPUT,
        show_default=False,
    ),
]
DataSet = Annotated[
    Path,
    typer.Argument(
        metavar="INPUT",
        help="A JSONL, CSV, TSV, Parquet or text file, or the folder of a Hugging Face data set.",
    ),
]


def _load_plugins(modules: list[str] | None) -> list[str] | None:
    from attnflow.registry import load_plugin

    for module in modules or ():
        load_plugin(module)
    return modules


Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="MODULE",
        help="Import a module or file that registers methods or edge rules; repeat for several.",
        callback=_load_plugins,
        is_eager=True,
        rich_help_panel=INPUT,
        show_default=False,
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print JSON and nothing else, one line per text.", rich_help_panel=_OUTPUT
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Also print definitions of methods, legends, layers and rank correlations.",
        rich_help_panel=_OUTPUT,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Overwrite files that exist.", rich_help_panel=_OUTPUT),
]
