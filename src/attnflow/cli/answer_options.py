"""Options of answers: how they are written, and what their prompt is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_INPUT = "Input"
_SELECTION = "Selection"

Generate = Annotated[
    int | None,
    typer.Option(
        "--generate",
        metavar="N",
        help="Explain each token of an answer: of at most N that the model writes, or of --answer.",
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
Chat = Annotated[
    Path | None,
    typer.Option(
        "--chat",
        metavar="FILE",
        help='The prompt as messages: JSON, [{"role": "user", "content": "…"}].',
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
PromptParts = Annotated[
    list[str] | None,
    typer.Option(
        "--part",
        metavar="NAME=FILE",
        help="A named part of the prompt: before the text, or a piece of a message; repeatable.",
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
Through = Annotated[
    str,
    typer.Option(
        "--through",
        metavar="tokens|prompt",
        help="Where an answer's scores end: at all tokens before, or handed on to the prompt.",
        rich_help_panel=_SELECTION,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        help="Draw the answer's tokens at this temperature.",
        rich_help_panel=_INPUT,
        show_default="the most likely ones are written",
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p",
        help="Draw from the most likely tokens that have this probability together.",
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        "--top-k",
        help="Draw from this many of the most likely tokens.",
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        help="The random seed.",
        rich_help_panel=_INPUT,
        show_default=False,
    ),
]
