"""The graphs of one input, each built once, whichever methods run on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from attnflow.edges.graph import add_heads, build_graph, chance_graph, fuse_layers
from attnflow.edges.rule import Maps
from attnflow.errors import InputError
from attnflow.methods import find_edge_method
from attnflow.pipeline.request import Request
from attnflow.records import Activations, Array, LayeredGraph
from attnflow.records.learned import LearnedHeads
from attnflow.records.sparse import SparseLayer

MOST_KEPT = 1 << 28  # bytes of a rule's maps that are kept for the next graph


@dataclass(frozen=True, eq=False)
class Graphs:
    """What edges are made of, and the graphs that were built."""

    activations: Activations
    config: Request
    _built: dict[Any, LayeredGraph] = field(default_factory=dict, init=False)
    _kept: list[Maps] = field(default_factory=list, init=False)

    @property
    def heads(self) -> int:
        """How many heads the first layer has; 0 where they were fused while the model ran."""
        first = self.activations.attention[0]
        return int(first.shape[0]) if first.ndim == 3 else 0

    @cached_property
    def fused(self) -> Activations:
        """The activations with their heads fused."""
        if not self.heads:
            return self.activations
        config, layers = self.config, self.activations.attention
        if isinstance(config.heads, LearnedHeads):
            return replace(self.activations, attention=tuple(fuse_layers(layers, config.heads)))
        fuse = (replace(config, heads="mean") if config.heads == "each" else config).fuse
        return replace(self.activations, attention=tuple(fuse(each[None])[0] for each in layers))

    @property
    def maps(self) -> Sequence[Array]:
        """The maps of the edge rule, heads fused: ``[query, key]`` per step."""
        if self.config.rule.fuses_heads:
            return self.fused.attention
        heads = "mean" if self.config.heads == "each" else self.config.heads
        if self.config.rule.amounts:
            made: Array = self._made().layers
            return list(made if made.ndim == 3 else add_heads(made, heads))
        return fuse_layers(self._made().layers, heads)

    def _made(self) -> Maps:
        """What the edge rule makes of the activations; kept where that is small.

        Methods differ in how they go on (residual, correction, chance), and rules may be slow.
        """
        if self._kept:
            return self._kept[0]
        found = self.config.rule.apply(self.activations)
        if sum(int(each.nbytes) for each in found.layers) <= MOST_KEPT:
            self._kept.append(found)
        return found

    @property
    def nbytes(self) -> int:
        """About how much memory this holds, or will hold once graphs are built."""
        graphs = sum(self._built[key].nbytes for key in tuple(self._built))
        attention = self.activations.attention
        usual = 3 * 8 * len(attention) * int(attention[0].shape[-1]) ** 2
        if isinstance(attention[0], SparseLayer):  # of which graphs hold 12 bytes for 8
            usual = 3 * sum(each.nbytes for each in attention) * 12 // 8
        return sum(int(each.nbytes) for made in self._kept for each in made.layers) + max(
            graphs, usual
        )

    def find(
        self, method: str, correction: str | None, *, each_head: bool, chance: bool
    ) -> LayeredGraph:
        """The graph that a method runs on; with ``chance``, that of even attention."""
        options = self.config.edge_options(method, correction)
        activations = self.activations
        if each_head:
            if not self.heads:
                msg = "the heads were fused while the model ran; open the session with all heads"
                raise InputError(msg)
            options = replace(options, heads="each")
        elif self.config.rule.fuses_heads and not isinstance(options.heads, LearnedHeads):
            activations, options = self.fused, replace(options, heads="mean")
        elif options.heads == "each":
            options = replace(options, heads="mean")
        keep_maps = find_edge_method(method).uses_maps
        key = (options.residual, options.correction, each_head, chance, keep_maps)
        if key not in self._built:
            build = chance_graph if chance else build_graph
            made = None if self.config.rule.fuses_heads else self._made()
            self._built[key] = build(activations, options, keep_maps=keep_maps, made=made)
        return self._built[key]
