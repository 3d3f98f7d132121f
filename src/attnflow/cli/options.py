"""What several commands take beside the options of the library's functions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.options.option import INPUT, split_flags

OUTPUT = "Output"


def flag(flags: str, help: str, panel: str = OUTPUT, **more: Any) -> Any:
    """An option in a group of the help page; ``flags`` are such as ``"--file -f FILE"``."""
    names, metavar = split_flags(flags)
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **more)


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
    Path | None, flag("--file -f FILE", "Read texts from a file, one per line.", panel=INPUT)
]
_pair = flag(
    "--pair TEXT",
    "The second text, for models that read two as one input; repeat it for several texts.",
    panel=INPUT,
    show_default=False,
)
Pair = Annotated[str | None, _pair]
Pairs = Annotated[list[str] | None, _pair]
Chat = Annotated[
    Path | None,
    flag(
        "--chat FILE",
        'The prompt as messages, [{"role": "user", "content": "…"}], or what a server or a log has '
        "of it: JSON, or JSON lines.",
        panel=INPUT,
        show_default=False,
    ),
]
PromptParts = Annotated[
    list[str] | None,
    flag(
        "--part NAME=FILE",
        "A named part of the prompt: put before the text, or a piece of a message; repeatable.",
        panel=INPUT,
        show_default=False,
    ),
]
PartRoles = Annotated[
    list[str] | None,
    flag(
        "--role NAME=ROLE",
        "What a part is to the answer: source, instructions or question; repeatable.",
        panel=INPUT,
        show_default=False,
    ),
]
Temperature = Annotated[
    float | None,
    flag(
        "--temperature",
        "Sample the answer's tokens at this temperature.",
        panel=INPUT,
        show_default="the most likely token is taken each time",
    ),
]
TopP = Annotated[
    float | None,
    flag(
        "--top-p",
        "Sample from the most likely tokens whose probabilities sum to this.",
        panel=INPUT,
        show_default=False,
    ),
]
TopK = Annotated[
    int | None,
    flag(
        "--top-k",
        "Sample from this many of the most likely tokens.",
        panel=INPUT,
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
    flag(
        "--plugin MODULE",
        "Import a module or file that registers methods or edge rules; repeat for several.",
        panel=INPUT,
        callback=_load_plugins,
        is_eager=True,
        show_default=False,
    ),
]
Json = Annotated[bool, flag("--json", "Print JSON and nothing else, one line per text.")]
Verbose = Annotated[
    bool,
    flag(
        "--verbose -v", "Also print definitions of methods, legends, layers and rank correlations."
    ),
]
Force = Annotated[bool, flag("--force", "Overwrite files that exist.")]
DryRun = Annotated[
    bool,
    flag(
        "--dry-run",
        "Only tell what it would take: forward passes, time and memory, measured on one text.",
    ),
]
