"""How edges are made of a rule's maps: the options that all rules share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

from attnflow.edges.corrections import ON_MAPS
from attnflow.edges.rule import EDGE_RULES
from attnflow.errors import InputError, unknown
from attnflow.records.learned import LearnedHeads

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
        EDGE_RULES[self.rule]
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
