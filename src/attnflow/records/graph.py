"""The graph that scores are computed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from attnflow.errors import InputError
from attnflow.records.activations import Relevances
from attnflow.records.arrays import copied, to_numpy
from attnflow.records.selection import Pair
from attnflow.records.types import Array, FloatArray


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

    @property
    def depth(self) -> int:
        """The number of layers of edges."""
        return int(self.weights.shape[0])

    @property
    def size(self) -> int:
        """The number of nodes of a layer."""
        return int(self.weights.shape[-1])

    @property
    def nbytes(self) -> int:
        """How much memory the edges take, with what was derived from them."""
        maps = None if self.maps is self.weights else self.maps
        arrays = (self.weights, self.heads, maps, *tuple(self.cache.values()))
        return sum(int(each.nbytes) for each in arrays if each is not None)

    def copied(self) -> LayeredGraph:
        """The same graph with arrays of its own."""
        return replace(
            self, weights=copied(self.weights), heads=copied(self.heads), maps=copied(self.maps)
        )

    def edges_of(self, pair: Pair) -> FloatArray:
        """The edges of a pair's source, ``[key]``: those of its head, where one is named."""
        if pair.head is None:
            return to_numpy(self.weights[pair.layer - 1][pair.query])  # type: ignore[no-any-return]
        count = 0 if self.heads is None else self.heads.shape[1]
        if self.heads is None or not -count <= pair.head < count:
            msg = f"head={pair.head} does not exist; there are {count}, 0 to {count - 1}"
            raise InputError(msg)
        return to_numpy(self.heads[pair.layer - 1, pair.head, pair.query])  # type: ignore[no-any-return]
