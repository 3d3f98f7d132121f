"""The graph that scores are computed on, and how one score came about in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError
from attnflow.records.activations import Relevances
from attnflow.records.arrays import to_numpy
from attnflow.records.attribution import Input
from attnflow.records.layers import DeviceLayers
from attnflow.records.prediction import Prediction
from attnflow.records.selection import Pair
from attnflow.records.types import Array, FloatArray

if TYPE_CHECKING:
    from attnflow.records.knockout import Knockout


@dataclass(frozen=True, eq=False)
class LayeredGraph:
    """Weighted edges from every layer to the layer below.

    Attributes:
        weights: ``[layer, query, key]``: ``weights[l - 1, i, j]`` is the weight of the edge from
            node (l, i) to node (l − 1, j). Rows sum to 1 (or to 0: a node that attends to nothing),
            unless the edge rule makes amounts, which have a sign.
        heads: ``[layer, head, query, key]``: for scores of single heads (Appendix A.1), the
            edges of each head, used on top of the merged ``weights`` of the layers below.
        maps: ``[layer, query, key]``: what the edge rule made, before the residual was added and
            rows were made to sum to 1, for methods that use it.
        source: For encoder–decoders, how many positions are of the source; they come first.
        relevance: For edges that are relevance, what arrived at tokens, and what streams have.
        statistics: What the edge rule reports of its work.
        cache: What is derived from the graph once and used often, such as a prepared solver.
    """

    weights: Array
    heads: Array | None = None
    maps: Array | None = None
    source: int | None = None
    relevance: Relevances | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def depth(self) -> int:
        """The number of layers of edges."""
        return int(self.weights.shape[0])

    @cached_property
    def size(self) -> int:
        """The number of nodes of a layer."""
        return int(self.weights.shape[-1])

    @property
    def made(self) -> Any:
        """The edges as they were made, with those that are left out of ``weights``."""
        return self.weights.given if isinstance(self.weights, DeviceLayers) else self.weights

    @property
    def without_first(self) -> bool:
        """Whether edges to the first token are left out of what was made."""
        return isinstance(self.weights, DeviceLayers) and self.weights.without_first

    @property
    def nbytes(self) -> int:
        """How much memory the edges take, with what was derived from them."""
        maps = None if self.maps is self.weights else self.maps
        arrays = (self.weights, self.heads, maps, *tuple(self.cache.values()))
        return sum(int(each.nbytes) for each in arrays if each is not None)

    def edges_of(self, pair: Pair) -> FloatArray:
        """The edges of a pair's source, ``[key]``: those of its head, where one is named."""
        if pair.head is None:
            return to_numpy(self.weights[pair.layer - 1][pair.query])  # type: ignore[no-any-return]
        count = 0 if self.heads is None else self.heads.shape[1]
        if self.heads is None or not -count <= pair.head < count:
            msg = f"head={pair.head} does not exist; there are {count}, 0 to {count - 1}"
            raise InputError(msg)
        return to_numpy(self.heads[pair.layer - 1, pair.head, pair.query])  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Edge:
    """The edge from (layer, query) to (layer − 1, key)."""

    layer: int
    query: int
    key: int
    capacity: float


@dataclass(frozen=True)
class Route:
    """A path that carries flow: its positions from the source's layer down, and the amount."""

    positions: tuple[int, ...]
    amount: float


@dataclass(frozen=True, eq=False, repr=False)
class FlowTrace(Input):
    """What passed from (layer, query) to the input token ``key``, edge by edge.

    For a maximum flow it also has the proof, a minimum cut, and the routes that the flow takes.

    Attributes:
        layer: The layer of the source.
        query: The position of the source.
        key: The token that the score is of.
        to_layer: The layer of the token; 0 is the input.
        value: The score; for flow, the maximum flow. Of relevance it is what speaks for the target,
            or, below 0, what speaks against it, whichever is more.
        opposed: Of relevance, the maximum flow of what speaks the other way; the score is the
            value less that.
        edges: What passed over every edge, ``[layer, query, key]``, from ``to_layer`` + 1 up. Where
            a decoder layer has two steps, self-attention and cross-attention, these are steps.
        cut: The edges of a minimum cut: together they carry no more than ``value``.
        sources: The positions that a flow of relevance starts at: where the target is read.
        carries_from: Of such a flow, the cut as one number for each position: the layer from which
            on it carries the token's information; one more than there are for those that never do.
            An edge (layer, query) → (layer − 1, key) that flow can reach is cut where
            ``carries_from[key] < layer < carries_from[query]``.
        gap: The capacity of the cut less the value: how far the flow can be from the optimum.
        routes: The flow as paths, the largest first; their amounts sum to ``value``.
        method: The method whose score this is.
        tokens: The input tokens that positions refer to; empty for arrays.
        model: The model's name.
        prediction: The model's prediction.
        causal: Whether the model is a causal decoder, whose scores favour the first tokens.
        options: How the edges were built: rule, heads, residual, discard, correction.
        warnings: What a reader must know of the model and the input.
        knockout: What the model says without the edges of the cut, where that was tried.
    """

    layer: int
    query: int
    key: int
    to_layer: int
    value: float
    edges: FloatArray
    cut: tuple[Edge, ...] = ()
    gap: float = 0.0
    routes: tuple[Route, ...] = ()
    method: str = "flow"
    tokens: tuple[str, ...] = field(default=(), kw_only=True)
    model: str = ""
    prediction: Prediction | Any = None  # as in Attribution
    causal: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    sources: tuple[int, ...] = ()
    carries_from: tuple[int, ...] = ()
    opposed: float = 0.0
    knockout: Knockout | None = None

    @property
    def score(self) -> float:
        """The score of the token: for signed scores, what speaks for less what speaks against."""
        return self.value - self.opposed if self.value > 0 else self.value + self.opposed

    @property
    def summary(self) -> str:
        """What it comes to, in words."""
        from attnflow.views.wording.traces import trace_sentence

        return trace_sentence(self)

    @classmethod
    def of(cls, pair: Pair, value: float, edges: FloatArray, **more: Any) -> FlowTrace:
        """The trace of one score, by its value and what passed over every edge."""
        return cls(pair.layer, pair.query, pair.key, pair.to_layer, value, edges, **more)

    def __repr__(self) -> str:
        query, key = (
            (self.tokens[self.query], self.tokens[self.key])
            if self.tokens
            else (self.query, self.key)
        )
        ends = f"from {key} to {query} at layer {self.layer}"
        found = f"{len(self.routes)} routes, {len(self.cut)} edges cut"
        return f"<FlowTrace: {self.method} {self.value:.4g} {ends}; {found}>"
