"""`routes`: text in, the paths of one maximum flow out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnflow.edges import EDGES, EdgeOptions
from attnflow.edges.options import Heads
from attnflow.errors import InputError
from attnflow.models.positions import find
from attnflow.plan import Plan
from attnflow.records import Prediction
from attnflow.tracing import FlowTrace, trace_graph

if TYPE_CHECKING:
    from attnflow.models.loading import Source
    from attnflow.models.reading import Query


@dataclass(frozen=True, eq=False)
class Routes:
    """One maximum flow through a model on one text.

    Attributes:
        text: The input text.
        model: The model's name.
        tokens: The input tokens, which positions of ``trace`` stand for.
        trace: The flow: its value, routes and minimum cut.
        layer: The layer asked about, counted from 1.
        prediction: What the model said.
    """

    text: str
    model: str
    tokens: tuple[str, ...]
    trace: FlowTrace
    layer: int
    prediction: Prediction | None = None


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
    truncate: bool = False,
) -> Routes:
    """Through which tokens of which layers a position's attention came to an input token.

    Args:
        text: The text.
        model: As for `attnflow.explain`; so are ``layer``, ``query``, ``heads``, ``residual``,
            ``discard`` and ``truncate``.
        to: The input token the flow goes to: its text or its position.
        layer: The layer the flow comes from.
        query: The position the flow comes from; ``None`` is where the model decides.
        heads: How heads are merged.
        residual: The share of the identity.
        discard: The ratio of smallest attention weights set to zero.
        truncate: Cut a text that is too long.

    The flow is the plain one: corrections for causal decoders rescale values and change no path.
    """
    if heads == "each":
        msg = "heads='each' is not for routes: they pass through merged heads; pick one by number"
        raise InputError(msg)
    from attnflow.models.loading import load_model

    plan = Plan("flow", layer, query, residual, heads, discard, None)
    adapter = load_model(model)
    plan.layer_in(adapter.depth)
    tokens = adapter.tokenize(text, truncate=truncate)
    (reading,) = adapter.read([tokens], query, plan.wish())
    names = reading.tokens.names
    graph = EDGES["attention"](reading.record, EdgeOptions(residual, "mean", discard))
    number = plan.layer_in(len(reading.record.steps))
    found = trace_graph(
        graph, reading.record.steps[number - 1], reading.query, find(to, names, name="to")
    )
    return Routes(tokens.text, adapter.name, names, found, number, reading.prediction)
