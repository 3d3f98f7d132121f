"""The edges of a target's logit, which lead to every layer (Ferrando et al. 2023).

The residual stream where the model decides is the sum of what it starts with, of what each
attention block takes there from each position, and of what MLPs and biases add. The final norm, its
scale held, and the projection make of each part its contribution to the centred logit. The logit
takes from node (l − 1, j) the positive part of what layer l's block takes from j.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnflow.edges.decomposition import TOLERANCE, USUAL_TOLERANCE, take_apart
from attnflow.errors import ModelError
from attnflow.records import Activations, FloatArray, LayeredGraph
from attnflow.records.arrays import precision, to_numpy


@dataclass(frozen=True, eq=False)
class LogitParts:
    """What a target's centred logit is the sum of.

    Attributes:
        attention: ``[layer, key]``: what each attention block took from each position.
        start: What the residual stream starts with: the embedding of the deciding position.
        biases: ``[layer]``: of the attention blocks.
        mlps: ``[layer]``.
        constant: Of the final norm's and the projection's biases.
        value: The logit less the mean of all logits, or than the contrast's, as the model has it.
        position: Where the model decides.
    """

    attention: FloatArray
    start: float
    biases: FloatArray
    mlps: FloatArray
    constant: float
    value: float
    position: int

    @property
    def total(self) -> float:
        """All parts together, which is ``value`` but for rounding."""
        layers = self.attention.sum() + self.biases.sum() + self.mlps.sum()
        return float(self.start + layers + self.constant)

    @cached_property
    def shares(self) -> FloatArray:
        """``[layer, key]``: the logit's edges to the nodes below each layer; they sum to 1."""
        edges = np.maximum(self.attention, 0.0)
        edges[0, self.position] += max(self.start, 0.0)
        total = edges.sum()
        if not total > 0:
            msg = (
                "source='logit': no attention block speaks for this target, so that its logit has "
                "no edges; name another target"
            )
            raise ModelError(msg)
        shares: FloatArray = edges / total
        return shares

    @property
    def statistics(self) -> dict[str, float]:
        """What the logit is made of, and how much the edges leave out."""
        return {
            "logit": self.value,
            "logit_attention": float(self.attention.sum()),
            "logit_start": self.start,
            "logit_mlps": float(self.mlps.sum()),
            "logit_biases": float(self.biases.sum()) + self.constant,
            "logit_against": float(np.minimum(self.attention, 0.0).sum() + min(self.start, 0.0)),
        }


def take_logit_apart(activations: Activations, rule: str) -> LogitParts:
    """The parts of the target's logit, checked: where they don't make it up, an error says so."""
    readout = activations.readout
    where = f"source='logit' can't be used with {activations.model}"
    if readout is None:
        msg = (
            f"{where}: a final norm and a projection right after it that make its logits were not "
            "found (encoders' heads, capped or scaled logits and several deciding positions have "
            "none). Leave source out"
        )
        raise ModelError(msg)
    at, towards = readout.position, to_numpy(readout.direction)
    attention, biases, mlps, sizes = [], [], [], []
    stream = start = None
    limit = USUAL_TOLERANCE
    blocks = activations.blocks or ()
    for number, parts in enumerate(take_apart(activations, rule, residual=True)):
        block = blocks[number]
        if block is None or parts.residual is None or parts.norm is not None:
            msg = f"{where}: norms come after its blocks, whose outputs don't add up to the stream"
            raise ModelError(msg)
        limit = TOLERANCE.get(precision(block.output), USUAL_TOLERANCE)
        before = parts.residual[at]
        if stream is None:
            start = before
        elif not np.linalg.norm(before - stream) <= limit * np.linalg.norm(stream):
            msg = f"{where}: layer {number + 1} does not go on with the stream of the layer below"
            raise ModelError(msg)
        scale = 1.0 if parts.row_scale is None else float(parts.row_scale[at, 0])
        seen = np.einsum("hk,hk->k", parts.attention[:, at], parts.projected @ towards) * scale
        output = to_numpy(block.output)[at]
        stream = readout.streams[number]
        attention.append(seen)
        biases.append(output @ towards - seen.sum())
        mlps.append((stream - before - output) @ towards)
        sizes.append(np.abs(seen).sum() + abs(biases[-1]) + abs(mlps[-1]))
    found = LogitParts(
        np.array(attention),
        float(start @ towards),
        np.array(biases),
        np.array(mlps),
        readout.constant,
        readout.value,
        at,
    )
    room = max(abs(found.value), abs(found.start) + abs(found.constant) + sum(sizes))
    if not abs(found.total - found.value) <= limit * room:
        msg = (
            f"{where}: its parts make {found.total:.4g}, and the logit less the mean is "
            f"{found.value:.4g}, so that something else is between them. Leave source out"
        )
        raise ModelError(msg)
    return found


def with_logit(graph: LayeredGraph, shares: FloatArray, *, capacities: bool) -> LayeredGraph:
    """The graph with one more position that stands for the logit in every layer, the last one.

    From layer l it leads to the nodes of l − 1 by the shares of l, and to itself by those of the
    layers below, so that what starts there has just the edges of the logit. As capacities they are
    the shares themselves, else ratios that sum to 1 in every layer.
    """
    weights = to_numpy(graph.weights)
    depth, size = weights.shape[:2]
    wider = np.zeros((depth, size + 1, size + 1))
    wider[:, :size, :size] = weights
    wider[:, size, :size] = shares
    below = np.cumsum(shares.sum(-1))
    wider[1:, size, size] = below[:-1]
    if not capacities:
        wider[:, size] /= np.where(below > 0, below, 1.0)[:, None]
    return LayeredGraph(wider, statistics=graph.statistics)
