"""``attnflow routes``: through which tokens the flow came, and where it was narrow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnflow.cli import options
from attnflow.cli.inputs import read_text
from attnflow.cli.waiting import busy

if TYPE_CHECKING:
    from attnflow.api.routes import Routes

To = Annotated[
    str,
    typer.Option(
        "--to",
        "-t",
        metavar="TOKEN",
        help="The input token the flow goes to, or its number, from 0.",
        rich_help_panel="Selection",
    ),
]
Top = Annotated[
    int,
    typer.Option(
        "--top", metavar="N", min=1, help="How many routes to list.", rich_help_panel="Output"
    ),
]


def routes(  # noqa: PLR0913 - one argument an option
    text: options.OneText = None,
    *,
    to: To,
    file: options.File = None,
    model: options.Model = None,
    target: options.Target = None,
    truncate: options.Truncate = False,
    layer: options.Layer = -1,
    query: options.Query = None,
    heads: options.MergedHeads = "mean",
    residual: options.FlowResidual = None,
    correction: options.RouteCorrection = "none",
    top: Top = 10,
    as_json: options.Json = False,
) -> None:
    """Show the paths that carry the flow to a token, and its bottleneck.

    Example: attnflow routes "the keys to the cabinet" --to keys
    """
    import attnflow

    chosen = read_text(text, file)
    with busy("loading the model"):
        loaded = attnflow.load_model(model)
    found = attnflow.routes(
        chosen,
        loaded,
        to=options.number_or_text(to),
        layer=layer,
        query=options.query_of(query),
        heads=options.heads_of(heads),
        residual=0.5 if residual is None else residual,
        correction=options.correction_of(correction),
        target=target,
        truncate=truncate,
    )
    if as_json:
        typer.echo(json.dumps(as_data(found), ensure_ascii=False))
        return
    from rich.console import Console

    from attnflow.views.terminal.paths import show_routes

    show_routes(found, Console(highlight=False), top)


def as_data(found: Routes) -> dict[str, Any]:
    """What ``--json`` prints: every route and every edge of the cut."""
    from dataclasses import asdict

    trace = found.trace
    return {
        "text": found.text,
        "model": found.model,
        "prediction": asdict(found.prediction) if found.prediction else None,
        "tokens": list(found.tokens),
        "layer": found.layer,
        "options": dict(found.options),
        "query": trace.query,
        "to": trace.key,
        "flow": trace.value,
        "gap": trace.gap,
        "routes": [asdict(route) for route in trace.routes],
        "cut": [asdict(edge) for edge in trace.cut],
    }
