"""What a model computed on one input, as far as edge rules use it."""

from __future__ import annotations

from dataclasses import dataclass

from attnflow.errors import InputError
from attnflow.records.kinds import Array


@dataclass(frozen=True, eq=False)
class Activations:
    """Attention probabilities of one input, and what else an edge rule needs.

    Attributes:
        attention: One array per step of attention, ``[head, query, key]``, or ``[query, key]``
            where the heads were already fused. NumPy or torch.
        causal: Whether later positions were hidden from earlier ones.
        ends: The step, counted from 1, at which each layer ends; ``None`` where every step is a
            layer. A decoder layer with cross-attention has two steps.
        gradients: One array per step, ``[head, query, key]``: the gradient of the target by the
            probabilities.
        values: One array per step, ``[head, key, dimension]``: the value vectors.
        projections: One array per step, ``[model dimension, head · dimension]``: the output
            projection, or ``None`` where it was not found.
    """

    attention: tuple[Array, ...]
    causal: bool = False
    ends: tuple[int, ...] | None = None
    gradients: tuple[Array, ...] | None = None
    values: tuple[Array, ...] | None = None
    projections: tuple[Array | None, ...] | None = None

    def __post_init__(self) -> None:
        if not self.attention:
            msg = "activations need at least one layer"
            raise InputError(msg)
        for name in ("gradients", "values", "projections"):
            extra = getattr(self, name)
            if extra is not None and len(extra) != len(self.attention):
                msg = f"{name} has {len(extra)} entries; there are {len(self.attention)} layers"
                raise InputError(msg)
        ends = self.steps
        if list(ends) != sorted(set(ends)) or ends[0] < 1 or ends[-1] != len(self.attention):
            msg = f"ends={ends} must rise from 1 or more to {len(self.attention)}, the last step"
            raise InputError(msg)

    @property
    def steps(self) -> tuple[int, ...]:
        """The step at which each layer ends."""
        return self.ends or tuple(range(1, len(self.attention) + 1))
