"""The barrier flow by general means: a dense system of all nodes and edges, in 60 digits."""

import mpmath as mp
import numpy as np

DIGITS = 60


def barrier(weights, query):
    """The flow on the edges below the top layer, ``[layer, query, key]``, from one position.

    Weights are taken as exact but for the rows' sums, which are made to be 1.
    """
    with mp.workdps(DIGITS):
        rows = np.vectorize(mp.mpf)(np.asarray(weights))
        rows = rows / np.array([[[sum(row)] for row in layer] for layer in rows])
        capacity, arrived = rows[:-1], rows[-1, query]
        flow = np.zeros_like(capacity)
        for layer in reversed(range(len(capacity))):  # where to start: inside all limits
            flow[layer] = arrived[:, None] * capacity[layer]
            arrived = flow[layer].sum(0)
        free = (flow > 0) & (capacity - flow > mp.mpf(10) ** (10 - DIGITS))
        flow[free] = _centre(flow[free], capacity[free], _balance(flow.shape)[:, free.ravel()])
        return flow.astype(float)


def _balance(shape):
    """One row per node: what leaves it less what enters it."""
    depth, size, _ = shape
    rows = np.zeros((depth, size, *shape))
    for layer in range(depth):
        for node in range(size):
            rows[layer, node, layer, node, :] += 1
            if layer + 1 < depth:
                rows[layer, node, layer + 1, :, node] -= 1
    return rows.reshape(depth * size, -1)


def _centre(flow, capacity, balance):
    """Where Σ log f + log (c − f) is largest, of all that balance as this flow does."""
    balance = balance[np.abs(balance).sum(1) > 0].astype(object)
    for _ in range(2000):
        left = capacity - flow
        slope, soft = 1 / flow - 1 / left, 1 / (1 / flow**2 + 1 / left**2)
        if not len(balance):
            return flow
        system = mp.matrix(((balance * soft) @ balance.T).tolist())
        right = mp.matrix((balance @ (soft * slope)).tolist())
        prices = np.array(list(mp.lu_solve(system, right)))
        step = soft * (slope - balance.T @ prices)
        decrement = mp.sqrt(sum(step**2 / soft))
        flow = flow + step / (1 + decrement)
        if decrement < mp.mpf(10) ** -25:
            return flow
    msg = "the oracle did not converge"
    raise AssertionError(msg)
