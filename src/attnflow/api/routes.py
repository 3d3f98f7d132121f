"""`routes`: text in, one maximum flow out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnflow.edges.options import Heads
from attnflow.errors import InputError
from attnflow.io.keywords import known_keywords
from attnflow.methods import find_trace
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import AUTO, Query, Request, TargetSpec
from attnflow.pipeline.session import Session
from attnflow.records import FlowTrace

if TYPE_CHECKING:
    from attnflow.models.loading import Source


@known_keywords()
def routes(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    text: Any,
    model: Source = None,
    *,
    to: int | str,
    method: str = "auto",
    edges: str = "auto",
    layer: int | None = None,
    query: Query = None,
    heads: Heads = "mean",
    residual: float | None = None,
    discard: float = 0.0,
    correction: str | None = None,
    target: TargetSpec = None,
    contrast: TargetSpec = None,
    source: str = "position",
    answer: str | None = None,
    truncate: bool = False,
    bos: bool = False,
    sampling_rate: int | None = None,
) -> FlowTrace:
    """Through which tokens of which layers the score of an input token came about.

    Args:
        text: The text, or a pair of texts that the model reads as one input; an image, a sound.
        model: As for `attnflow.explain`; so are ``method``, ``edges``, ``layer``, ``query``,
            ``heads``, ``residual``, ``discard``, ``target``, ``contrast``,
            ``answer`` and ``truncate``.
        to: The input token that the score is traced back to: its text or its position.
        method: The method whose score it is; ``"auto"`` is flow, which has routes and a bottleneck.
        edges: What the edges of the graph are made of; ``"auto"`` is as for `explain` without a
            method.
        layer: The layer of the position that is explained.
        query: The position that is explained; ``None`` is where the model decides.
        heads: How heads are merged.
        residual: The share of the identity.
        discard: The ratio of smallest attention weights set to zero.
        correction: For causal decoders, ``"visible"`` or ``"sink"``: they change the edges. The
            usual one of `explain`, ``"uniform"``, divides flows by those of chance and changes
            none. Routes are plain unless one is named, also where `explain` leaves the sink out.
        target: For edges that are seen by a target, a label or token.
        contrast: The label or token that the target is compared with.
        source: ``"logit"``: from the target's logit, which is one more position of the trace, the
            last one, and stands in every layer from which its edges lead down.
        answer: For encoder–decoder models the answer; ``None`` is the model's own.
        truncate: Cut a text that is too long.
        bos: Put BOS in front, as for `explain`; the trace's ``warnings`` have both predictions.
        sampling_rate: Of a sound that is given as an array, as for `explain`.
    """
    config = Request(
        method=method,
        edges=edges,
        layer=layer,
        query=query,
        heads=heads,
        residual=residual,
        discard=discard,
        correction=correction,
        target=target,
        contrast=contrast,
        source=source,
        truncate=truncate,
        bos=bos,
        routes=True,
    )
    check_routes(method)  # before any work
    from attnflow.models.audio.sounds import with_rates
    from attnflow.models.loading import load_model

    adapter = load_model(model)
    (item,) = with_rates([text], adapter, sampling_rate)
    session = open_session(item, adapter, config, answer=answer)
    return trace_to(session, to)


def check_routes(method: str) -> None:
    """Refuse a method that can't tell how its scores came about."""
    if method != AUTO:
        find_trace(method)


def trace_to(session: Session, to: int | str) -> FlowTrace:
    """The trace from the position that a session explains to a token."""
    if session.config.query == "all":
        msg = "query='all' is not for routes, which come from one position; name it"
        raise InputError(msg)
    if session.config.heads == "each":
        msg = "heads='each' is not for routes: they pass through merged heads; pick one by number"
        raise InputError(msg)
    session.check_one_position()
    key = session.tokens.position(to, name="to")
    _, layer = session.config.resolve_layers(session.depth)
    return session.trace(session.config.method, layer, session.query, key)
