"""Methods: how the scores of input tokens are computed.

A method either reads the edges of a graph (``score``) or runs the model again (``measure``). All
are members of one family, `METHODS`, and declare what they can do, so that no other code has to
ask which kind a method is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from attnflow.errors import InputError
from attnflow.registry import Registry, is_foreign, name_failure

if TYPE_CHECKING:
    from attnflow.methods.question import Question
    from attnflow.records import Array, FlowTrace, LayeredGraph, Pair, Selection
    from attnflow.solvers.execution import Execution

APART = 1.01e-4  # of the largest flow: bounds that are no further apart are as good as exact


@dataclass(frozen=True, eq=False)
class Scores:
    """``[layer, query, key]`` or ``[layer, head, query, key]``, and how they were computed."""

    values: Array
    statistics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """A way to compute scores, and what it can do.

    Exactly one of ``score`` and ``measure`` is given. A method with ``score`` reads edges. One with
    ``measure`` runs the model again: it has one score per token, towards a target, and no layers,
    heads or routes.

    Attributes:
        name: What users write: ``method="flow"``.
        title: What figures and pages call it.
        score: The scores of a selection of a graph's layers, queries and keys.
        measure: The scores ``[key]`` for a `attnflow.methods.question.Question`, one for each of
            its groups of tokens.
        summary: What its scores are, in one line.
        signed: Whether scores below 0 speak against what is explained.
        shown_by_default: Whether commands and pages show it where no method is named.
        slot: The place of its colour in the palette; ``None`` is the next free one.
        trace: How one score came about, edge by edge; ``None`` where a method can't tell.
        residual: The share of the residual connection that the method is usually run with.
        reaches_input: Whether scores are of input tokens; otherwise of the layer directly below.
        cost: What is computed at once. With edges: ``"matrix"``, the scores of all positions of a
            layer (the default); ``"query"``, those of one position to all tokens; ``"pair"``, each
            score by a solve of its own. Without: ``"pass"``, a few passes through the model,
            whatever the length (the default); ``"passes"``, many, or one per token.
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
        uses_steps: Whether the option ``steps`` says how exactly it is computed.
    """

    name: str
    title: str
    score: Callable[[LayeredGraph, Selection, Execution], Scores] | None = None
    measure: Callable[[Any], Scores] | None = field(default=None, kw_only=True)
    summary: str = field(default="", kw_only=True)
    signed: bool = field(default=False, kw_only=True)
    shown_by_default: bool = field(default=True, kw_only=True)
    slot: int | None = field(default=None, kw_only=True)
    trace: Callable[[LayeredGraph, Pair], FlowTrace] | None = None
    residual: float = 0.5
    reaches_input: bool = True
    cost: Literal["matrix", "query", "pair", "pass", "passes"] = "matrix"
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
    uses_steps: bool = False

    def __post_init__(self) -> None:
        if (self.score is None) == (self.measure is None):
            msg = (
                f"method={self.name!r} needs one of score=, a function that reads the edges of a "
                "graph, and measure=, a function that runs the model again"
            )
            raise InputError(msg)
        if not self.reads_edges and self.cost == "matrix":
            object.__setattr__(self, "cost", "pass")

    @cached_property
    def reads_edges(self) -> bool:
        """Whether scores come from the edges of a graph, and not from running the model again."""
        return self.score is not None

    @cached_property
    def foreign(self) -> bool:
        """Whether its scores come from code outside of attnflow, which may write into a graph."""
        return is_foreign(self.score)

    def apply(self, graph: LayeredGraph, selection: Selection, execution: Execution) -> Scores:
        """The scores of a selection of a graph, of the shape that it asks for."""
        if self.score is None:
            self.refuse_edges()
        if graph.source is not None:
            self.check_pairs()
        given = _copy(graph) if self.foreign else graph
        with name_failure(f"method={self.name!r}"):
            scores = self.score(given, selection, execution)
        batch = tuple(graph.weights.shape[1:-2])
        heads = () if graph.heads is None else (int(graph.heads.shape[-3]),)
        ends = (len(selection.queries), len(selection.keys))
        return _checked(self.name, scores, (len(selection.layers), *batch, *heads, *ends))

    def answer(self, question: Question) -> Scores:
        """The scores of a question's groups of tokens, ``[key]``, by running the model again."""
        if self.measure is None:
            msg = f"method={self.name!r} reads edges and does not answer questions"
            raise InputError(msg)
        with name_failure(f"method={self.name!r}"):
            scores = self.measure(question)
        return _checked(self.name, scores, (len(question.groups),))

    def refuse_edges(self) -> NoReturn:
        """An error that says that this method reads none."""
        msg = (
            f"method={self.name!r} reads no edges: it runs the model again and scores the "
            "tokens for its output, without layers, heads or routes"
        )
        raise InputError(msg)

    def check_pairs(self, *, routes: bool = False) -> None:
        """Refuse encoder–decoders, where the method, or its routes, are not defined for them."""
        what, why = "is not defined for encoder–decoders", self.not_for_pairs
        if routes and not why:
            what, why = "has no routes through an encoder–decoder", self.no_pair_routes
        if why:
            msg = f"method={self.name!r} {what}: {why}. Use method='rollout' or 'flow'"
            raise InputError(msg)


def _checked(method: str, scores: Any, expected: tuple[int, ...]) -> Scores:
    from attnflow.records.arrays import check_numbers

    if not isinstance(scores, Scores):
        msg = f"method={method!r} returned {type(scores).__name__}; it must return Scores"
        raise InputError(msg)
    check_numbers(scores.values, f"method={method!r} returned scores that can't be used: they")
    if tuple(scores.values.shape) != expected:
        msg = (
            f"method={method!r} returned scores of shape {tuple(scores.values.shape)}; this "
            f"selection needs {expected}"
        )
        raise InputError(msg)
    return scores


METHODS: Registry[Method] = Registry(
    "method",
    "Method",
    {
        "raw": "attnflow.methods.raw",
        "rollout": "attnflow.methods.rollout",
        "flow": "attnflow.methods.flow",
        "barrier": "attnflow.methods.barrier",
        "widest": "attnflow.methods.widest",
        "additive": "attnflow.methods.additive",
        "direct": "attnflow.methods.direct",
        "direct-all": "attnflow.methods.direct:EVERYWHERE",
        "gradient-norm": "attnflow.methods.gradients:NORM",
        "gradient-input": "attnflow.methods.gradients:INPUT",
        "integrated": "attnflow.methods.integrated",
        "blank-out": "attnflow.methods.blank_out",
        "lrp": "attnflow.methods.lrp",
    },
)


def find_edge_method(name: object) -> Method:
    """The method of that name, where edges are needed; an error for one that reads none."""
    member = METHODS[name]
    if not member.reads_edges:
        member.refuse_edges()
    return member


def find_trace(name: object) -> Callable[[LayeredGraph, Pair], FlowTrace]:
    """How a method tells how a score came about; an error where it can't."""
    member = find_edge_method(name)
    if member.trace is None:
        msg = f"method={member.name!r} can't tell how a score came about: it has no trace"
        raise InputError(msg)
    trace, foreign = member.trace, is_foreign(member.trace)

    def tell(graph: LayeredGraph, pair: Pair) -> FlowTrace:
        with name_failure(f"method={member.name!r}"):
            return trace(_copy(graph) if foreign else graph, pair)

    return tell


def _copy(graph: LayeredGraph) -> LayeredGraph:
    """A copy of the graph, for code that comes from outside and may write into it."""
    from attnflow.records.arrays import copied

    own: LayeredGraph = copied(graph)
    return own


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


def inexact(statistics: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What a reader must know of flows that are known between two bounds."""
    gap = max((float(each.get("largest_gap", 0.0)) for each in statistics), default=0.0)
    if gap <= APART:
        return ()
    return (
        f"scores may be off by up to {100 * gap:.2g} % of the largest flow, since the graph is too "
        "large to be solved exactly; method='rollout' (--method rollout) has nothing to solve",
    )
