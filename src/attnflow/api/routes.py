"""`routes`: text in, one maximum flow out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnflow.methods import find_trace
from attnflow.options.option import takes_text
from attnflow.options.tables import RoutesOptions
from attnflow.pipeline.prepare import open_sessions, prepare
from attnflow.pipeline.request import AUTO, Request
from attnflow.pipeline.session import Session
from attnflow.records import FlowTrace

if TYPE_CHECKING:
    from attnflow.models.loading import Source


@takes_text(RoutesOptions)
def routes(text: Any, model: Source = None, *, options: RoutesOptions) -> FlowTrace:
    """Through which tokens of which layers the score of an input token came about.

    The method is flow where none is named: it has routes and a bottleneck. From the target's logit
    (``source="logit"``) the logit is one more position of the trace, the last one, and stands in
    every layer from which its edges lead down.

    Args:
        text: The text, or a pair of texts that the model reads as one input; an image, a sound.
        model: As for `attnflow.explain`.

    Examples:
        >>> import attnflow
        >>> text = "the keys to the cabinet"
        >>> found = attnflow.routes(text, "verbs", to="keys", edges="attention")
        >>> found.key, round(sum(route.amount for route in found.routes) / found.value, 3)
        (2, 1.0)
    """
    request = Request.of(options, routes=True, progress=False)
    check_routes(options.method)  # before any work
    from attnflow.models.audio.sounds import with_rates
    from attnflow.models.loading import load_model

    adapter = load_model(model, device=options.device)
    (item,) = with_rates([text], adapter, options.sampling_rate)
    prepared = prepare(request, adapter, [item], answers=options.answer)
    ((_, session),) = open_sessions(prepared)
    return trace_to(session, options.to, verify=options.verify)


def check_routes(method: str) -> None:
    """Refuse a method that can't tell how its scores came about."""
    if method != AUTO:
        find_trace(method)


def trace_to(session: Session, to: int | str, *, verify: bool | None = None) -> FlowTrace:
    """The trace from the position that a session explains to a token, with its cut removed."""
    method = session.config.method
    if not session.starts_at_target(method):
        session.check_one_position()
    key = session.tokens.position(to, name="to")
    _, layer = session.config.resolve_layers(session.depth)
    from attnflow.pipeline.knockouts import verified

    trace = session.trace(method, layer, session.query, key)
    return verified(session, [trace], verify)[0]
