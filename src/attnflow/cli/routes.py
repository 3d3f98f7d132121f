"""``attnflow routes``: the paths of a flow, and its bottleneck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from attnflow.cli import options as own
from attnflow.cli import running
from attnflow.cli.command import Given, command
from attnflow.cli.inputs import read_item
from attnflow.cli.streams import print_json
from attnflow.options.tables import RoutesOptions

if TYPE_CHECKING:
    from attnflow.records import FlowTrace

Top = Annotated[int, own.flag("--top N", "How many routes to list.", min=1)]


@command(RoutesOptions)
def routes(  # noqa: PLR0913 - one argument per option of its own
    text: own.OneText = None,
    *,
    options: Given,
    model: Any,
    file: own.File = None,
    pair: own.Pair = None,
    top: Top = 10,
    as_json: own.Json = False,
    plugin: own.Plugins = None,
) -> None:
    """Show the paths behind a token's score, and their bottleneck.

    Example: attnflow routes "The food was not good." --to not
    """
    from attnflow.api.routes import check_routes, trace_to
    from attnflow.options.option import refuse_all
    from attnflow.pipeline.request import Request

    item, given = read_item(text, file, pair), RoutesOptions(**options)
    refuse_all(given, "routes")
    request = Request.of(given, routes=True)
    check_routes(given.method)  # before any work
    session = running.one_session(item, model, request, answer=options.get("answer"))
    trace = trace_to(session, given.to, verify=given.verify)
    if as_json:
        print_json(as_data(trace))
        return
    from rich.console import Console

    from attnflow.views.terminal.paths import show_routes
    from attnflow.views.wording.findings import subject

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
        "opposed": trace.opposed,
        "gap": trace.gap,
        "routes": [asdict(route) for route in trace.routes],
        "cut": [asdict(edge) for edge in trace.cut],
        "summary": trace.summary,
        "knockout": None if trace.knockout is None else trace.knockout.to_dict(),
        "verified": "" if trace.knockout is None else trace.knockout.summary,
    }
