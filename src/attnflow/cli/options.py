"""Options that several commands share, with the same names everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.shipped import DEFAULT

_INPUT = "Input"
_SELECTION = "Selection"
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
        rich_help_panel=_INPUT,
    ),
]


def _model(default: str) -> Any:
    return typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="A shipped model ({shipped}), a Hugging Face name, a folder or a GGUF file.",
        rich_help_panel=_INPUT,
        show_default=default,
    )


Model = Annotated[str | None, _model(DEFAULT)]
Models = Annotated[list[str] | None, _model(DEFAULT)]
VerbsModel = Annotated[str | None, _model("verbs")]


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
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
Layer = Annotated[
    int | None,
    typer.Option(
        "--layer",
        "-l",
        metavar="N",
        help="The layer to explain: 1 … L, or negative from the top.",
        rich_help_panel=_SELECTION,
        show_default="the top",
    ),
]
Layers = Annotated[
    str | None,
    typer.Option(
        "--layers",
        metavar="LAYERS",
        help="Layers to compute and save: all, or numbers: 1,3,6.",
        rich_help_panel=_SELECTION,
        show_default="the layer to explain",
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        "--query",
        "-q",
        metavar="TOKEN",
        help="The position to explain: a token or its number, from 0.",
        rich_help_panel=_SELECTION,
        show_default="where the model decides: CLS, the mask, the last token",
    ),
]


def _heads(allowed: str) -> Any:
    return typer.Option(
        "--heads",
        metavar="HEADS",
        help=f"{allowed}, numbers: 0,3, or a .json file of attnflow fit.",
        rich_help_panel=_SELECTION,
    )


Heads = Annotated[str, _heads("mean, max, min, each")]
MergedHeads = Annotated[str, _heads("mean, max, min")]


def _residual(default: str) -> Any:
    return typer.Option(
        "--residual",
        metavar="SHARE",
        help="The share of the identity, from 0 to below 1.",
        rich_help_panel=_SELECTION,
        show_default=default,
    )


Residual = Annotated[float | None, _residual("0.5; 0 for raw")]
FlowResidual = Annotated[float | None, _residual("0.5")]


def _correction(default: str) -> Any:
    return typer.Option(
        "--correction",
        metavar="NAME",
        help="For causal decoders: uniform, visible, sink, or none.",
        rich_help_panel=_SELECTION,
        show_default=default,
    )


Correction = Annotated[str, _correction("the usual one of the method")]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="LABEL",
        help="Explain this label or token, by its name, or else its number.",
        rich_help_panel=_SELECTION,
        show_default="the model's prediction",
    ),
]
Contrast = Annotated[
    str | None,
    typer.Option(
        "--not",
        metavar="LABEL",
        help="Explain why the target rather than this label or token.",
        rich_help_panel=_SELECTION,
        show_default=False,
    ),
]
Source = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="position|logit",
        help="Where scores start: the position in one layer, or the target's logit, on decoders.",
        rich_help_panel=_SELECTION,
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        metavar="N",
        help="For integrated: points on the line.",
        rich_help_panel=_SELECTION,
        show_default="as many as it needs",
    ),
]
_pair = typer.Option(
    "--pair",
    metavar="TEXT",
    help="The second text, where the model reads two as one input; of many texts, one for each.",
    rich_help_panel=_INPUT,
    show_default=False,
)
Pair = Annotated[str | None, _pair]
Pairs = Annotated[list[str] | None, _pair]
Answer = Annotated[
    str | None,
    typer.Option(
        "--answer",
        metavar="TEXT",
        help="The answer to explain; for encoder–decoders without --generate, what follows it.",
        rich_help_panel=_INPUT,
        show_default="the model's own answer",
    ),
]
Truncate = Annotated[
    bool,
    typer.Option(
        "--truncate", help="Truncate texts that are too long for the model.", rich_help_panel=_INPUT
    ),
]
Bos = Annotated[
    bool,
    typer.Option(
        "--bos",
        help="Put BOS in front, for causal models whose tokenizer adds none.",
        rich_help_panel=_INPUT,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse models that mix tokens outside attention; in a run, stop at a bad row.",
        rich_help_panel=_INPUT,
    ),
]
Words = Annotated[
    bool,
    typer.Option("--words", "-w", help="Words instead of tokens.", rich_help_panel=_OUTPUT),
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
