"""The three things that travel through the library, each frozen and checked on creation.

    AttentionRecord   what a model attended to           models  → edges
    LayeredGraph      weighted edges between layers      edges   → methods
    Attribution       scores of input tokens             methods → views

Axes are always called ``layer head query key``. Layers are numbered as in the paper: layer 0 is the
input, layer l the output of the l-th attention layer; negative numbers count from the top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from attnflow.errors import InputError

FloatArray = npt.NDArray[np.float64]
Array = Any  # a NumPy array or a torch tensor: attnflow imports torch only where a model is run


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """Attention probabilities of one input, as a model computed them.

    Attributes:
        layers: One array a layer, ``[head, query, key]``, or ``[query, key]`` where the heads were
            already fused. NumPy or torch.
        causal: Whether later positions were hidden from earlier ones.
    """

    layers: tuple[Array, ...]
    causal: bool = False

    def __post_init__(self) -> None:
        if not self.layers:
            msg = "an AttentionRecord needs at least one layer"
            raise InputError(msg)


@dataclass(frozen=True, eq=False)
class LayeredGraph:
    """Weighted edges from every layer to the layer below.

    Attributes:
        weights: ``[layer, query, key]``: ``weights[l - 1, i, j]`` is the weight of the edge from
            node (l, i) to node (l − 1, j). Rows sum to 1 (or to 0: a node that reads nothing).
        heads: ``[layer, head, query, key]``: for questions about single heads (Appendix A.1), the
            edges of each head, used on top of the merged ``weights`` of the layers below.
    """

    weights: Array
    heads: Array | None = None

    @property
    def depth(self) -> int:
        """The number of layers of edges."""
        return int(self.weights.shape[0])

    @property
    def size(self) -> int:
        """The number of nodes of a layer."""
        return int(self.weights.shape[-1])


@dataclass(frozen=True)
class Prediction:
    """What the model said: a label or a token, and how likely it found it."""

    label: str
    probability: float


@dataclass(frozen=True, eq=False)
class Attribution:
    """How much each input token contributed, by one method, to positions of one or more layers.

    Attributes:
        tokens: The input tokens: the key axis.
        scores: ``[layer, query, key]``, or ``[layer, head, query, key]`` for single heads.
        layers: The layer numbers along the first axis of ``scores``.
        queries: The positions along the query axis.
        layer: The layer asked about, one of ``layers``.
        query: The position asked about, one of ``queries``.
        method: The name of the method, e.g. ``"flow"``.
        options: Every option that was used.
        model: The model's name.
        text: The input text.
        prediction: What the model said, where it has a head that says something.
        statistics: What the method reports of its work, e.g. the largest optimality gap.
        words: For each token the index of its word; ``None`` for special tokens.
    """

    tokens: tuple[str, ...]
    scores: FloatArray
    layers: tuple[int, ...]
    queries: tuple[int, ...]
    layer: int
    query: int
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    text: str = ""
    prediction: Prediction | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    words: tuple[int | None, ...] | None = None

    def __post_init__(self) -> None:
        expected = (len(self.layers), len(self.queries), len(self.tokens))
        shape = self.scores.shape
        if (shape[0], *shape[-2:]) != expected or self.scores.ndim not in (3, 4):
            msg = (
                f"scores have shape {shape}; {expected[0]} layers, {expected[1]} queries and "
                f"{expected[2]} tokens need [layer, query, key] or [layer, head, query, key]"
            )
            raise InputError(msg)
        for name, value, allowed in (
            ("layer", self.layer, self.layers),
            ("query", self.query, self.queries),
        ):
            if value not in allowed:
                msg = f"{name}={value} was not computed; this attribution has {allowed}"
                raise InputError(msg)

    def row(self, layer: int | None = None, query: int | None = None) -> FloatArray:
        """The scores of all tokens, ``[key]`` (or ``[head, key]``), for a layer and a position."""
        at = self.layers.index(self.layer if layer is None else layer)
        of = self.queries.index(self.query if query is None else query)
        return self.scores[at, ..., of, :]

    @property
    def values(self) -> FloatArray:
        """The scores of all tokens for the layer and the position asked about."""
        return self.row()

    def top(self, k: int = 5) -> Sequence[tuple[str, float]]:
        """The k highest-scored tokens with their scores, highest first."""
        order = np.argsort(-self.values, kind="stable")[:k]
        return [(self.tokens[i], float(self.values[i])) for i in order]
