"""`routes`: text in, the paths of one maximum flow out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attnflow.api.trace import FlowTrace, trace_graph
from attnflow.edges import EDGES, EdgeOptions
from attnflow.edges.corrections import correct
from attnflow.edges.options import Heads
from attnflow.errors import InputError
from attnflow.pipeline.config import Plan
from attnflow.records import Prediction

if TYPE_CHECKING:
    from attnflow.models.adapter import Query
    from attnflow.models.loading import Source


@dataclass(frozen=True, eq=False, repr=False)
class Routes:
    """One maximum flow through a model on one text.

    Attributes:
        text: The input text.
        model: The model's name.
        tokens: The input tokens, which positions of ``trace`` stand for.
        trace: The flow: its value, routes and minimum cut.
        layer: The layer asked about, counted from 1.
        prediction: What the model said.
        causal: Whether the model is a causal decoder, whose flows favour the first tokens.
        options: How the edges were made: heads, residual, discard, correction.
    """

    text: str
    model: str
    tokens: tuple[str, ...]
    trace: FlowTrace
    layer: int
    prediction: Prediction | None = None
    causal: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        found = self.trace
        ends = f"{self.tokens[found.query]} of layer {self.layer} to {self.tokens[found.key]}"
        return f"<Routes: {found.value:.4g} from {ends} by {len(found.routes)} routes>"


def routes(  # noqa: PLR0913 - one keyword an option, the same words as everywhere
    text: str,
    model: Source = None,
    *,
    to: int | str,
    layer: int = -1,
    query: Query = None,
    heads: Heads = "mean",
    residual: float = 0.5,
    discard: float = 0.0,
    correction: str | None = None,
    target: str | None = None,
    truncate: bool = False,
) -> Routes:
    """Through which tokens of which layers a position's attention came to an input token.

    Args:
        text: The text.
        model: As for `attnflow.explain`; so are ``layer``, ``query``, ``heads``, ``residual``,
            ``discard``, ``target`` and ``truncate``.
        to: The input token the flow goes to: its text or its position.
        layer: The layer the flow comes from.
        query: The position the flow comes from; ``None`` is where the model decides.
        heads: How heads are merged.
        residual: The share of the identity.
        discard: The ratio of smallest attention weights set to zero.
        correction: For causal decoders, ``"visible"`` or ``"sink"``: they change the edges. The
            default of `explain`, ``"uniform"``, divides flows by those of chance and changes none,
            so that its routes are the plain ones.
        target: For encoder–decoder models the target text; ``None`` is the model's own answer.
        truncate: Cut a text that is too long.
    """
    if heads == "each":
        msg = "heads='each' is not for routes: they pass through merged heads; pick one by number"
        raise InputError(msg)
    from attnflow.models.loading import load_model

    plan = Plan("flow", layer, query, residual, heads, discard, correction)
    adapter = load_model(model)
    plan.layer_in(adapter.depth)
    asked = adapter.tokenize(text, truncate=truncate, target=target)
    (reading,) = adapter.read([asked], query, plan.wish())
    tokens, record = reading.tokens, reading.record
    edges = correct(record, plan.correction_for(record))
    graph = EDGES["attention"](edges, EdgeOptions(residual, "mean", discard))
    number = plan.layer_in(len(record.steps))
    sink = tokens.position(to, name="to")
    found = trace_graph(graph, record.steps[number - 1], reading.query, sink)
    options = {"heads": heads, "residual": residual, "discard": discard, "correction": correction}
    about = (number, reading.prediction, record.causal, options)
    return Routes(tokens.text, adapter.name, tokens.names, found, *about)
