"""``attnflow similarity``: what made two texts similar."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli import options as own
from attnflow.cli.command import Given, command
from attnflow.cli.figure_options import Theme, ThemeName
from attnflow.cli.inputs import check_texts
from attnflow.cli.streams import echo, print_json, show_status
from attnflow.errors import InputError
from attnflow.options.tables import SimilarityOptions

First = Annotated[str, typer.Argument(metavar="TEXT", help="The first text, in quotes.")]
Second = Annotated[str, typer.Argument(metavar="TEXT", help="The text it is compared with.")]
Output = Annotated[Path | None, own.flag("--output -o FILE", "Draw the map: .svg, .pdf or .png.")]
Top = Annotated[int, own.flag("--top N", "How many pairs to list.", min=0)]


@command(SimilarityOptions)
def similarity(  # noqa: PLR0913 - one argument per option of its own
    first: First,
    second: Second,
    *,
    options: Given,
    model: Any,
    top: Top = 8,
    as_json: own.Json = False,
    output: Output = None,
    theme: Theme = ThemeName.LIGHT,
    force: own.Force = False,
    plugin: own.Plugins = None,
) -> None:
    """Show what made two texts similar: the share of each pair of tokens in the cosine.

    Example: attnflow similarity "a cat sleeps" "the kitten naps" -m FOLDER
    """
    from attnflow.api.similarity import similarity as compare

    check_texts([first, second])
    if getattr(model, "name", model) is None:  # by whatever options it is loaded
        msg = (
            "similarity needs a model of sentence embeddings; give its name or folder with --model"
        )
        raise InputError(msg)
    if output is not None:
        from attnflow.views.figures.files import check_file

        check_file(output, overwrite=force)
    with show_status("comparing"):
        found = compare(first, second, model, **options)
    if output is not None:
        from attnflow.views.figures.files import save as write
        from attnflow.views.figures.similarity import figure

        write(figure(found, theme=theme.value), output, overwrite=True)
        echo(f"saved the figure to {output}", err=True)
    if as_json:
        print_json(found.to_dict())
        return
    from rich.console import Console

    from attnflow.views.terminal.similarity import show_similarity

    show_similarity(found, Console(highlight=False), top)
