"""Effective attention: attention without the part that changes no output (Brunner et al. 2020).

Where a text is longer than a head is wide, attention A can change without changing A·T, T = V·W_O:
its rows have a part in the left null space of T. Effective attention is A·T·T⁺, per head; where a
mask or a window hides positions, a row has the T of what it sees. Entries may be negative: they are
clipped, and the statistics say how large a share that was.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnflow.edges.decomposition import take_apart
from attnflow.edges.rule import EdgeRule, Maps, Needs
from attnflow.records import Activations, FloatArray
from attnflow.records.arrays import to_numpy

BoolArray = npt.NDArray[np.bool_]


def maps(activations: Activations) -> Maps:
    """A·T·T⁺ for every layer and head, negative entries clipped."""
    found, clipped, total = [], 0.0, 0.0
    for parts in take_apart(activations, "effective", residual=False):
        seen = parts.attention.max(0) > 0
        pairs = zip(to_numpy(parts.attention), parts.narrow, strict=True)
        signed = np.stack([project(a, of, seen, parts.rounding) for a, of in pairs])
        clipped -= float(np.minimum(signed, 0.0).sum())
        total += float(np.abs(signed).sum())
        found.append(np.maximum(signed, 0.0))
    return Maps(found, {"clipped_share": clipped / total if total else 0.0})


def project(
    attention: FloatArray, vectors: FloatArray, seen: BoolArray, rounding: float
) -> FloatArray:
    """Rows of attention ``[query, key]`` projected on the column space of ``[key, dimension]``.

    ``seen``, ``[query, key]``, says which positions a row is made of; ``rounding`` how small, as a
    ratio, a direction is that the model's rounding made.
    """
    if seen.all():
        basis = column_space(vectors, rounding)
        whole: FloatArray = attention @ basis @ basis.T
        return whole
    projected = np.zeros_like(attention)
    for query, row in enumerate(attention):
        keys = np.flatnonzero(seen[query])
        basis = column_space(vectors[keys], rounding)
        projected[query, keys] = row[keys] @ basis @ basis.T
    return projected


def column_space(vectors: FloatArray, rounding: float) -> FloatArray:
    """An orthonormal basis of the columns of ``[key, dimension]``, as ``[key, rank]``."""
    basis, sizes, _ = np.linalg.svd(vectors, full_matrices=False)
    kept: FloatArray = basis[:, sizes > sizes.max(initial=0.0) * rounding]
    return kept


MEMBER = EdgeRule(
    "effective", "Effective attention", maps, Needs(blocks=True), unit="effective attention"
)
