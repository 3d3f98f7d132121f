"""Systems of networks of conductances, solved without a subtraction.

Where conductances differ by twenty orders of magnitude, Gaussian elimination loses the small ones
in the differences that its diagonal is made of. Here the diagonal is a sum of what is left of a row
(Grassmann, Taksar and Heyman 1985), so that every solution for a right side without negative
entries is exact to a few last bits in each of its entries.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from attnflow.records import FloatArray


@njit(cache=True, nogil=True)
def solve_network(across: FloatArray, right: FloatArray) -> FloatArray:
    """X with (diagonal − across) · X = right, ``[node, column]``.

    ``across`` are the conductances between nodes, its diagonal is not read. The columns of
    ``right`` but the first are those to other places; with them they make up the diagonal. A node
    that is joined to nothing is 0.
    """
    size, columns = right.shape
    joined, found = across.copy(), right.copy()
    total = np.zeros(size)
    for node in range(size):
        for other in range(node + 1, size):
            total[node] += joined[node, other]
        for column in range(1, columns):
            total[node] += found[node, column]
        if total[node] == 0:
            continue
        for other in range(node + 1, size):
            share = joined[other, node] / total[node]
            if share == 0:
                continue
            for place in range(node + 1, size):
                joined[other, place] += share * joined[node, place]
            for column in range(columns):
                found[other, column] += share * found[node, column]
    for node in range(size - 1, -1, -1):
        if total[node] == 0:
            found[node] = 0
            continue
        for other in range(node + 1, size):
            share = joined[node, other]
            if share != 0:
                for column in range(columns):
                    found[node, column] += share * found[other, column]
        for column in range(columns):
            found[node, column] /= total[node]
    return found
