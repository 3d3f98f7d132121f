"""The options that all edge rules share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

from attnflow.errors import InputError

HeadRule = Literal["mean", "max", "min", "each"]
Heads = HeadRule | Sequence[int] | Sequence[float]


@dataclass(frozen=True)
class EdgeOptions:
    """How attention becomes edges.

    Attributes:
        residual: The share of the identity in A = (1 − residual)·W + residual·I; 0 turns it off.
        heads: ``"mean"``, ``"max"`` or ``"min"`` over heads; whole numbers pick heads, whose mean
            is taken; other numbers weigh all heads; ``"each"`` keeps every head (Appendix A.1).
        discard: The ratio of smallest entries of a fused map set to zero, but never the first
            position's to itself.
    """

    residual: float = 0.5
    heads: Heads = "mean"
    discard: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.residual, Real) and 0 <= self.residual < 1):
            msg = f"residual={self.residual!r} must be at least 0 (off) and below 1"
            raise InputError(msg)
        if not (isinstance(self.discard, Real) and 0 <= self.discard < 1):
            msg = f"discard={self.discard!r} must be a ratio: at least 0 (off) and below 1"
            raise InputError(msg)
        if isinstance(self.heads, Real):
            msg = f"heads={self.heads} must be a list: heads=[{self.heads}] picks this head"
            raise InputError(msg)
        rules = get_args(HeadRule)
        known = self.heads in rules if isinstance(self.heads, str) else _are_numbers(self.heads)
        if not known:
            named = ", ".join(map(repr, rules))
            msg = f"heads={self.heads!r} is unknown; allowed: {named}, a list of numbers or weights"
            raise InputError(msg)
        if len(self.heads) == 0:
            msg = "heads=[] picks no head; give head numbers, weights, or a rule such as 'mean'"
            raise InputError(msg)


def _are_numbers(heads: object) -> bool:
    return isinstance(heads, Sequence) and all(isinstance(head, Real) for head in heads)
