"""Methods: how the edges of a graph become scores of input tokens, or what is measured instead.

An `Aggregator` reads edges; a `Measure` reads none and runs the model again. Both are members of
one family, `AGGREGATORS`, and say of themselves what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from attnflow.errors import InputError
from attnflow.registry import Registry, is_foreign, name_failure

if TYPE_CHECKING:
    from attnflow.records import Array, FlowTrace, LayeredGraph, Pair, Selection
    from attnflow.solvers.execution import Execution


@dataclass(frozen=True, eq=False)
class Scores:
    """``[layer, query, key]`` or ``[layer, head, query, key]``, and how they were computed."""

    values: Array
    statistics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """What every method has, whatever its scores are made of.

    Attributes:
        name: What users write: ``method="flow"``.
        title: What figures and pages call it.
        summary: What its scores are, in one line.
        signed: Whether scores below 0 speak against what is explained.
        shown_by_default: Whether commands and pages show it where no method is named.
        slot: The place of its colour in the palette; ``None`` is the next free one.
    """

    name: str
    title: str
    summary: str = field(default="", kw_only=True)
    signed: bool = field(default=False, kw_only=True)
    shown_by_default: bool = field(default=True, kw_only=True)
    slot: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Aggregator(Method):
    """A method that goes from the edges of a graph down to the input tokens.

    Attributes:
        score: The scores of a selection.
        trace: How one score came about, edge by edge; ``None`` where a method can't tell.
        residual: The share of the residual connection that the method is usually run with.
        reaches_input: Whether scores are of input tokens; otherwise of the layer directly below.
        cost: What is computed at once: ``"matrix"``, the scores of all positions of a layer;
            ``"query"``, those of one position to all tokens; ``"pair"``, each score by a solve of
            its own.
        reads_once: Whether it reads layer after layer, each once, and all positions of it.
        single_heads: Whether it has scores of single heads on top of merged layers.
        uses_maps: Whether it reads the rule's maps before rows are made to sum to 1.
        own_rows: Whether scores are the sums of the explained position's rows of those maps.
        sums_maps: Whether scores are sums of those maps, and so in their unit.
        from_logit: What the edges of a logit are for it, where it can start there: ``"ratios"``
            that are multiplied along paths, or ``"capacities"``. Such a method follows paths, and
            can be handed on through an answer, too.
        amounts: Which edges it can read that are amounts with a sign, and not shares of a row:
            none, ``"any"``, or those that are ``"conserved"``: of these it knows what arrives from
            the target, and nothing of other layers and positions.
        edges: The edge rule that it was published with, which it has where none is named.
        correction: How causal decoders are corrected for their receptive field where nothing is
            named, whatever the edges; empty leaves it to the edges.
        full: The highest score there can be, which many tokens may share.
        tie_breaker: The method whose scores order tokens that share a score.
        alternative: The method that tells such tokens apart.
        everywhere: Whether scores are what all positions read, whichever is explained.
        not_for_pairs: Why it is not defined for encoder–decoders; empty where it is.
        no_pair_routes: Why it has no routes through them; empty where it has.
    """

    score: Callable[[LayeredGraph, Selection, Execution], Scores]
    trace: Callable[[LayeredGraph, Pair], FlowTrace] | None = None
    residual: float = 0.5
    reaches_input: bool = True
    cost: Literal["matrix", "query", "pair"] = "matrix"
    reads_once: bool = False
    single_heads: bool = False
    uses_maps: bool = False
    own_rows: bool = False
    sums_maps: bool = False
    from_logit: Literal["ratios", "capacities"] | None = None
    amounts: Literal["any", "conserved"] | None = None
    edges: str = "attention"
    correction: str = ""
    full: float | None = None
    tie_breaker: str = ""
    alternative: str = ""
    everywhere: bool = False
    not_for_pairs: str = ""
    no_pair_routes: str = ""

    def apply(self, graph: LayeredGraph, selection: Selection, execution: Execution) -> Scores:
        """The scores of a selection, of the shape that it asks for."""
        if graph.source is not None:
            self.check_pairs()
        given = graph.copied() if is_foreign(self.score) else graph
        with name_failure(f"method={self.name!r}"):
            scores = self.score(given, selection, execution)
        batch = tuple(graph.weights.shape[1:-2])
        heads = () if graph.heads is None else (int(graph.heads.shape[-3]),)
        ends = (len(selection.queries), len(selection.keys))
        return _checked(self.name, scores, (len(selection.layers), *batch, *heads, *ends))

    def check_pairs(self, *, routes: bool = False) -> None:
        """Refuse encoder–decoders, where the method, or its routes, are not defined for them."""
        what, why = "is not defined for encoder–decoders", self.not_for_pairs
        if routes and not why:
            what, why = "has no routes through an encoder–decoder", self.no_pair_routes
        if why:
            msg = f"method={self.name!r} {what}: {why}. Use method='rollout' or 'flow'"
            raise InputError(msg)


@dataclass(frozen=True)
class Measure(Method):
    """A method that runs the model again and reads no edges.

    It has one score per token, of the output: no layers, no heads, no routes. The scores are
    towards a target.

    Attributes:
        measure: The scores ``[token]`` that answer a `attnflow.measures.question.Question`, one
            for each of its groups of tokens.
        cost: ``"pass"``: some passes through the model, whatever the length; ``"passes"``: many,
            or one per token.
        uses_steps: Whether the option ``steps`` says how exactly it is computed.
    """

    measure: Callable[[Any], Scores]
    cost: Literal["pass", "passes"] = "pass"
    uses_steps: bool = False

    def apply(self, question: Any) -> Scores:
        """The scores of a question's groups of tokens, ``[key]``."""
        with name_failure(f"method={self.name!r}"):
            scores = self.measure(question)
        return _checked(self.name, scores, (len(question.groups),))


def _checked(method: str, scores: Any, expected: tuple[int, ...]) -> Scores:
    if not isinstance(scores, Scores):
        msg = f"method={method!r} returned {type(scores).__name__}; it must return Scores"
        raise InputError(msg)
    if tuple(scores.values.shape) != expected:
        msg = (
            f"method={method!r} returned scores of shape {tuple(scores.values.shape)}; this "
            f"selection needs {expected}"
        )
        raise InputError(msg)
    return scores


AGGREGATORS: Registry[Aggregator | Measure] = Registry(
    "method",
    "Aggregator or Measure",
    {
        "raw": "attnflow.aggregation.raw",
        "rollout": "attnflow.aggregation.rollout",
        "flow": "attnflow.aggregation.flow",
        "barrier": "attnflow.aggregation.barrier",
        "widest": "attnflow.aggregation.widest",
        "additive": "attnflow.aggregation.additive",
        "direct": "attnflow.aggregation.direct",
        "direct-all": "attnflow.aggregation.direct:EVERYWHERE",
        "gradient-norm": "attnflow.measures.gradients:NORM",
        "gradient-input": "attnflow.measures.gradients:INPUT",
        "integrated": "attnflow.measures.integrated",
        "blank-out": "attnflow.measures.blank_out",
        "lrp": "attnflow.measures.lrp",
    },
)


def find_aggregator(name: object) -> Aggregator:
    """The method of that name, where edges are asked for; an error for one that reads none."""
    member = AGGREGATORS[name]
    if isinstance(member, Measure):
        msg = (
            f"method={member.name!r} reads no edges: it runs the model again and scores the "
            "tokens for its output, without layers, heads or routes"
        )
        raise InputError(msg)
    return member


def find_trace(name: object) -> Callable[[LayeredGraph, Pair], FlowTrace]:
    """How a method tells how a score came about; an error where it can't."""
    member = find_aggregator(name)
    if member.trace is None:
        msg = f"method={member.name!r} can't tell how a score came about: it has no trace"
        raise InputError(msg)
    return member.trace


def merge_statistics(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The statistics of several runs as one.

    Numbers are added up, or their maximum is taken where they are called so; NaN stays NaN in any
    order. Of anything else the last is kept.
    """
    merged: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if name.startswith("largest") or name == "threads":
                pair = (merged.get(name, value), value)
                merged[name] = next((each for each in pair if each != each), max(pair))
            elif isinstance(value, int | float):
                merged[name] = merged.get(name, 0) + value
            else:
                merged[name] = value
    return merged
