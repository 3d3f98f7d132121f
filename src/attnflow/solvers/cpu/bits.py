"""Sets of positions as bits of 64-bit words: a search looks at 64 edges with one instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import config, njit, types
from numba.extending import intrinsic

from attnflow.solvers.cpu.kernels import KERNEL

Bits = npt.NDArray[np.uint64]
WORD = 64
ONE = np.uint64(1)
SIX, SIXTY_THREE = np.uint64(6), np.uint64(63)


def words(size: int) -> int:
    """How many words hold this many positions.

    >>> words(64), words(65)
    (1, 2)
    """
    return -(-size // WORD)


@intrinsic
def _lowest(typing: Any, word: Any) -> Any:
    # numba offers no such function, and the processor has one instruction for it.
    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.cttz(given[0], context.get_constant(types.boolean, 0))

    return types.uint64(types.uint64), generate


def _plain_lowest(word: np.uint64) -> np.uint64:
    return np.uint64((int(word) & -int(word)).bit_length() - 1)


_compiled = not vars(config)["DISABLE_JIT"]  # set when numba reads its settings
lowest: Any = _lowest if _compiled else _plain_lowest
"""The number of the lowest bit of a word that is set."""


@njit(**KERNEL, inline="always")
def put(bits: Bits, layer: int, row: int, position: int) -> None:
    """Add a position to the set of a row."""
    at = np.uint64(position)
    bits[layer, row, at >> SIX] |= ONE << (at & SIXTY_THREE)


@njit(**KERNEL, inline="always")
def drop(bits: Bits, layer: int, row: int, position: int) -> None:
    """Take a position out of the set of a row."""
    at = np.uint64(position)
    bits[layer, row, at >> SIX] &= ~(ONE << (at & SIXTY_THREE))


@njit(**KERNEL, inline="always")
def holds(bits: Bits, layer: int, row: int, position: int) -> bool:
    """Whether a position is in the set of a row."""
    at = np.uint64(position)
    return bool(bits[layer, row, at >> SIX] >> (at & SIXTY_THREE) & ONE)


@njit(**KERNEL, inline="always")
def common(bits: Bits, layer: int, row: int, front: Bits, number: int) -> int:
    """The lowest position that is in the set of a row and in a front; −1 if none is."""
    found: Any = -1
    for word in range(front.shape[1]):
        both = bits[layer, row, word] & front[number, word]
        if both:
            found = word * WORD + np.int64(lowest(both))
            break
    return int(found)
