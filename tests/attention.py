"""Random attention of many kinds, for property tests; never symmetric."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

KINDS = ("dense", "peaked", "sparse", "near_zero", "tied", "causal", "sink", "uniform")


def make(kind, depth, size, seed, heads=None):
    rng = np.random.default_rng(seed)
    shape = (depth, size, size) if heads is None else (depth, heads, size, size)
    raw = rng.random(shape)
    if kind == "peaked":
        raw = raw**12
    elif kind == "sparse":
        raw = raw * (rng.random(shape) < 0.3) + np.eye(size) * 1e-3
    elif kind == "near_zero":
        raw = 10.0 ** (-20 * raw)
    elif kind == "tied":
        raw = rng.integers(1, 3, shape).astype(float)
    elif kind == "causal":
        raw = np.tril(raw)
    elif kind == "sink":
        raw = raw + size * (np.arange(size) == 0)
    elif kind == "uniform":
        raw = np.ones(shape)
    return raw / raw.sum(axis=-1, keepdims=True)


attentions = st.builds(
    make,
    kind=st.sampled_from(KINDS),
    depth=st.integers(1, 5),
    size=st.integers(1, 7),
    seed=st.integers(0, 2**32 - 1),
)
