"""What each position takes from each other one through an attention block, as vectors.

T_ij = Σ_h α^h_ij · v^h_j W^h_O, scaled as the block's output is. Summed over j, with the bias, that
is what the block gives to the residual stream: checked for every layer, so that a block which does
something else is refused and never approximated. T has n² vectors: it is made for some rows at a
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attnflow.errors import ModelError
from attnflow.records import Activations, AttentionBlock, FloatArray
from attnflow.records.arrays import precision, to_numpy

CHUNK_BYTES = 64 * 1024 * 1024  # of vectors that are held at a time
TOLERANCE = {"float16": 3e-2, "bfloat16": 5e-2}  # relative; half precision rounds its own output
USUAL_TOLERANCE = 1e-4
PACKED_TOLERANCE = 5e-2  # of projections that round what they read to 8 bits
CANCELLED = {"float16": 1.0, "bfloat16": 1.0}  # of the parts' sizes: a smaller sum is rounding
USUAL_CANCELLED = 0.1
ROUNDING = {"float16": 1e-2, "bfloat16": 1e-2, "float64": 1e-13}
USUAL_ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class LayerParts:
    """One layer's attention block, ready to be taken apart; arrays in float64.

    Attributes:
        attention: ``[head, query, key]``.
        projected: ``[head, key, model dimension]``: the values behind the output projection.
        narrow: ``[head, key, dimension]``: vectors with the same linear dependences as
            ``projected``, of the heads' own width.
        row_scale: ``[query, 1]``: factors on what a position takes.
        residual: ``[query, model dimension]``, or ``None``.
        norm: The weight of the norm behind the addition divided by each position's deviation,
            ``[query, model dimension]``; ``None`` for pre-norm blocks.
        rounding: How far from each other vectors may be that were to be equal, as a ratio.
    """

    attention: FloatArray
    projected: FloatArray
    narrow: FloatArray
    row_scale: FloatArray | None
    residual: FloatArray | None
    norm: FloatArray | None
    rounding: float

    def chunks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Rows of T, ``[query, key, model dimension]``, before residual and norm."""
        _, keys, width = self.projected.shape
        queries = self.attention.shape[1]
        step = max(1, CHUNK_BYTES // (8 * keys * width))
        by_key = np.ascontiguousarray(self.projected.transpose(1, 0, 2))  # [key, head, dimension]
        for start in range(0, queries, step):
            rows = slice(start, min(start + step, queries))
            shares = self.attention[:, rows].transpose(2, 1, 0)  # [key, query, head]
            parts = np.matmul(shares, by_key).transpose(1, 0, 2)
            if self.row_scale is not None:
                parts = parts * self.row_scale[rows, None]
            yield rows, parts

    def with_residual(self, vectors: FloatArray, rows: slice) -> FloatArray:
        """Rows of T with the residual in T_ii, behind the linear part of any norm that follows."""
        if self.residual is not None:
            own = np.arange(rows.start, rows.stop)
            vectors[np.arange(len(own)), own] += self.residual[rows]
        if self.norm is None:
            return vectors
        centred = vectors - vectors.mean(-1, keepdims=True)
        scaled: FloatArray = centred * self.norm[rows, None]
        return scaled


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
        parts = _layer(to_numpy(activations.attention[number - 1]), block)
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
    heads = attention.shape[0]
    values = to_numpy(block.values)
    if values.shape[0] != heads:  # grouped heads share their values
        values = values.repeat(heads // values.shape[0], axis=0)
    weight = to_numpy(block.projection)
    by_head = weight.reshape(weight.shape[0], heads, -1).transpose(1, 2, 0)  # [head, dim, model]
    if block.scale is not None:
        by_head = by_head * to_numpy(block.scale)
    projected = np.matmul(values, by_head)
    # With W = R^T·Q^T, Q orthonormal, V·W and V·R^T have the same linear dependences.
    narrow = np.matmul(values, np.linalg.qr(by_head.transpose(0, 2, 1))[1].transpose(0, 2, 1))
    residual = None if block.residual is None else to_numpy(block.residual)
    norm = None
    if block.norm_weight is not None and residual is not None:
        total = to_numpy(block.output) + residual
        deviation = np.sqrt(total.var(-1, keepdims=True) + block.norm_epsilon)
        norm = to_numpy(block.norm_weight) / deviation
    scale = None if block.row_scale is None else to_numpy(block.row_scale)
    rounding = ROUNDING.get(precision(block.values), USUAL_ROUNDING)
    return LayerParts(attention, projected, narrow, scale, residual, norm, rounding)


def _check_sum(parts: LayerParts, block: AttentionBlock, carried: list[int]) -> float:
    """How far the sum of all parts is from the block's output, in the row where it is farthest.

    Relative to the output, or, where parts cancel out, to what rounding leaves of them.
    """
    total = np.einsum("hqk,hkd->qd", parts.attention, parts.projected, optimize=True)
    sizes = np.linalg.norm(parts.projected, axis=-1)
    room = np.einsum("hqk,hk->q", parts.attention, sizes, optimize=True)[:, None]
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
