"""``attnflow similarity``: what made two texts similar."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnflow.cli import method_options, model_options, options
from attnflow.cli.figure_options import Theme, ThemeName
from attnflow.cli.inputs import check_texts
from attnflow.cli.status import show_status
from attnflow.cli.streams import echo, print_json
from attnflow.errors import InputError

First = Annotated[str, typer.Argument(metavar="TEXT", help="The first text, in quotes.")]
Second = Annotated[str, typer.Argument(metavar="TEXT", help="The text it is compared with.")]
Pooling = Annotated[
    str,
    typer.Option(
        "--pooling",
        metavar="NAME",
        help="What an embedding is: the mean of states, the first or the last one.",
        rich_help_panel="Selection",
        show_default="what the model's files say, else mean",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Draw the map: .svg, .pdf or .png.",
        rich_help_panel="Output",
    ),
]
Top = Annotated[
    int,
    typer.Option(
        "--top", metavar="N", min=0, help="How many pairs to list.", rich_help_panel="Output"
    ),
]


def similarity(  # noqa: PLR0913 - one argument per option
    first: First,
    second: Second,
    *,
    model: options.Model = None,
    truncate: options.Truncate = False,
    strict: options.Strict = False,
    device: model_options.Device = None,
    dtype: model_options.Dtype = None,
    revision: model_options.Revision = None,
    trust_remote_code: model_options.Trust = False,
    method: method_options.Method = "rollout",
    edges: method_options.SimilarityEdges = "auto",
    pooling: Pooling = "auto",
    residual: options.Residual = None,
    words: options.Words = False,
    top: Top = 8,
    as_json: options.Json = False,
    output: Output = None,
    theme: Theme = ThemeName.LIGHT,
    force: options.Force = False,
    plugin: options.Plugins = None,
) -> None:
    """Show what made two texts similar: the parts of the cosine, token pair by token pair.

    Example: attnflow similarity "a cat sleeps" "the kitten naps" -m FOLDER
    """
    from attnflow.api.similarity import similarity as compare

    check_texts([first, second])
    if model is None:
        msg = (
            "similarity needs a model of sentence embeddings; give its name or folder with --model"
        )
        raise InputError(msg)
    if output is not None:
        from attnflow.views.figures.files import check_file

        check_file(output, overwrite=force)
    chosen = model_options.choose(model, device, dtype, revision, trust_remote_code)
    with show_status("comparing"):
        found = compare(
            first,
            second,
            chosen,
            method=method,
            edges=edges,
            pooling=pooling,
            residual=residual,
            words=words,
            truncate=truncate,
            strict=strict,
        )
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
