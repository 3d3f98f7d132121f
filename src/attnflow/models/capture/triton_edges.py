"""The kernels of `attnflow.models.capture.kernels`; importing this needs Triton."""

# mypy: ignore-errors
# ruff: noqa: PLR0913, N803, ANN001, ANN201, SIM102 - Triton: pointers, strides, sizes

import triton
import triton.language as tl

NEVER = tl.constexpr(float("-inf"))


@triton.jit
def load_tile(pointer, along, step, across, wide, rows):
    """``[along, across]`` of a matrix whose rows are ``step`` apart, zeros outside of it."""
    inside = (along < rows)[:, None] & (across < wide)[None, :]
    return tl.load(pointer + along[:, None] * step + across[None, :], mask=inside, other=0.0)


@triton.jit
def product(first, second, EXACT: tl.constexpr):
    """Rows by rows; in full precision where the numbers are of float32."""
    return tl.dot(first, tl.trans(second), input_precision="ieee" if EXACT else "tf32")


@triton.jit
def scores_of(
    q, k, masked, m2, m3, at, to, queries, keys, scale,
    CAUSAL: tl.constexpr, MASK: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """The scores of a tile; minus infinity where nothing is seen."""
    found = product(q, k, EXACT) * scale
    seen = (at < queries)[:, None] & (to < keys)[None, :]
    if CAUSAL:
        seen = seen & (to[None, :] <= at[:, None])
    if MASK != 0:
        where = masked + at[:, None] * m2 + to[None, :] * m3
        if MASK == 1:
            seen = seen & (tl.load(where, mask=seen, other=0) != 0)
        else:
            found = found + tl.load(where, mask=seen, other=0.0)
    return tl.where(seen, found, NEVER)


@triton.jit
def rows_kernel(
    query, key, value, gradient, masked, sums, means, into,
    q0, q1, q2, k0, k1, k2, v0, v1, v2, g0, g1, g2, m0, m1, m2, m3, o0, o1, o2, o3,
    heads, queries, keys, width, depth, scale, least,
    GROUPS: tl.constexpr, CAUSAL: tl.constexpr, MASK: tl.constexpr, EXACT: tl.constexpr,
    WIDE: tl.constexpr, DEEP: tl.constexpr, REMOVAL: tl.constexpr, EACH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Of each row the logarithm of what its exponentials sum to; for removal Σ A ∇A, too."""
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    at = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    across = tl.arange(0, WIDE)
    q = load_tile(query + batch * q0 + head * q1, at, q2, across, width, queries)
    keys_of = key + batch * k0 + (head // GROUPS) * k1
    mask_of = masked + batch * m0 + head * m1
    stop = keys
    if CAUSAL:
        stop = tl.minimum(keys, (tl.program_id(0) + 1) * ROWS)
    largest = tl.full([ROWS], NEVER, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    for start in range(0, stop, COLUMNS):
        to = (start + tl.arange(0, COLUMNS)).to(tl.int64)
        k = load_tile(keys_of, to, k2, across, width, keys)
        s = scores_of(q, k, mask_of, m2, m3, at, to, queries, keys, scale, CAUSAL, MASK, EXACT)
        new = tl.maximum(largest, tl.max(s, 1))
        held = tl.where(new == NEVER, 0.0, new)  # of rows that have seen nothing yet
        total = total * tl.exp(largest - held) + tl.sum(tl.exp(s - held[:, None]), 1)
        largest = new
    found = tl.where(total > 0, largest + tl.log(total), 0.0)  # any, where nothing is seen
    place = (batch * heads + head) * queries + at
    tl.store(sums + place, found, mask=at < queries)
    if REMOVAL:
        along = tl.arange(0, DEEP)
        g = load_tile(gradient + batch * g0 + head * g1, at, g2, along, depth, queries)
        values_of = value + batch * v0 + (head // GROUPS) * v1
        mean = tl.zeros([ROWS], tl.float32)
        for start in range(0, stop, COLUMNS):
            to = (start + tl.arange(0, COLUMNS)).to(tl.int64)
            k = load_tile(keys_of, to, k2, across, width, keys)
            s = scores_of(q, k, mask_of, m2, m3, at, to, queries, keys, scale, CAUSAL, MASK, EXACT)
            v = load_tile(values_of, to, v2, along, depth, keys)
            mean += tl.sum(tl.exp(s - found[:, None]) * product(g, v, EXACT), 1)
        tl.store(means + place, mean, mask=at < queries)


@triton.jit
def edges_kernel(
    query, key, value, gradient, masked, sums, means, into,
    q0, q1, q2, k0, k1, k2, v0, v1, v2, g0, g1, g2, m0, m1, m2, m3, o0, o1, o2, o3,
    heads, queries, keys, width, depth, scale, least,
    GROUPS: tl.constexpr, CAUSAL: tl.constexpr, MASK: tl.constexpr, EXACT: tl.constexpr,
    WIDE: tl.constexpr, DEEP: tl.constexpr, REMOVAL: tl.constexpr, EACH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A tile of the map, one head after the other."""
    if CAUSAL:
        if tl.program_id(1) * COLUMNS >= (tl.program_id(0) + 1) * ROWS:
            return  # nothing is visible, and the map is zeros
    batch = tl.program_id(2).to(tl.int64)
    at = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    to = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)).to(tl.int64)
    across, along = tl.arange(0, WIDE), tl.arange(0, DEEP)
    rows = at < queries
    whole = rows[:, None] & (to < keys)[None, :]
    out = into + batch * o0 + at[:, None] * o2 + to[None, :] * o3
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for number in range(heads):
        head = tl.cast(number, tl.int64)
        group = head // GROUPS
        q = load_tile(query + batch * q0 + head * q1, at, q2, across, width, queries)
        k = load_tile(key + batch * k0 + group * k1, to, k2, across, width, keys)
        mask_of = masked + batch * m0 + head * m1
        s = scores_of(q, k, mask_of, m2, m3, at, to, queries, keys, scale, CAUSAL, MASK, EXACT)
        place = (batch * heads + head) * queries + at
        weights = tl.exp(s - tl.load(sums + place, mask=rows, other=0.0)[:, None])
        g = load_tile(gradient + batch * g0 + head * g1, at, g2, along, depth, queries)
        v = load_tile(value + batch * v0 + group * v1, to, v2, along, depth, keys)
        passed = product(g, v, EXACT)
        if REMOVAL:
            passed = passed - tl.load(means + place, mask=rows, other=0.0)[:, None]
            passed = passed / tl.maximum(1.0 - weights, least)
        passed = weights * passed
        if EACH:
            tl.store(out + head * o1, passed, mask=whole)
        else:
            total += passed
    if not EACH:
        tl.store(out, total, mask=whole)
