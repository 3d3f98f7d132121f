"""``attnflow fit``: learn how much each head counts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli import options as own
from attnflow.cli.command import Given, command
from attnflow.cli.inputs import read_texts
from attnflow.cli.streams import echo
from attnflow.options.tables import FitOptions

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A shipped model ({shipped}), a Hugging Face name, a folder or a GGUF file.",
        show_default=False,
    ),
]
TextFile = Annotated[
    Path,
    typer.Argument(metavar="TEXTS", help="A file of texts, one per line.", show_default=False),
]
Out = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write, FILE.json.")
]


@command(FitOptions)
def fit(
    model: Model,
    texts: TextFile,
    *,
    options: Given,
    out: Out,
    force: own.Force = False,
    plugin: own.Plugins = None,
) -> None:
    """Learn one weight per head that predicts what blanking tokens out does.

    Use them with --heads FILE.json. Run the same command again to continue an interrupted run.

    Example: attnflow fit gpt2 prefixes.txt -o heads.json
    """
    from attnflow.errors import InputError
    from attnflow.evaluation.fit import fit as learn

    if out.suffix != ".json":
        msg = f"-o {out} must end in .json, so that --heads knows it as a file"
        raise InputError(msg)
    given = read_texts(None, texts)
    try:
        shown = sys.stderr.isatty()
        learned = learn(given, model, **options, save=out, overwrite=force, progress=shown)
    except KeyboardInterrupt:
        echo("progress is saved: run the same command again to continue", err=True)
        raise
    echo(f"On {learned.figures['texts']} held-out texts, agreement with blanking out:")
    echo("plain  given position")
    for name, found in learned.figures.items():
        if isinstance(found, dict):
            agreement, given_position = found["agreement"], found["given position"]
            echo(f"{_number(agreement)}  {_number(given_position)}            {name}")
    echo(_conclusion(learned.figures))


def _conclusion(figures: Mapping[str, Any]) -> str:
    """What a person may conclude of texts that the weights were not learned from."""
    learned, mean = (figures[name]["agreement"] for name in ("learned", "mean of heads"))
    if learned is None or mean is None:
        return "The held-out texts are too short to compare anything: give longer ones."
    if learned <= mean:
        return (
            "The weights do no better there than the plain mean of heads: don't use them; learn "
            "from more texts, some hundreds."
        )
    return "The weights do better there than the plain mean of heads."


def _number(value: float | None) -> str:
    return "    –" if value is None else f"{value:5.2f}"
