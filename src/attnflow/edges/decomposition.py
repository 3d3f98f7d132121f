"""What each position takes from each other one through an attention block, as vectors.

T_ij = Σ_h α^h_ij · v^h_j W^h_O, scaled as the block's output is. Summed over j, with the bias, that
is what the block gives to the residual stream: checked for every layer, so that a block which does
something else is refused and never approximated. T has n² vectors, and none is kept (`Carried`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from attnflow.errors import ModelError
from attnflow.records import Activations, AttentionBlock, FloatArray
from attnflow.records.arrays import contiguous, double, precision, to_numpy

if TYPE_CHECKING:
    from attnflow.edges.carried import Carried

TOLERANCE = {"float16": 3e-2, "bfloat16": 5e-2}  # relative; half precision rounds its own output
USUAL_TOLERANCE = 1e-4
PACKED_TOLERANCE = 5e-2  # of projections that round what they read to 8 bits
CANCELLED = {"float16": 1.0, "bfloat16": 1.0}  # of the parts' sizes: a smaller sum is rounding
USUAL_CANCELLED = 0.1
ROUNDING = {"float16": 1e-2, "bfloat16": 1e-2, "float64": 1e-13}
USUAL_ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class LayerParts:
    """One layer's attention block, ready to be taken apart; all but the attention in float64.

    Attributes:
        attention: ``[head, query, key]``, in float32 or float64.
        values: ``[head, key, dimension]``.
        weights: ``[head, dimension, model dimension]``: the output projection after each head.
        row_scale: ``[query, 1]``: factors on what a position takes.
        residual: ``[query, model dimension]``, or ``None``.
        norm: The weight of the norm after the addition divided by each position's deviation, as
            ``[model dimension]`` and ``[query, 1]``; ``None`` for pre-norm blocks.
        rounding: How far from each other vectors may be that were to be equal, as a ratio.
    """

    attention: FloatArray
    values: FloatArray
    weights: FloatArray
    row_scale: FloatArray | None
    residual: FloatArray | None
    norm: tuple[FloatArray, FloatArray] | None
    rounding: float

    @cached_property
    def projected(self) -> FloatArray:
        """``[head, key, model dimension]``: the values after the output projection."""
        made: FloatArray = np.matmul(self.values, self.weights)
        return made

    @property
    def narrow(self) -> FloatArray:
        """``[head, key, dimension]``: as ``projected``, of the heads' own width.

        With W = R^T·Q^T, Q orthonormal, V·W and V·R^T have the same linear dependences.
        """
        upper = np.linalg.qr(self.weights.transpose(0, 2, 1))[1]
        made: FloatArray = np.matmul(self.values, upper.transpose(0, 2, 1))
        return made

    @cached_property
    def taken(self) -> FloatArray:
        """``[query, model dimension]``: Σ_j T_ij, before a factor of the position."""
        heads = zip(self.attention, self.values, self.weights, strict=True)
        parts = [double(read) @ values @ weights for read, values, weights in heads]
        total: FloatArray = np.sum(parts, 0)
        return total

    def carried(self, *, residual: bool) -> Carried:
        """What T is made of; with ``residual``, that is in T_ii, and all is after the norm."""
        from attnflow.edges.carried import Carried  # importing numba is slow

        by_key = np.ascontiguousarray(self.projected.transpose(1, 0, 2))
        scale = np.ones((len(self.taken), 1)) if self.row_scale is None else self.row_scale
        total, own = self.taken * scale, np.zeros_like(self.taken)
        if residual and self.residual is not None:
            own = self.residual
            if self.norm is not None:
                weight, factor = self.norm
                by_key, total, own = (
                    (each - each.mean(-1, keepdims=True)) * weight for each in (by_key, total, own)
                )
                scale, total, own = scale * factor, total * factor, own * factor
        return Carried(self.attention, by_key, scale[:, 0], own, total + own)


def take_apart(activations: Activations, rule: str, *, residual: bool) -> Iterator[LayerParts]:
    """The attention blocks, layer by layer, checked; ``residual`` says whether it is needed."""
    for number, block in enumerate(activations.blocks or (), start=1):
        where = f"edges={rule!r} can't be used with {activations.model}: in layer {number}"
        if block is None:
            msg = (
                f"{where} the output projection of the attention block was not found. Use "
                "edges='attention'"
            )
            raise ModelError(msg)
        parts = _layer(contiguous(activations.attention[number - 1]), block)
        error = _check_sum(parts, block, activations.carried_by(number - 1))
        limit = allowed(block)
        if not error <= limit:
            msg = (
                f"{where} the parts of the attention block do not add up to its output (off by "
                f"{error:.1e}; allowed {limit:.0e}). Use edges='attention'"
            )
            raise ModelError(msg)
        if residual and block.residual is None:
            msg = (
                f"{where} the residual stream was not found: the block's output is not added to "
                "it alone, or what reads the sum is no layer norm. Use edges='attention'"
            )
            raise ModelError(msg)
        yield parts


def allowed(block: AttentionBlock) -> float:
    """How far the parts of a block may be from adding up, as a ratio."""
    usual = PACKED_TOLERANCE if block.packed else USUAL_TOLERANCE
    return max(usual, TOLERANCE.get(precision(block.output), usual))


def _layer(attention: FloatArray, block: AttentionBlock) -> LayerParts:
    heads = len(attention)
    values = to_numpy(block.values)
    if values.shape[0] != heads:  # grouped heads share their values
        values = values.repeat(heads // values.shape[0], axis=0)
    weight = to_numpy(block.projection)
    by_head = weight.reshape(weight.shape[0], heads, -1).transpose(1, 2, 0)  # [head, dim, model]
    if block.scale is not None:
        by_head = by_head * to_numpy(block.scale)
    residual = None if block.residual is None else to_numpy(block.residual)
    norm = None
    if block.norm_weight is not None and residual is not None:
        total = to_numpy(block.output) + residual
        deviation = np.sqrt(total.var(-1, keepdims=True) + block.norm_epsilon)
        norm = to_numpy(block.norm_weight), 1 / deviation
    scale = None if block.row_scale is None else to_numpy(block.row_scale)
    rounding = ROUNDING.get(precision(block.values), USUAL_ROUNDING)
    return LayerParts(attention, values, by_head, scale, residual, norm, rounding)


def _check_sum(parts: LayerParts, block: AttentionBlock, carried: list[int]) -> float:
    """How far the sum of all parts is from the block's output, in the row where it is farthest.

    Relative to the output, or, where parts cancel out, to what rounding leaves of them.
    """
    total = parts.taken
    sizes = np.linalg.norm(parts.projected, axis=-1)
    pairs = zip(parts.attention, sizes, strict=True)
    room = sum(double(read) @ size for read, size in pairs)[:, None]
    if block.bias is not None:
        bias = to_numpy(block.bias)
        bias = bias if block.scale is None else bias * to_numpy(block.scale)
        total, room = total + bias, room + np.linalg.norm(bias)
    if parts.row_scale is not None:
        total, room = total * parts.row_scale, room * np.abs(parts.row_scale)
    output = to_numpy(block.output)
    floor = CANCELLED.get(precision(block.output), USUAL_CANCELLED) * room[:, 0]
    scale = np.maximum(np.linalg.norm(output, axis=-1), floor)
    apart = np.linalg.norm(total - output, axis=-1) / np.maximum(scale, 1e-300)
    return float(np.delete(apart, carried).max())
