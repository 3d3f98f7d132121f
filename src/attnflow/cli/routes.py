"""``attnflow routes``: the paths of a flow, and its bottleneck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnflow.cli import method_options, model_options, options, parsing, running
from attnflow.cli.inputs import read_item
from attnflow.cli.streams import print_json

if TYPE_CHECKING:
    from attnflow.records import FlowTrace

To = Annotated[
    str,
    typer.Option(
        "--to",
        "-t",
        metavar="TOKEN",
        help="The input token that the score is traced back to, or its number, from 0.",
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
    pair: options.Pair = None,
    model: options.Model = None,
    target: options.Target = None,
    contrast: options.Contrast = None,
    start: options.Source = "position",
    answer: options.Answer = None,
    truncate: options.Truncate = False,
    bos: options.Bos = False,
    device: model_options.Device = None,
    dtype: model_options.Dtype = None,
    revision: model_options.Revision = None,
    trust_remote_code: model_options.Trust = False,
    method: method_options.RoutesMethod = "auto",
    edges: method_options.Edges = "auto",
    layer: options.Layer = None,
    query: options.Query = None,
    heads: options.MergedHeads = "mean",
    residual: options.FlowResidual = None,
    correction: options.RouteCorrection = "none",
    top: Top = 10,
    as_json: options.Json = False,
    plugin: options.Plugins = None,
) -> None:
    """Show the paths that a token's score came by, and their bottleneck.

    Example: attnflow routes "The food was not good." --to not
    """
    from attnflow.api.routes import check_routes, trace_to
    from attnflow.pipeline.request import Request

    source = read_item(text, file, pair)
    config = Request(
        method=method,
        edges=edges,
        layer=layer,
        query=parsing.parse_query(query),
        heads=parsing.parse_heads(heads),
        residual=residual,
        correction=parsing.parse_correction(correction),
        target=target,
        contrast=contrast,
        source=start,
        truncate=truncate,
        bos=bos,
        routes=True,
        execution=model_options.execution(device),
    )
    check_routes(method)  # before any work
    chosen = model_options.choose(model, device, dtype, revision, trust_remote_code)
    session = running.one_session(source, chosen, config, answer=answer)
    trace = trace_to(session, parsing.parse_position(to))
    if as_json:
        print_json(as_data(trace))
        return
    from rich.console import Console

    from attnflow.views.sentences import subject
    from attnflow.views.terminal.paths import show_routes

    about = subject(session.adapter.description)
    show_routes(trace, Console(highlight=False), top, about)


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
        "warnings": list(trace.warnings),
        "value": trace.value,
        "gap": trace.gap,
        "routes": [asdict(route) for route in trace.routes],
        "cut": [asdict(edge) for edge in trace.cut],
    }
