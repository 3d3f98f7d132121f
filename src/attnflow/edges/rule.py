"""An edge rule: how what a model computed becomes the weights of a graph's edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from attnflow.errors import InputError
from attnflow.registry import Registry, is_foreign, name_failure

if TYPE_CHECKING:
    from attnflow.records import Activations, Array

UNUSABLE = "edges={!r} made no maps that can be used:"


@dataclass(frozen=True)
class Needs:
    """What a rule reads beside the attention probabilities; everything costs time and memory.

    Attributes:
        blocks: The parts of every attention block: value vectors, output projection, the residual
            stream that its output is added to, and the norm that follows, where there is one.
        gradients: The gradient of the target by the probabilities.
        zeroing: How far every layer's output moves without each position's value vector.
        relevance: What passed over each edge on the way back from the target.
        removal: What the target loses, to first order, where an edge is removed.
    """

    blocks: bool = False
    gradients: bool = False
    zeroing: bool = False
    relevance: bool = False
    removal: bool = False

    @property
    def target(self) -> bool:
        """Whether the maps are those of a target."""
        return self.gradients or self.relevance or self.removal

    @property
    def attention_alone(self) -> bool:
        """Whether attention probabilities suffice, so that arrays of them do."""
        return self == Needs()


@dataclass(frozen=True, eq=False)
class Maps:
    """A rule's maps, one per step, with statistics of how they were made."""

    layers: Sequence[Array] | Array
    statistics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EdgeRule:
    """A rule by its name.

    Attributes:
        name: What users write: ``edges="attention"``.
        title: What figures and pages call it.
        maps: From activations one array per step, none of its entries negative unless they are
            amounts: ``[head, query, key]``, or ``[query, key]`` for a rule that knows no heads.
            Rows need not sum to 1. Either a sequence, or `Maps` with statistics.
        needs: What must be captured while the model runs.
        residual: ``"share"``: the residual connection is a chosen share of every row;
            ``"measured"``: the maps contain it already.
        single_heads: Whether the maps have heads; a rule that takes all together has none.
        fuses_heads: Whether the maps are the attention probabilities themselves, so that heads may
            be fused while the model runs and never be held all at once.
        by_row: Whether a row of the maps is made of that row of attention (and gradients) alone.
        amounts: Whether the maps are amounts with a sign, in ``unit``, and not shares of a row.
            They are left as they are: heads add up, and no row is made to sum to 1. Methods say
            whether they can read them.
        conserved: Whether what enters a position over such edges leaves it, so that the sum over
            all paths is what arrives at each token.
        method: The method that is used where edges are named and no method.
        unit: What the entries of the maps are, for methods whose scores are sums of them.
    """

    name: str
    title: str
    maps: Callable[[Activations], Sequence[Array] | Maps]
    needs: Needs = Needs()
    residual: Literal["share", "measured"] = "share"
    single_heads: bool = True
    fuses_heads: bool = False
    by_row: bool = False
    amounts: bool = False
    conserved: bool = False
    method: str = "rollout"
    unit: str = ""

    @cached_property
    def foreign(self) -> bool:
        """Whether its code comes from outside of attnflow, and may write into activations."""
        return is_foreign(self.maps)

    def apply(self, activations: Activations) -> Maps:
        """The maps of activations, each with a head axis; amounts are one array of all steps."""
        given = activations
        if self.foreign:
            from attnflow.records.arrays import copied

            given = copied(activations)  # blocks hold the model's own weights
        with name_failure(f"edges={self.name!r}"):
            made = self.maps(given)
        found = made if isinstance(made, Maps) else Maps(made)
        layers = found.layers
        if self.amounts:
            return Maps(_check_amounts(self.name, layers, activations), found.statistics)
        if not self.fuses_heads:  # attention itself was checked where it came in
            layers = _check_maps(self.name, layers, activations)
            layers = [_carry(each, activations.carried_by(n)) for n, each in enumerate(layers)]
        layers = [each[None] if each.ndim == 2 else each for each in layers]
        return Maps(layers, found.statistics)


def _carry(layer: Array, positions: list[int]) -> Array:
    """A map in which these positions stay what they are, as they do in attention."""
    if not positions:
        return layer
    from attnflow.records.arrays import to_numpy

    layer = to_numpy(layer).copy()
    layer[..., positions, :] = 0.0
    layer[..., positions, positions] = 1.0
    return layer


def _check_maps(rule: str, maps: Any, activations: Activations) -> list[Array]:
    """A rule's maps: one array of the right shape per step, finite and not negative."""
    import numpy as np  # it takes its time, and names of rules are listed at once

    from attnflow.records.arrays import to_numpy

    layers = _check_shapes(rule, maps, activations)
    for number, each in enumerate(layers):
        values = to_numpy(each)
        if not (np.isfinite(values) & (values >= 0)).all():
            msg = f"{UNUSABLE.format(rule)} maps[{number}] must hold finite numbers, none negative"
            raise InputError(msg)
    return layers


def _check_amounts(rule: str, maps: Any, activations: Activations) -> Array:
    """Amounts that a rule made, as one array of all steps; they may have a sign."""
    from attnflow.records.arrays import namespace

    layers = _check_shapes(rule, maps, activations)
    if len({tuple(each.shape) for each in layers}) > 1:
        msg = f"{UNUSABLE.format(rule)} its maps have different numbers of heads"
        raise InputError(msg)
    xp = namespace(layers[0])
    for number, each in enumerate(layers):
        if not bool(xp.isfinite(each).all()):
            msg = f"{UNUSABLE.format(rule)} maps[{number}] must hold finite numbers"
            raise InputError(msg)
    return maps if hasattr(maps, "ndim") else xp.stack(layers)


def _check_shapes(rule: str, maps: Any, activations: Activations) -> list[Array]:
    import numpy as np

    from attnflow.records.arrays import check_numbers

    wrong = UNUSABLE.format(rule)
    try:
        layers = [each if hasattr(each, "ndim") else np.asarray(each) for each in maps]
    except (TypeError, ValueError) as error:
        msg = f"{wrong} {type(maps).__name__} is not a sequence of arrays"
        raise InputError(msg) from error
    if len(layers) != len(activations.attention):
        msg = f"{wrong} {len(layers)} maps for {len(activations.attention)} steps of attention"
        raise InputError(msg)
    for number, (each, attention) in enumerate(zip(layers, activations.attention, strict=True)):
        check_numbers(each, f"{wrong} maps[{number}]")
        size = tuple(attention.shape[-2:])
        if each.ndim not in (2, 3) or tuple(each.shape[-2:]) != size:
            shape = f"[query, key] or [head, query, key] with {size[0]} × {size[1]}"
            msg = f"{wrong} maps[{number}] has shape {tuple(each.shape)}; it must be {shape}"
            raise InputError(msg)
    return layers


ATTENTION = EdgeRule(
    name="attention",
    title="Attention",
    maps=lambda activations: activations.attention,
    fuses_heads=True,
    method="flow",
    unit="attention",
)
"""The paper's edges: A = (1 − r)·W + r·I, with W the heads' attention fused and r the residual."""

EDGE_RULES: Registry[EdgeRule] = Registry(
    "edges",
    "EdgeRule",
    {
        "attention": "attnflow.edges.rule:ATTENTION",
        "effective": "attnflow.edges.effective",
        "norms": "attnflow.edges.norms",
        "norms-residual": "attnflow.edges.norms:WITH_RESIDUAL",
        "alti": "attnflow.edges.alti",
        "gradient": "attnflow.edges.gradient",
        "gradient-only": "attnflow.edges.gradient:ONLY",
        "value-zeroing": "attnflow.edges.zeroing",
        "relevance": "attnflow.edges.relevance",
        "removal": "attnflow.edges.removal",
    },
)
