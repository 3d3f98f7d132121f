"""Everything that decides what `explain` computes, validated once, before any work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from attnflow.aggregation import AGGREGATORS, Aggregator
from attnflow.edges import EDGE_RULES, EdgeRule
from attnflow.edges.corrections import CAUSAL_DEFAULT, CORRECTIONS, ON_MAPS
from attnflow.edges.heads import fuse_heads
from attnflow.edges.options import EdgeOptions, Heads, check_heads
from attnflow.errors import InputError, shown
from attnflow.io.inputs import check_choice
from attnflow.pipeline.arguments import (
    plain_heads,
    plain_layer,
    plain_layers,
    plain_query,
    plain_share,
)
from attnflow.records.checks import check_flag
from attnflow.records.selection import is_integer, resolve, resolve_all
from attnflow.solvers.execution import Execution

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.capture.spec import CaptureSpec

Query = int | str | None
TargetSpec = str | int | None
Layers = int | Iterable[int] | Literal["all"] | None


def check_single_heads(method: str) -> None:
    """Refuse single heads for a method that knows merged ones only."""
    if not AGGREGATORS[method].single_heads:
        msg = (
            f"method={method!r} needs merged heads; leave out heads='each', or pick some by number"
        )
        raise InputError(msg)


@dataclass(frozen=True)
class ExplainConfig:
    """A method with all its options. See `attnflow.explain` for what they mean."""

    method: str = "flow"
    edges: str = "attention"
    layer: int | None = None
    layers: Layers = None
    query: Query = None
    heads: Heads = "mean"
    residual: float | None = None
    discard: float = 0.0
    correction: str | None = "auto"
    normalize: bool = False
    words: bool = False
    target: TargetSpec | Sequence[TargetSpec] = None
    contrast: TargetSpec = None
    truncate: bool = False
    strict: bool = False
    execution: Execution = Execution()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        for name, value in self._plain().items():
            object.__setattr__(self, name, value)
        check_heads(self.heads)
        known = self.correction is None or isinstance(self.correction, str)
        if not known or self.correction not in (None, "auto", *CORRECTIONS):
            msg = (
                f"correction={shown(self.correction)} is unknown; allowed: "
                f"{', '.join(CORRECTIONS)}, 'auto', or None for the plain method"
            )
            raise InputError(msg)
        if self.residual is not None and self.rule.residual == "measured":
            msg = (
                f"residual={self.residual!r} can't be chosen: edges={self.edges!r} measures it; "
                "leave residual out"
            )
            raise InputError(msg)
        if not (
            self.contrast is None or isinstance(self.contrast, str) or is_integer(self.contrast)
        ):
            msg = f"contrast={self.contrast!r} must be one label or token, by name or number"
            raise InputError(msg)
        self.edge_options(self.method)
        if self.heads == "each":
            check_single_heads(self.method)

    def _plain(self) -> dict[str, Any]:
        """The options as plain values, whichever library their numbers and lists are of."""
        flags = {name: getattr(self, name) for name in ("normalize", "words", "truncate")}
        return {
            "heads": plain_heads(self.heads),
            "layer": plain_layer(self.layer),
            "layers": plain_layers(self.layers),
            "query": plain_query(self.query),
            "residual": plain_share("residual", self.residual),
            "discard": plain_share("discard", self.discard),
            "contrast": check_choice("contrast", self.contrast),
            **{name: check_flag(name, value) for name, value in flags.items()},
        }

    @property
    def aggregator(self) -> Aggregator:
        """The method."""
        return AGGREGATORS[self.method]

    @property
    def rule(self) -> EdgeRule:
        """The edge rule."""
        return EDGE_RULES[self.edges]

    def residual_of(self, method: str) -> float:
        """The share of the residual connection that a method gets."""
        if self.rule.residual == "measured":
            return 0.0
        return AGGREGATORS[method].residual if self.residual is None else self.residual

    def edge_options(self, method: str, correction: str | None = None) -> EdgeOptions:
        """How a method's edges are built, with a correction of `correction_for`."""
        map_correction = correction if correction in ON_MAPS else None
        return EdgeOptions(
            self.residual_of(method), self.heads, self.discard, self.edges, map_correction
        )

    def correction_for(self, *, causal: bool, size: int) -> str | None:
        """The correction that an input gets; ``None`` is the plain method."""
        if self.correction == "auto":
            # Even attention is no measure of edges that are made of something else.
            return CAUSAL_DEFAULT if causal and self.rule.fuses_heads else None
        if self.correction and not causal and size > 1:
            msg = (
                f"correction={self.correction!r} is for causal decoders, and this model is not one"
                "; leave it out"
            )
            raise InputError(msg)
        return self.correction

    def resolve_layers(self, depth: int) -> tuple[tuple[int, ...], int]:
        """The layers that are computed, counted from 1, and the one that is explained."""
        if self.layers is None:
            layer = resolve("layer", -1 if self.layer is None else self.layer, 1, depth, depth + 1)
            return (layer,), layer
        given = None if isinstance(self.layers, str) else self.layers
        if given == ():
            msg = "layers=[] computes nothing; give numbers 1 … L, 'all', or None for the top one"
            raise InputError(msg)
        chosen = sorted(set(resolve_all("layers", given, 1, depth, depth + 1)))
        if self.layer is None:
            return tuple(chosen), chosen[-1]
        layer = resolve("layer", self.layer, 1, depth, depth + 1)
        if layer not in chosen:
            msg = f"layer={self.layer} is not one of layers={self.layers}; add it, or leave it out"
            raise InputError(msg)
        return tuple(chosen), layer

    def capture(self, *, all_heads: bool = False) -> CaptureSpec:
        """What to capture in a forward pass: heads are fused at once, unless each is needed."""
        from attnflow.models.capture.spec import CaptureSpec

        needs = self.rule.needs
        each = all_heads or self.heads == "each" or not self.rule.fuses_heads
        return CaptureSpec(
            fuse=None if each else self.fuse,
            blocks=needs.blocks,
            gradients=needs.gradients,
            zeroing=needs.zeroing,
        )

    def fuse(self, attention: Tensor) -> Tensor:
        """``[batch, head, query, key]`` → ``[batch, query, key]``, while the model runs."""
        if self.heads == "mean":
            return attention.mean(1)  # in the model's precision: float64 is for what comes after
        fused: Tensor = fuse_heads(attention, self.heads)
        return fused

    def describe(self, method: str, correction: str | None) -> dict[str, Any]:
        """The options that scores of a method were computed with."""
        return {
            "edges": self.edges,
            "layer": -1 if self.layer is None else self.layer,
            "query": self.query,
            "heads": self.heads if isinstance(self.heads, str) else list(self.heads),
            "residual": self.residual_of(method),
            "discard": self.discard,
            "correction": correction,
            "normalize": self.normalize,
        }
