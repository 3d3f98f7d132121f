"""Maps of all layers on a GPU, where they take most of the memory and can't be there twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attnflow.records.arrays import namespace, to_numpy
from attnflow.records.types import Array


class DeviceLayers:
    """Maps ``[layer, query, key]``, a tensor each, which were never copied into one.

    Amounts may be ``without_first``: those to the first token are left out of what is read. What
    does not know these layers may ask NumPy for a dense array of them.
    """

    ndim = 3

    def __init__(self, given: Sequence[Array], *, without_first: bool = False) -> None:
        self.given = given
        self.without_first = without_first
        self.shape = (len(given), *given[0].shape)
        self.dtype = given[0].dtype

    @property
    def nbytes(self) -> int:
        """How much memory they hold."""
        return sum(int(each.nbytes) for each in self.given)

    def __len__(self) -> int:
        return len(self.given)

    def __iter__(self) -> Iterator[Array]:
        return (self[at] for at in range(len(self)))

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return DeviceLayers(self.given[at], without_first=self.without_first)
        return without_first(self.given[at]) if self.without_first else self.given[at]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """All of them as NumPy."""
        return np.stack([to_numpy(each) for each in self]).astype(dtype or np.float64, copy=False)

    def stacked(self) -> Array:
        """All of them as one tensor, which takes as much memory again."""
        return namespace(self.given[0]).stack(list(self))


def without_first(amounts: Array) -> Array:
    """Amounts ``[…, query, key]`` without those that go to the first token, but its own."""
    made = namespace(amounts).concat([amounts[..., :1] * 0, amounts[..., 1:]], -1)
    made[..., 0, 0] = amounts[..., 0, 0]
    return made
