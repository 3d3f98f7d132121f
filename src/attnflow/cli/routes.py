"""``attnflow routes``: through which tokens the flow came, and where it was narrow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnflow.cli import options, running
from attnflow.cli.inputs import read_text

if TYPE_CHECKING:
    from attnflow.records import FlowTrace

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


def routes(  # noqa: PLR0913 - one argument per option
    text: options.OneText = None,
    *,
    to: To,
    file: options.File = None,
    model: options.Model = None,
    target: options.Target = None,
    contrast: options.Contrast = None,
    answer: options.Answer = None,
    truncate: options.Truncate = False,
    method: options.Method = "flow",
    edges: options.Edges = "attention",
    layer: options.Layer = None,
    query: options.Query = None,
    heads: options.MergedHeads = "mean",
    residual: options.FlowResidual = None,
    correction: options.RouteCorrection = "none",
    top: Top = 10,
    as_json: options.Json = False,
    plugin: options.Plugins = None,
) -> None:
    """Show the paths that carry the flow to a token, and its bottleneck.

    Example: attnflow routes "the keys to the cabinet" --to keys
    """
    from attnflow.api.routes import trace_to
    from attnflow.pipeline.config import ExplainConfig

    chosen = read_text(text, file)
    config = ExplainConfig(
        method=method,
        edges=edges,
        layer=layer,
        query=options.query_of(query),
        heads=options.heads_of(heads),
        residual=residual,
        correction=options.correction_of(correction),
        target=options.target_of(target),
        contrast=options.target_of(contrast),
        truncate=truncate,
    )
    session = running.one_session(chosen, model, config, answer=answer)
    found = trace_to(session, options.number_or_text(to))
    if as_json:
        typer.echo(json.dumps(as_data(found), ensure_ascii=False))
        return
    from rich.console import Console

    from attnflow.views.terminal.paths import show_routes

    show_routes(found, Console(highlight=False), top)


def as_data(trace: FlowTrace) -> dict[str, Any]:
    """What ``--json`` prints: every route and every edge of the cut."""
    from dataclasses import asdict

    return {
        "text": trace.text,
        "model": trace.model,
        "prediction": asdict(trace.prediction) if trace.prediction else None,
        "tokens": list(trace.tokens),
        "layer": trace.layer,
        "options": dict(trace.options),
        "query": trace.query,
        "to": trace.key,
        "method": trace.method,
        "value": trace.value,
        "gap": trace.gap,
        "routes": [asdict(route) for route in trace.routes],
        "cut": [asdict(edge) for edge in trace.cut],
    }
