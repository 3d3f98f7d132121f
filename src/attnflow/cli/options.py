"""Options that several commands share: the same thing has the same name everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.errors import InputError


class Method(StrEnum):
    """The methods by name."""

    RAW = "raw"
    ROLLOUT = "rollout"
    FLOW = "flow"


class Theme(StrEnum):
    """The looks of a figure."""

    LIGHT = "light"
    DARK = "dark"


_INPUT = "Input"
_QUESTION = "Selection"
_OUTPUT = "Output"

Texts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEXT",
        help='Texts, each in quotes (for vision models: image files); "-" is standard input.',
        show_default=False,
    ),
]
OneText = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT",
        help='The text, in quotes (for vision models: an image file); "-" is standard input.',
        show_default=False,
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="Read texts from a file, one a line.",
        rich_help_panel=_INPUT,
    ),
]
_model = typer.Option(
    "--model",
    "-m",
    metavar="NAME",
    help="A Hugging Face name, a folder or a GGUF file; the shipped model if not given.",
    rich_help_panel=_INPUT,
    show_default=False,
)
Model = Annotated[str | None, _model]
Models = Annotated[list[str] | None, _model]
Methods = Annotated[
    list[Method] | None,
    typer.Option(
        "--method",
        metavar="METHOD",
        help="raw, rollout or flow; repeat for several.",
        rich_help_panel=_QUESTION,
        show_default="all three",
    ),
]
Layer = Annotated[
    int,
    typer.Option(
        "--layer",
        "-l",
        metavar="N",
        help="1 … L, or negative from the top.",
        rich_help_panel=_QUESTION,
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        "--query",
        "-q",
        metavar="TOKEN",
        help="The position asked about: a token or its number, from 0.",
        rich_help_panel=_QUESTION,
        show_default="where the model decides: CLS, the mask, the last token",
    ),
]


def _heads(allowed: str) -> Any:
    return typer.Option(
        "--heads",
        metavar="HEADS",
        help=f"{allowed}, or numbers: 0,3.",
        rich_help_panel=_QUESTION,
    )


Heads = Annotated[str, _heads("mean, max, min, each")]
MergedHeads = Annotated[str, _heads("mean, max, min")]


def _residual(default: str) -> Any:
    return typer.Option(
        "--residual",
        metavar="SHARE",
        help="The share of the identity, from 0 to below 1.",
        rich_help_panel=_QUESTION,
        show_default=default,
    )


Residual = Annotated[float | None, _residual("0.5; 0 for raw")]
FlowResidual = Annotated[float | None, _residual("0.5")]


def _correction(default: str) -> Any:
    return typer.Option(
        "--correction",
        metavar="NAME",
        help="For causal decoders: uniform, visible, sink, or none.",
        rich_help_panel=_QUESTION,
        show_default=default,
    )


Correction = Annotated[str, _correction("uniform where it is needed")]
RouteCorrection = Annotated[str, _correction("none")]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="TEXT",
        help="For encoder–decoders: the text that was made of the input.",
        rich_help_panel=_INPUT,
        show_default="the model's own answer",
    ),
]
Truncate = Annotated[
    bool,
    typer.Option(
        "--truncate", help="Cut texts that are too long for the model.", rich_help_panel=_INPUT
    ),
]
Words = Annotated[
    bool,
    typer.Option("--words", "-w", help="Words instead of tokens.", rich_help_panel=_OUTPUT),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print JSON and nothing else, one line a text.", rich_help_panel=_OUTPUT
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Overwrite files that exist.", rich_help_panel=_OUTPUT),
]


def heads_of(given: str) -> Any:
    """``mean`` and the like as they are; ``0,3`` as head numbers."""
    if given in ("mean", "max", "min", "each"):
        return given
    try:
        return [int(part) for part in given.split(",")]
    except ValueError:
        msg = f"--heads {given!r} is unknown; give mean, max, min, each, or numbers such as 0,3"
        raise InputError(msg) from None


def correction_of(given: str) -> str | None:
    """``none`` is the plain method."""
    known = ("auto", "uniform", "visible", "sink")
    if given not in (*known, "none"):
        msg = f"--correction {given!r} is unknown; give {', '.join(known[1:])}, or none"
        raise InputError(msg)
    return None if given == "none" else given


def query_of(given: str | None) -> int | str | None:
    """A number where it is one, else a token."""
    return None if given is None else number_or_text(given)


def number_or_text(given: str) -> int | str:
    """A position where it is a number, else a token."""
    try:
        return int(given)
    except ValueError:
        return given
