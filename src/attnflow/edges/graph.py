"""From activations to a graph: fuse heads, correct, discard, add the residual, rows to 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Literal, get_args

import numpy as np

from attnflow.edges.corrections import (
    ON_MAPS,
    SINK,
    correct_maps,
    even_rows,
    first_seen,
    spread_evenly,
    uniform_activations,
    without_sink,
)
from attnflow.edges.rule import EDGE_RULES, EdgeRule, Maps
from attnflow.errors import InputError, unknown
from attnflow.records import Activations, Array, FloatArray, LayeredGraph
from attnflow.records.arrays import (
    contiguous,
    double,
    empty,
    is_tensor,
    namespace,
    on_cpu,
    to_numpy,
)
from attnflow.records.layers import DeviceLayers
from attnflow.records.learned import LearnedHeads
from attnflow.records.sparse import SparseLayer, SparseLayers

HeadRule = Literal["mean", "each"]
Heads = HeadRule | Sequence[int] | Sequence[float] | LearnedHeads
USUAL_RESIDUAL = 0.5


@dataclass(frozen=True)
class EdgeOptions:
    """How activations become edges.

    Attributes:
        residual: The share of the identity in A = (1 − residual)·W + residual·I; 0 turns it off.
        heads: ``"mean"`` over heads; integers pick heads, whose mean is taken; floats weigh all
            heads; ``"each"`` keeps every head (Appendix A.1); learned ones have weights for every
            layer.
        discard: The ratio of smallest entries of a fused map set to zero, but never the first
            position's to itself.
        rule: The edge rule.
        correction: ``"sink"`` corrects the maps of a causal model.
    """

    residual: float = USUAL_RESIDUAL
    heads: Heads = "mean"
    discard: float = 0.0
    rule: str = "attention"
    correction: str | None = None

    def __post_init__(self) -> None:
        check_ratio("residual", self.residual, "off")
        check_ratio("discard", self.discard, "off")
        check_heads(self.heads)
        if self.correction is not None and self.correction not in ON_MAPS:
            allowed = ", ".join(ON_MAPS)
            msg = f"correction={self.correction!r} does not apply to maps; allowed: {allowed}"
            raise InputError(msg)


def check_ratio(name: str, value: object, zero: str) -> None:
    """Refuse anything but a number from 0 to below 1."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not (number and 0 <= value < 1):  # type: ignore[operator] # which was just checked
        msg = f"{name}={value!r} must be a number from 0 ({zero}) to below 1"
        raise InputError(msg)


def check_heads(heads: object) -> None:
    """Refuse what names no way to fuse heads."""
    if isinstance(heads, LearnedHeads):
        return
    if isinstance(heads, Real):
        msg = f"heads={heads} must be a list: heads=[{heads}] picks this head"
        raise InputError(msg)
    rules = get_args(HeadRule)
    known = heads in rules if isinstance(heads, str) else _are_numbers(heads)
    if not known:
        raise InputError(unknown("heads", heads, rules, "a list of integers or of weights"))
    if len(heads) == 0:  # type: ignore[arg-type] # a string or a sequence
        msg = "heads=[] picks no head; give head numbers, weights, or a rule such as 'mean'"
        raise InputError(msg)


def _are_numbers(heads: object) -> bool:
    return isinstance(heads, Sequence) and all(
        isinstance(head, Real) and not isinstance(head, bool) for head in heads
    )


def fuse_heads(layer: Array, heads: Heads) -> Array:
    """``[…, head, query, key]`` → ``[…, query, key]`` in float64."""
    if layer.shape[-3] == 1 and heads != "each":
        head_weights(1, heads)
        return double(layer[..., 0, :, :])
    if heads in ("mean", "each"):
        return double(layer).mean(-3)
    weights = head_weights(int(layer.shape[-3]), heads)
    return sum(weight * double(layer[..., head, :, :]) for head, weight in weights.items())


def add_heads(layers: Array, heads: Heads) -> Array:
    """``[…, head, query, key]`` → ``[…, query, key]``: the sum of all heads, or of those picked."""
    if heads in ("mean", "each"):
        return layers.sum(-3)
    picked = list(head_weights(int(layers.shape[-3]), heads))
    return layers[..., picked, :, :].sum(-3)


def fuse_layers(layers: Sequence[Array], heads: Heads) -> list[Array]:
    """Every layer's heads fused; learned heads have weights of their own in each."""
    if not isinstance(heads, LearnedHeads):
        return [fuse_heads(each, heads) for each in layers]
    heads.check_heads([int(each.shape[-3]) for each in layers])
    return [
        sum(weight * double(layer[..., head, :, :]) for head, weight in enumerate(weights))
        for layer, weights in zip(layers, heads.scaled, strict=True)
    ]


def strengths(heads: Heads, count: int) -> list[float]:
    """How much each of ``count`` layers carries, beside the strongest one."""
    if isinstance(heads, LearnedHeads):
        return [math.fsum(layer) for layer in heads.scaled]
    return [1.0] * count


def head_weights(count: int, heads: Heads) -> dict[int, float]:
    """The weight of every head that takes part: picked heads weigh the same, weights sum to 1."""
    if isinstance(heads, str):
        return dict.fromkeys(range(count), 1 / count)
    if isinstance(heads, LearnedHeads):
        msg = "learned heads have weights for every layer; fuse all layers together"
        raise InputError(msg)
    if all(isinstance(head, Integral) for head in heads):
        return _picked(count, [int(head) for head in heads])
    total = float(sum(heads))
    if len(heads) != count or min(heads) < 0 or not 0 < total < math.inf:  # false for NaN
        msg = f"heads={list(heads)} must be {count} finite weights, none negative, not all zero"
        raise InputError(msg)
    return {head: float(weight) / total for head, weight in enumerate(heads)}


def _picked(count: int, heads: Sequence[int]) -> dict[int, float]:
    for head in heads:
        if not -count <= head < count:
            msg = f"heads={list(heads)}: head {head} does not exist; there are 0 to {count - 1}"
            raise InputError(msg)
    if len({head % count for head in heads}) != len(heads):
        msg = f"heads={list(heads)} names a head twice; give weights (as floats) to weigh heads"
        raise InputError(msg)
    return {head % count: 1 / len(heads) for head in heads}


# Attention in windows: the same steps on sparse maps, which hold only what is not 0.


def is_sparse(activations: Activations) -> bool:
    """Whether the attention is held by its entries that are not 0."""
    return isinstance(activations.attention[0], SparseLayer)


def make_dense(activations: Activations) -> Activations:
    """The same with dense maps."""
    return replace(activations, attention=tuple(to_numpy(each) for each in activations.attention))


def sparse_graph(
    activations: Activations, options: EdgeOptions, *, keep_maps: bool
) -> LayeredGraph:
    """The graph of sparse attention, whose heads are fused."""
    layers = [each.double() for each in activations.attention]
    if options.correction is not None:
        layers = [_without_sink(each) for each in layers]
    maps = SparseLayers(tuple(layers)) if keep_maps else None
    if options.correction is not None:
        layers = [each.times(_inverse(each.sums)) for each in layers]
    edges = tuple(_edges(each, options.residual) for each in layers)
    return LayeredGraph(SparseLayers(edges), maps=maps, source=activations.source)


def even_attention(activations: Activations) -> Activations:
    """As sparse, of a causal model that reads evenly from all that each position sees."""
    even = [even_rows(first_seen(each)) for each in activations.attention]
    return replace(activations, attention=tuple(even))


def _edges(layer: SparseLayer, residual: float) -> SparseLayer:
    totals = (1 - residual) * layer.sums + residual
    totals = totals + (totals == 0)  # a row of zeros reads nothing, and stays so
    edges = layer.times((1 - residual) / totals)
    return edges.plus_diagonal(residual / totals) if residual else edges


def _without_sink(layer: SparseLayer) -> SparseLayer:
    sums, sink = layer.sums, (layer.keys == 0) & (layer.queries > 0)
    left = replace(layer, values=np.where(sink, 0.0, layer.values))
    left = left.plus_diagonal((left.sums == 0).astype(np.float64))
    return left.times(sums * _inverse(left.sums))


def _inverse(sums: FloatArray) -> FloatArray:
    found: FloatArray = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return found


def build_graph(
    activations: Activations,
    options: EdgeOptions,
    *,
    keep_maps: bool = False,
    made: Maps | None = None,
    read_once: bool = False,
) -> LayeredGraph:
    """The graph of a rule's maps; in float64, axes before ``head`` (a batch) carried along.

    ``keep_maps`` keeps the maps, mixed and corrected, beside the edges that are made of them.
    ``made`` are the rule's maps of these activations, if they were made before. ``read_once`` says
    that layers are read one after the other, so that they may be made lazily (`LayersOnDemand`).
    """
    rule = EDGE_RULES[options.rule]
    if rule.amounts:
        return _amounts(made or rule.apply(activations), activations, options, read_once=read_once)
    if is_sparse(activations):
        if not options.discard:
            return sparse_graph(activations, options, keep_maps=keep_maps)
        activations = make_dense(activations)
    made = made or rule.apply(activations)
    return _built(rule, made, activations, options, keep_maps=keep_maps, read_once=read_once)


def _amounts(
    made: Maps, activations: Activations, options: EdgeOptions, *, read_once: bool
) -> LayeredGraph:
    """The graph of amounts, left as they are and where they are; heads add up."""
    maps: Array = made.layers
    if isinstance(maps, DeviceLayers) and not read_once:
        maps = maps.stacked()
    heads = maps if maps.ndim == 4 else None
    weights = maps if heads is None else add_heads(maps, options.heads)
    relevance = activations.relevance
    if options.correction == SINK:
        weights, heads, relevance = without_sink(weights, heads, relevance, when_read=read_once)
    return LayeredGraph(
        weights,
        heads if options.heads == "each" else None,
        maps=weights,
        source=activations.source,
        statistics=made.statistics,
        relevance=relevance,
    )


def chance_graph(
    activations: Activations,
    options: EdgeOptions,
    *,
    keep_maps: bool = False,
    made: Maps | None = None,
) -> LayeredGraph:
    """The graph of a causal model that reads as much, evenly from all that it sees.

    Where the rule measures the residual, a position takes as much from itself as it does.
    """
    rule = EDGE_RULES[options.rule]
    if is_sparse(activations):
        return build_graph(even_attention(activations), options, keep_maps=keep_maps)
    if rule.fuses_heads:
        even = Maps(rule.apply(uniform_activations(activations)).layers)
    else:
        own, maps = rule.residual == "measured", (made or rule.apply(activations)).layers
        pairs = zip(maps, activations.attention, strict=True)
        even = Maps([spread_evenly(each, seen, keep_own=own) for each, seen in pairs])
    return _built(rule, even, activations, options, keep_maps=keep_maps)


def _built(
    rule: EdgeRule,
    made: Maps,
    activations: Activations,
    options: EdgeOptions,
    *,
    keep_maps: bool,
    read_once: bool = False,
) -> LayeredGraph:
    if options.heads != "mean" and not rule.fuses_heads:
        _check_heads_known(made.layers, activations, options)
    graph = replace(
        _graph(
            made.layers,
            options,
            sound=rule.fuses_heads,
            keeps=rule.residual == "measured",
            read_once=read_once,
        ),
        source=activations.source,
        statistics=made.statistics,
    )
    if not keep_maps:
        return graph
    fused = correct_maps(fuse_layers(made.layers, options.heads), options.correction)
    maps = namespace(fused[0]).stack(tuple(fused))
    for step, each in enumerate(maps):
        each[..., activations.carried_by(step), :] = (
            0  # a position does not read what it carries along
        )
    return replace(graph, maps=maps)


def _graph(
    maps: Sequence[Array],
    options: EdgeOptions,
    *,
    sound: bool,
    keeps: bool = False,
    read_once: bool = False,
) -> LayeredGraph:
    """The graph of maps, ``sound`` where they are probabilities.

    Rows of others are made to sum to 1 before the residual is added: its share is one of them.
    ``keeps`` says that a position which takes nothing stays what it is, where no share says so.
    """

    def mixed(maps: Sequence[Array], heads: Heads | None) -> Sequence[Array]:
        fused = [double(each) for each in maps] if heads is None else fuse_layers(maps, heads)
        corrected = correct_maps(fused, options.correction)
        if sound and options.correction is None:
            return corrected
        # Learned heads say how much a layer carries at all, whatever the size of its maps.
        sums = strengths(options.heads, len(maps))
        whole = [_kept(each) if keeps else each for each in corrected]
        return [_to_one(each) * of for each, of in zip(whole, sums, strict=True)]

    if options.heads == "each":
        _check_equal_heads(maps)
        return LayeredGraph(
            _finish(mixed(maps, "each"), options), _finish(mixed(maps, None), options)
        )
    if options.correction is not None or not sound or isinstance(options.heads, LearnedHeads):
        maps = [each[..., None, :, :] for each in mixed(maps, options.heads)]
        options = replace(options, heads="mean")
    if on_cpu(maps[0]) and not options.discard:
        return LayeredGraph(_in_one_pass(maps, options, read_once=read_once))
    return LayeredGraph(_finish(fuse_layers(maps, options.heads), options))


def _check_heads_known(
    maps: Sequence[Array], activations: Activations, options: EdgeOptions
) -> None:
    """Refuse single heads of a rule that takes all together."""
    pairs = zip(maps, activations.attention, strict=True)
    if any(made.shape[-3] == 1 < of.shape[-3] for made, of in pairs if of.ndim > 2):
        msg = f"edges={options.rule!r} takes all heads together; leave out heads={options.heads!r}"
        raise InputError(msg)


def _check_equal_heads(maps: Sequence[Array]) -> None:
    counts = sorted({int(each.shape[-3]) for each in maps})
    if len(counts) > 1:
        msg = (
            f"heads='each' needs the same number of heads in all layers; here they have "
            f"{' and '.join(map(str, counts))}. Use heads='mean'"
        )
        raise InputError(msg)


def _in_one_pass(maps: Sequence[Array], options: EdgeOptions, *, read_once: bool) -> Array:
    """The weighted mean of heads and what follows it, compiled."""
    from attnflow.edges.rows import LayersOnDemand, fuse_rows  # importing numba is slow

    *batch, _, size, _ = maps[0].shape
    flat, weights = [], []
    for each in maps:
        count = int(each.shape[-3])
        chosen = head_weights(count, options.heads)
        weights.append(np.array([chosen.get(head, 0.0) for head in range(count)]))
        flat.append(contiguous(each).reshape(-1, count, size, size))
    if read_once:
        return LayersOnDemand(flat, weights, options.residual, tuple(batch))
    return fuse_rows(flat, weights, options.residual).reshape(len(maps), *batch, size, size)


def _finish(fused: Sequence[Array], options: EdgeOptions) -> Array:
    """The steps after mixing and correcting, from ``[…, query, key]`` per layer to their stack."""
    xp = namespace(fused[0])
    if options.discard:
        fused = [_discard_smallest(layer, options.discard) for layer in fused]
    edges = empty((len(fused), *fused[0].shape), fused[0])
    for layer, into in zip(fused, edges, strict=True):
        totals = (1 - options.residual) * layer.sum(-1) + options.residual
        totals = totals + (totals == 0)  # a row of zeros reads nothing, and stays so
        xp.multiply(layer, ((1 - options.residual) / totals)[..., None], out=into)
        if options.residual:
            diagonal = xp.einsum("...ii->...i", into)  # a view: the edges themselves change
            diagonal += options.residual / totals
    return edges


def _kept(layer: Array) -> Array:
    """Rows of zeros with the position itself: a layer that moves nothing hands on what there is."""
    nothing = layer.sum(-1) == 0
    if not nothing.any():
        return layer
    layer = to_numpy(layer)
    kept: FloatArray = layer + to_numpy(nothing)[..., None] * np.eye(layer.shape[-1])
    return kept


def _to_one(layer: Array) -> Array:
    """Rows that sum to 1; a row of zeros stays one."""
    sums = layer.sum(-1)[..., None]
    return layer / (sums + (sums == 0))


def _discard_smallest(fused: Array, ratio: float) -> Array:
    """Zero the smallest entries of each map; the first position's attention to itself stays."""
    xp = namespace(fused)
    flat = fused.reshape(*fused.shape[:-2], -1)
    order = xp.argsort(
        flat, **({"stable": True} if is_tensor(flat) else {"axis": -1, "kind": "stable"})
    )
    ranks = xp.argsort(order, -1)
    keep = ranks >= int(flat.shape[-1] * ratio)
    keep[..., 0] = True
    return (flat * keep).reshape(fused.shape)
